-- The price books, commitments and directories that invoices were rated with, whole.
CREATE TABLE IF NOT EXISTS invoice_inputs
(
    kind     LowCardinality(String) COMMENT 'book, agreements or directory',
    id       String COMMENT 'SHA-256 of the document',
    document String CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree
ORDER BY (kind, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
