-- The directory: which department and cost centre a project belongs to, from a day on.
CREATE TABLE IF NOT EXISTS directory
(
    version     LowCardinality(String) COMMENT 'hash of the directory that the entry is from',
    project     String,
    valid_from  Date COMMENT 'first day',
    valid_to    Nullable(Date) COMMENT 'the day after the last one; NULL: until the next entry of the project',
    department  LowCardinality(String),
    cost_centre LowCardinality(String) COMMENT 'empty if it has none',
    entries     UInt32 COMMENT 'how many entries the directory has: with fewer rows it was not loaded whole',
    loaded_at   DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(loaded_at)
ORDER BY (version, project, valid_from)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
