-- One device (GPU or MIG instance) at one instant, wide. NULL: not measured; named in `unsupported`: the device can't tell.
-- A sample that was split over several requests is put together: the value that is not NULL stays.
CREATE TABLE IF NOT EXISTS gpu_samples
(
    ts                 DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    device             LowCardinality(String) CODEC(ZSTD(1)),
    node               LowCardinality(String) CODEC(ZSTD(1)),
    simulated          SimpleAggregateFunction(max, Bool) CODEC(ZSTD(1)),
    unsupported        SimpleAggregateFunction(groupUniqArrayArray, Array(String)) CODEC(ZSTD(1)),
    utilization        Nullable(Float32) COMMENT 'share of the interval in which a kernel ran, 0 to 1' CODEC(Gorilla, ZSTD(1)),
    memory_utilization Nullable(Float32) COMMENT 'share of the interval in which memory was read or written, 0 to 1' CODEC(Gorilla, ZSTD(1)),
    memory_total       Nullable(UInt64) COMMENT 'bytes; used + free + reserved' CODEC(T64, ZSTD(1)),
    memory_used        Nullable(UInt64) COMMENT 'bytes' CODEC(T64, ZSTD(1)),
    memory_free        Nullable(UInt64) COMMENT 'bytes' CODEC(T64, ZSTD(1)),
    memory_reserved    Nullable(UInt64) COMMENT 'bytes' CODEC(T64, ZSTD(1)),
    power_mw           Nullable(UInt32) COMMENT 'milliwatts' CODEC(T64, ZSTD(1)),
    energy_mj          Nullable(UInt64) COMMENT 'millijoules since the driver was loaded; monotonic' CODEC(Delta, ZSTD(1)),
    temperature_c      Nullable(Int16) COMMENT 'degrees Celsius' CODEC(T64, ZSTD(1)),
    clock_sm_mhz       Nullable(UInt32) CODEC(T64, ZSTD(1)),
    clock_memory_mhz   Nullable(UInt32) CODEC(T64, ZSTD(1)),
    clock_graphics_mhz Nullable(UInt32) CODEC(T64, ZSTD(1)),
    processes          Nullable(UInt32) COMMENT 'processes that hold the device' CODEC(T64, ZSTD(1))
)
ENGINE = CoalescingMergeTree
PARTITION BY toDate(ts)
ORDER BY (device, ts)
TTL toDateTime(ts) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1
