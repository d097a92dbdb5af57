-- An allocation that contador did not meter itself, as imported: GPUs held from start to end by one owner.
CREATE TABLE IF NOT EXISTS allocations
(
    id        UUID COMMENT 'of the content, so that importing twice is importing once',
    start     DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    end       DateTime64(3, 'UTC') COMMENT 'exclusive' CODEC(Delta, ZSTD(1)),
    node      LowCardinality(String),
    device    String CODEC(ZSTD(1)),
    gpu_model LowCardinality(String),
    gpus      UInt32,
    fraction  Decimal(18, 12) COMMENT 'of each GPU, above 0 and up to 1',
    owner     UUID,
    source    LowCardinality(String) COMMENT 'name of the file',
    line      UInt64,
    simulated Bool
)
ENGINE = ReplacingMergeTree
PARTITION BY toYear(start)
ORDER BY (start, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
