-- Commitments and budgets, each set of them whole: the one that was loaded last is in force.
CREATE TABLE IF NOT EXISTS commitments
(
    id        String COMMENT 'hash of the document' CODEC(ZSTD(1)),
    document  String COMMENT 'TOML in canonical form, which reads back to equal agreements' CODEC(ZSTD(3)),
    currency  LowCardinality(String) COMMENT 'ISO 4217',
    loaded_at DateTime64(3, 'UTC') COMMENT 'greater in what was loaded later, whatever the clocks',
    loaded_by String COMMENT 'user and host'
)
ENGINE = ReplacingMergeTree(loaded_at)
ORDER BY (id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
