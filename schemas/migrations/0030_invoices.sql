-- Months that are closed. A month is closed when its row is here: facts, lines and inputs are written before it.
CREATE TABLE IF NOT EXISTS invoices
(
    number      UInt32 COMMENT 'from 1, without a gap',
    month       String COMMENT 'such as 2026-10',
    time_zone   LowCardinality(String),
    start_ms    Int64 COMMENT 'Unix milliseconds',
    end_ms      Int64 COMMENT 'Unix milliseconds, exclusive',
    currency    LowCardinality(String) COMMENT 'ISO 4217',
    total       Decimal(38, 6) COMMENT 'of all lines',
    version     LowCardinality(String) COMMENT 'of the program that closed it',
    book        String COMMENT 'SHA-256 of the price book in invoice_inputs',
    agreements  String COMMENT 'SHA-256 of the commitments in invoice_inputs',
    directory   String COMMENT 'SHA-256 of the directory in invoice_inputs; empty if there was none',
    adjustments String COMMENT 'SHA-256 of the month''s adjustments',
    facts       String COMMENT 'SHA-256 of the facts in invoice_facts',
    lines       String COMMENT 'SHA-256 of the lines in invoice_lines',
    corrected   Array(Tuple(String, String)) COMMENT 'earlier months that it corrects, each with the SHA-256 of the facts that its corrections were made of',
    seen_at     DateTime64(3, 'UTC') COMMENT 'by ClickHouse''s clock: rows that were stored up to here are in the facts, later ones may not be',
    counts      String COMMENT 'JSON: what the facts were made of',
    previous    String COMMENT 'hash of the invoice before; empty of the first',
    closed_at   DateTime64(3, 'UTC'),
    closed_by   String,
    note        String,
    hash        String COMMENT 'SHA-256 of all of the above'
)
ENGINE = ReplacingMergeTree
ORDER BY (number, hash)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
