//! Ledger rows and imported allocations to money.
