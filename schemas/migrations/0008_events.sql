-- Something happened, once: an agent started, a device was lost, a clock jumped.
CREATE TABLE IF NOT EXISTS events
(
    ts         DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    id         UUID,
    node       LowCardinality(String),
    device     LowCardinality(String),
    kind       LowCardinality(String),
    message    String CODEC(ZSTD(1)),
    attributes Map(LowCardinality(String), String) CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(ts)
ORDER BY (kind, ts, id)
TTL toDateTime(ts) + INTERVAL 400 DAY
SETTINGS ttl_only_drop_parts = 1
