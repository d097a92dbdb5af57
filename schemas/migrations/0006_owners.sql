-- What an owner id means.
CREATE TABLE IF NOT EXISTS owners
(
    id          UUID,
    kind        LowCardinality(String),
    environment LowCardinality(String),
    cluster     LowCardinality(String),
    namespace   LowCardinality(String),
    pod         String,
    container   String,
    job         String,
    user        LowCardinality(String),
    department  LowCardinality(String),
    project     LowCardinality(String),
    experiment  String,
    service     LowCardinality(String),
    model       LowCardinality(String),
    command     String
)
ENGINE = ReplacingMergeTree
ORDER BY id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
