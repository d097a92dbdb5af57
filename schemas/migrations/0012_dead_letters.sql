-- A row that its table refused for ever, as JSON, with what ClickHouse said. Sent again, it is the same letter.
CREATE TABLE IF NOT EXISTS dead_letters
(
    id     UUID COMMENT 'of the table and the row',
    ts     DateTime64(3, 'UTC') COMMENT 'when it was refused',
    target LowCardinality(String) COMMENT 'the table that refused it',
    error  String CODEC(ZSTD(1)),
    row    String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(ts)
ORDER BY (target, id)
