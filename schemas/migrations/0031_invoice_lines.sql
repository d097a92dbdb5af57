-- The lines of invoices, as they were billed.
CREATE TABLE IF NOT EXISTS invoice_lines
(
    lines        String COMMENT 'SHA-256 of all of them' CODEC(ZSTD(1)),
    number       UInt32 COMMENT 'in the order of the invoice, from 0' CODEC(Delta, ZSTD(1)),
    payer        LowCardinality(String) COMMENT 'workload: the department; else what the time was that nobody pays for',
    department   LowCardinality(String),
    category     LowCardinality(String),
    item         String COMMENT 'what tells lines of one category apart; of a correction: the category and the item that it corrects' CODEC(ZSTD(1)),
    owner_kind   LowCardinality(String),
    owner        Map(LowCardinality(String), String) COMMENT 'attributes of the owner that are known' CODEC(ZSTD(1)),
    cost_centre  LowCardinality(String),
    gpu_model    LowCardinality(String),
    mig_profile  LowCardinality(String),
    consumption  LowCardinality(String) COMMENT 'empty: none',
    unit_price   Nullable(Decimal(38, 12)),
    day          Nullable(Date) COMMENT 'local day; NULL: of the month as a whole',
    origin_month LowCardinality(String) COMMENT 'month that it corrects; empty: its own',
    imported     Bool,
    simulated    Bool,
    gpu_hours    Decimal(38, 6) CODEC(ZSTD(1)),
    quantity     Decimal(38, 6) CODEC(ZSTD(1)),
    unpriced     Decimal(38, 6) CODEC(ZSTD(1)),
    busy         Decimal(38, 6) CODEC(ZSTD(1)),
    unknown      Decimal(38, 6) CODEC(ZSTD(1)),
    energy       Decimal(38, 6) COMMENT 'kWh of the devices' CODEC(ZSTD(1)),
    site_energy  Decimal(38, 6) COMMENT 'kWh of the site' CODEC(ZSTD(1)),
    carbon       Decimal(38, 6) COMMENT 'grams of CO2 equivalent' CODEC(ZSTD(1)),
    cost         Decimal(38, 6) CODEC(ZSTD(1)),
    effective    Decimal(38, 6) CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (lines, number)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
