-- Who did what, when. Each row has the hash of the one before, so that none can be changed, taken out or put in unseen.
CREATE TABLE IF NOT EXISTS audit
(
    number   UInt64 COMMENT 'from 1, without a gap',
    at       DateTime64(3, 'UTC'),
    who      String,
    action   LowCardinality(String),
    subject  String,
    details  String,
    previous String COMMENT 'hash of the row before; empty of the first',
    hash     String COMMENT 'SHA-256 of all of the above'
)
ENGINE = ReplacingMergeTree
ORDER BY (number, hash)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
