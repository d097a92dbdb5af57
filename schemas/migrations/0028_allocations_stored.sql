-- When a row was stored: what came after a month was closed. Rows that were there before count as stored now.
ALTER TABLE allocations
    ADD COLUMN IF NOT EXISTS stored DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'when the row was stored, by ClickHouse''s clock' CODEC(DoubleDelta, ZSTD(1)),
    ADD INDEX IF NOT EXISTS stored_range stored TYPE minmax GRANULARITY 1,
    MATERIALIZE COLUMN stored
