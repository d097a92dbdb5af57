-- How long a held device had no work. 0 also of rows of agents that don't tell it.
ALTER TABLE ledger
    ADD COLUMN IF NOT EXISTS idle_ms UInt32 DEFAULT 0 COMMENT 'of held_ms, how long the device had no work: its utilisation was known, and 0' CODEC(T64, ZSTD(1))
