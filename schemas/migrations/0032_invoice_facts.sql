-- The facts that invoices were rated from, so that a month can be rated again without the ledger.
CREATE TABLE IF NOT EXISTS invoice_facts
(
    snapshot       String COMMENT 'SHA-256 of all of them' CODEC(ZSTD(1)),
    number         UInt32 COMMENT 'from 0' CODEC(Delta, ZSTD(1)),
    item           LowCardinality(String) COMMENT 'gpu, storage or network',
    class          LowCardinality(String) COMMENT 'of storage or network',
    kind           LowCardinality(String) COMMENT 'whose time it was: workload, or what else',
    owner          Map(LowCardinality(String), String) COMMENT 'attributes of the owner that are known, with the department of the directory' CODEC(ZSTD(1)),
    owner_kind     LowCardinality(String),
    cost_centre    LowCardinality(String),
    device         LowCardinality(String),
    node           LowCardinality(String),
    gpu_model      LowCardinality(String),
    mig_profile    LowCardinality(String),
    start_ms       Int64 COMMENT 'Unix milliseconds' CODEC(Delta, ZSTD(1)),
    end_ms         Int64 COMMENT 'Unix milliseconds, exclusive' CODEC(Delta, ZSTD(1)),
    imported       Bool,
    simulated      Bool,
    fraction       Bool,
    held           Int64 CODEC(ZSTD(1)),
    allocated      Int128 COMMENT 'GPU-milliseconds times 10^12, and so are the next four' CODEC(ZSTD(1)),
    unknown        Int128 CODEC(ZSTD(1)),
    busy           Int128 CODEC(ZSTD(1)),
    greater        Int128 CODEC(ZSTD(1)),
    instance       Int128 CODEC(ZSTD(1)),
    memory_mib_ms  Int128 CODEC(ZSTD(1)),
    energy_mj      Int128 CODEC(ZSTD(1)),
    session_start  Nullable(Int64) COMMENT 'Unix milliseconds' CODEC(ZSTD(1)),
    session_before Nullable(Int64) COMMENT 'milliseconds' CODEC(ZSTD(1)),
    quantity       Int128 COMMENT 'of storage: bytes times milliseconds; of network: bytes' CODEC(ZSTD(1)),
    rows           UInt64 COMMENT 'rows of the store that it sums' CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (snapshot, number)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
