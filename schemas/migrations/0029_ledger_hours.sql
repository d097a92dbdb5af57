-- One device, one UTC hour, one owner: the rows of ledger, summed. Bills read it where no row came since it was made.
CREATE TABLE IF NOT EXISTS ledger_hours
(
    hour          DateTime('UTC') COMMENT 'start of the hour' CODEC(DoubleDelta, ZSTD(1)),
    device        LowCardinality(String) CODEC(ZSTD(1)),
    owner         UUID CODEC(ZSTD(1)),
    kind          LowCardinality(String) CODEC(ZSTD(1)),
    node          LowCardinality(String) COMMENT 'the last one by its name' CODEC(ZSTD(1)),
    held_ms       UInt64 CODEC(T64, ZSTD(1)),
    share_ms      UInt64 CODEC(T64, ZSTD(1)),
    unknown_ms    UInt64 COMMENT 'of share_ms, that of minutes of which it is unknown whether the device was busy' CODEC(T64, ZSTD(1)),
    busy_ms       UInt64 CODEC(T64, ZSTD(1)),
    greater_ms    UInt64 COMMENT 'the greater of share_ms and busy_ms, minute by minute' CODEC(T64, ZSTD(1)),
    memory_mib_ms UInt64 CODEC(T64, ZSTD(1)),
    energy_mj     UInt64 CODEC(T64, ZSTD(1)),
    minutes       UInt64 COMMENT 'how many rows it sums' CODEC(T64, ZSTD(1)),
    simulated     Bool COMMENT 'any of them is of a simulated device' CODEC(ZSTD(1)),
    pass          UInt64 COMMENT 'of two rows the one of the later pass stays' CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree(pass)
PARTITION BY toYYYYMM(hour)
ORDER BY (device, hour, owner, kind)
TTL hour + INTERVAL 3 YEAR
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1
