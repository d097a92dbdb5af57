-- One block device or mount at one instant. Counters are since the kernel's start; NULL: not measured.
-- A sample that was split over several requests is put together: the value that is not NULL stays.
CREATE TABLE IF NOT EXISTS storage_samples
(
    ts            DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    node          LowCardinality(String) CODEC(ZSTD(1)),
    device        LowCardinality(String) CODEC(ZSTD(1)),
    kind          LowCardinality(String) COMMENT 'disk or mount' CODEC(ZSTD(1)),
    simulated     SimpleAggregateFunction(max, Bool) CODEC(ZSTD(1)),
    reads         Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    read_bytes    Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    read_ms       Nullable(UInt64) COMMENT 'time spent on reads; 32 bits wide in the kernel, wraps' CODEC(Delta, ZSTD(1)),
    writes        Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    written_bytes Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    write_ms      Nullable(UInt64) COMMENT 'time spent on writes; 32 bits wide in the kernel, wraps' CODEC(Delta, ZSTD(1)),
    io_ms         Nullable(UInt64) COMMENT 'time with any request in flight; 32 bits wide in the kernel, wraps' CODEC(Delta, ZSTD(1)),
    in_flight     Nullable(UInt64) CODEC(T64, ZSTD(1)),
    reachable     Nullable(Bool) COMMENT 'mounts: whether the probe came back' CODEC(ZSTD(1)),
    probe_ms      Nullable(UInt32) COMMENT 'mounts: how long the probe took' CODEC(T64, ZSTD(1))
)
ENGINE = CoalescingMergeTree
PARTITION BY toDate(ts)
ORDER BY (node, device, ts)
TTL toDateTime(ts) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1
