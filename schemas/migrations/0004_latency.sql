-- One series, one window of 10 s, one source, one export of that source: cells of latencies in microseconds.
CREATE TABLE IF NOT EXISTS latency
(
    window      DateTime('UTC') COMMENT 'start of the 10 s window that holds the last instant of the interval' CODEC(DoubleDelta, ZSTD(1)),
    start_ts    DateTime64(9, 'UTC') COMMENT 'start of the interval that the counts cover; equal to ts when unknown' CODEC(DoubleDelta, ZSTD(1)),
    ts          DateTime64(9, 'UTC') COMMENT 'end of that interval' CODEC(DoubleDelta, ZSTD(1)),
    series      UUID CODEC(ZSTD(1)),
    source      UUID COMMENT 'who measured: replica, pod, instance' CODEC(ZSTD(1)),
    service     LowCardinality(String) CODEC(ZSTD(1)),
    model       LowCardinality(String) CODEC(ZSTD(1)),
    metric      LowCardinality(String) COMMENT 'request_duration, time_to_first_token, …' CODEC(ZSTD(1)),
    route       LowCardinality(String) CODEC(ZSTD(1)),
    environment LowCardinality(String) CODEC(ZSTD(1)),
    node        LowCardinality(String) CODEC(ZSTD(1)),
    device      LowCardinality(String) CODEC(ZSTD(1)),
    owner       UUID COMMENT 'the owner that served, or the nil UUID' CODEC(ZSTD(1)),
    attributes  Map(LowCardinality(String), String) COMMENT 'every other attribute' CODEC(ZSTD(1)),
    lo          Array(Float64) COMMENT 'lower edges' CODEC(ZSTD(1)),
    hi          Array(Float64) COMMENT 'upper edges; +inf when unknown' CODEC(ZSTD(1)),
    n           Array(UInt64) COMMENT 'values in each cell' CODEC(ZSTD(1)),
    count       UInt64 COMMENT 'sum of n' CODEC(T64, ZSTD(1)),
    sum_us      Nullable(Float64) COMMENT 'sum of the values, where the source tells it' CODEC(ZSTD(1)),
    censored    UInt64 COMMENT 'values among the cells that are lower bounds only' CODEC(T64, ZSTD(1)),
    reset       Bool COMMENT 'the source restarted in this interval' CODEC(ZSTD(1)),
    simulated   Bool CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toDate(window)
ORDER BY (service, metric, toStartOfFiveMinutes(window), series, window, source, ts)
TTL window + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1
