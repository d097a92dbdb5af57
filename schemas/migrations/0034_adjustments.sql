-- Credits and charges by hand, and what departments say of their bills. Nothing is ever deleted: a withdrawal is another row.
CREATE TABLE IF NOT EXISTS adjustments
(
    id           String COMMENT 'hash of what it says',
    month        String COMMENT 'such as 2026-10: in whose bill it is',
    department   LowCardinality(String),
    project      String,
    kind         LowCardinality(String) COMMENT 'credit, charge, dispute, accept or resolve',
    amount       Decimal(38, 6) COMMENT 'negative: a credit; 0 of what changes no amount',
    currency     LowCardinality(String) COMMENT 'ISO 4217; empty of what changes no amount',
    reason       String,
    origin_month String COMMENT 'month that it is for, where that is another one',
    line         String COMMENT 'line of a bill that it is for',
    reference    String COMMENT 'number of a ticket or a document; tells equal ones apart',
    withdraws    String COMMENT 'id of the one that it takes back',
    at           DateTime64(3, 'UTC'),
    who          String
)
ENGINE = ReplacingMergeTree
ORDER BY (month, id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
