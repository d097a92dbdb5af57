-- Any other OTLP number: one series at one instant. NULL: the sender says that there was no value.
CREATE TABLE IF NOT EXISTS metrics
(
    ts         DateTime64(9, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    start_ts   Nullable(DateTime64(9, 'UTC')) CODEC(ZSTD(1)),
    series     UUID CODEC(ZSTD(1)),
    name       LowCardinality(String) CODEC(ZSTD(1)),
    unit       LowCardinality(String) CODEC(ZSTD(1)),
    instrument LowCardinality(String) COMMENT 'gauge, sum_cumulative, sum_delta' CODEC(ZSTD(1)),
    monotonic  Bool CODEC(ZSTD(1)),
    service    LowCardinality(String) CODEC(ZSTD(1)),
    node       LowCardinality(String) CODEC(ZSTD(1)),
    attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    value      Nullable(Float64) CODEC(Gorilla, ZSTD(1)),
    value_int  Nullable(Int64) COMMENT 'the exact value, where the sender sent a whole number' CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toDate(ts)
ORDER BY (name, series, ts)
TTL toDateTime(ts) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1
