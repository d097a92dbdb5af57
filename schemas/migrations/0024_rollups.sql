-- How far each roll-up has come. Of several rows of a level the one with the greatest pass counts.
CREATE TABLE IF NOT EXISTS rollups
(
    level     LowCardinality(String) COMMENT 'the table: latency_5m, latency_1h, latency_1d',
    pass      UInt64 COMMENT 'number of the pass, from 1',
    watermark DateTime64(3, 'UTC') COMMENT 'in the level are all windows that end at or before this, with all rows of latency that were stored before it',
    windows   UInt64 COMMENT 'windows that the pass has made',
    finished  DateTime64(3, 'UTC') COMMENT 'when it ended'
)
ENGINE = ReplacingMergeTree(pass)
ORDER BY level
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
