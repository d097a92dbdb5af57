-- The price book: what one GPU of a model costs for an hour, from an instant on.
CREATE TABLE IF NOT EXISTS prices
(
    book       LowCardinality(String) COMMENT 'hash of the book that the rate is from',
    gpu_model  LowCardinality(String) COMMENT 'as the driver names it; * for any other',
    valid_from DateTime('UTC'),
    rate       Decimal(38, 12) COMMENT 'a GPU-hour',
    currency   LowCardinality(String) COMMENT 'ISO 4217',
    loaded_at  DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(loaded_at)
ORDER BY (book, gpu_model, valid_from)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
