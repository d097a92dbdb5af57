-- What a service answered in an interval, by model, owner and source: what a cost per request or token is divided by.
CREATE TABLE IF NOT EXISTS served
(
    window        DateTime('UTC') COMMENT 'start of the 10 s window that holds the last instant of the interval' CODEC(DoubleDelta, ZSTD(1)),
    start_ts      DateTime64(9, 'UTC') COMMENT 'start of the interval that the counts cover; equal to ts when unknown' CODEC(DoubleDelta, ZSTD(1)),
    ts            DateTime64(9, 'UTC') COMMENT 'end of that interval' CODEC(DoubleDelta, ZSTD(1)),
    source        UUID COMMENT 'who counted: replica, pod, instance' CODEC(ZSTD(1)),
    service       LowCardinality(String) CODEC(ZSTD(1)),
    model         LowCardinality(String) CODEC(ZSTD(1)),
    environment   LowCardinality(String) CODEC(ZSTD(1)),
    node          LowCardinality(String) CODEC(ZSTD(1)),
    device        LowCardinality(String) CODEC(ZSTD(1)),
    owner         UUID COMMENT 'the owner that served, or the nil UUID' CODEC(ZSTD(1)),
    requests      Nullable(UInt64) COMMENT 'answered to their end; NULL: the source does not count them' CODEC(T64, ZSTD(1)),
    aborted       Nullable(UInt64) COMMENT 'ended before they were answered' CODEC(T64, ZSTD(1)),
    input_tokens  Nullable(UInt64) CODEC(T64, ZSTD(1)),
    output_tokens Nullable(UInt64) CODEC(T64, ZSTD(1)),
    simulated     Bool CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(window)
ORDER BY (service, model, environment, owner, device, window, source, ts)
TTL window + INTERVAL 3 YEAR
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1
