-- What one collector knows of one running total of latencies: its last points, from which any collector can go on counting.
CREATE TABLE IF NOT EXISTS latency_totals
(
    total        UUID COMMENT 'of the series and the source' CODEC(ZSTD(1)),
    writer       UUID COMMENT 'the collector; the nil UUID: since when totals are kept' CODEC(ZSTD(1)),
    version      UInt64 COMMENT 'greater in what the writer knew later' CODEC(ZSTD(1)),
    written      DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)),
    series       UUID CODEC(ZSTD(1)),
    source       UUID CODEC(ZSTD(1)),
    ts           DateTime64(9, 'UTC') COMMENT 'time of the last point' CODEC(DoubleDelta, ZSTD(1)),
    acknowledged DateTime64(9, 'UTC') COMMENT 'time of the last point whose row is known to be stored' CODEC(DoubleDelta, ZSTD(1)),
    points       String COMMENT 'the points, encoded' CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (total, writer)
TTL written + INTERVAL 14 DAY
SETTINGS index_granularity = 256, fsync_after_insert = 1, fsync_part_directory = 1
