-- CPU and memory of one node at one instant. CPU times are counters since the node's start.
-- A sample that was split over several requests is put together: the value that is not NULL stays.
CREATE TABLE IF NOT EXISTS node_samples
(
    ts               DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    node             LowCardinality(String) CODEC(ZSTD(1)),
    cpus             Nullable(UInt32) CODEC(T64, ZSTD(1)),
    cpu_user_ms      Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    cpu_nice_ms      Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    cpu_system_ms    Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    cpu_idle_ms      Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    cpu_iowait_ms    Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    cpu_interrupt_ms Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    cpu_steal_ms     Nullable(UInt64) CODEC(Delta, ZSTD(1)),
    load_1m          Nullable(Float32) CODEC(Gorilla, ZSTD(1)),
    memory_total     Nullable(UInt64) COMMENT 'bytes' CODEC(T64, ZSTD(1)),
    memory_available Nullable(UInt64) COMMENT 'bytes' CODEC(T64, ZSTD(1)),
    memory_free      Nullable(UInt64) COMMENT 'bytes' CODEC(T64, ZSTD(1)),
    memory_buffers   Nullable(UInt64) COMMENT 'bytes' CODEC(T64, ZSTD(1)),
    memory_cached    Nullable(UInt64) COMMENT 'bytes' CODEC(T64, ZSTD(1))
)
ENGINE = CoalescingMergeTree
PARTITION BY toDate(ts)
ORDER BY (node, ts)
TTL toDateTime(ts) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1
