-- One device, one UTC minute, one owner. Over the owners of a device's minute, share_ms sums to 60000 and energy_mj to
-- what the device drew.
CREATE TABLE IF NOT EXISTS ledger
(
    minute        DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)),
    device        LowCardinality(String) CODEC(ZSTD(1)),
    owner         UUID CODEC(ZSTD(1)),
    kind          LowCardinality(String) COMMENT 'workload, idle, stranded, unattributed or unmetered' CODEC(ZSTD(1)),
    node          LowCardinality(String) CODEC(ZSTD(1)),
    held_ms       UInt32 COMMENT 'how long the owner held any part of the device' CODEC(T64, ZSTD(1)),
    share_ms      UInt32 COMMENT 'its part of the minute' CODEC(T64, ZSTD(1)),
    busy_ms       UInt32 COMMENT 'its part of the time in which the device was busy' CODEC(T64, ZSTD(1)),
    memory_mib_ms UInt64 COMMENT 'memory held, MiB times milliseconds' CODEC(T64, ZSTD(1)),
    energy_mj     UInt64 COMMENT 'its part of the energy, millijoules' CODEC(T64, ZSTD(1)),
    requests      UInt64 CODEC(T64, ZSTD(1)),
    simulated     Bool CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (device, minute, owner)
TTL minute + INTERVAL 3 YEAR
SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1
