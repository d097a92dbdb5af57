//! The rows of the tables, field for field in the order of the columns. [`gpu`] and [`storage`] are what a
//! node measured, [`device`] what a device is, [`latency`] what services answered, [`ledger`] who held what, [`money`] what
//! is imported and priced, [`invoice`] what was billed and done by hand, [`generic`] everything else. [`columns`] are found by their names.
//!
//! Times are whole numbers as ClickHouse keeps them: `DateTime` in Unix seconds, `DateTime64(3)` in milliseconds,
//! `DateTime64(9)` in nanoseconds, all UTC.

mod columns;
mod device;
mod generic;
mod gpu;
mod invoice;
mod latency;
mod ledger;
mod money;
mod storage;

pub use columns::{ByColumn, Column, Slot};
pub use device::Device;
pub use generic::{DeadLetter, Event, Metric};
pub use gpu::GpuSample;
pub use invoice::{AMOUNT_SCALE, Adjustment, Audit, Invoice, InvoiceFact, InvoiceInput, InvoiceLine};
pub use latency::{Latency, LatencyTotal, Served};
pub use ledger::{LedgerRow, OwnerRow};
pub use money::{ALLOCATION_FRACTION_SCALE, Allocation, Commitments, DirectoryEntry, Price};
pub use storage::{NodeSample, StorageSample};

/// A row that is kept in a table of its own.
pub trait Table: clickhouse::RowOwned + clickhouse::RowWrite + clickhouse::RowRead {
    /// The table's name, without a database.
    const TABLE: &'static str;
}

macro_rules! tables {
    ($($row:ty => $table:literal),* $(,)?) => {
        $(impl Table for $row { const TABLE: &'static str = $table; })*
    };
}

tables! {
    GpuSample => "gpu_samples",
    StorageSample => "storage_samples",
    NodeSample => "node_samples",
    Latency => "latency",
    Served => "served",
    LatencyTotal => "latency_totals",
    LedgerRow => "ledger",
    OwnerRow => "owners",
    Device => "devices",
    Event => "events",
    Metric => "metrics",
    Allocation => "allocations",
    Price => "prices",
    Commitments => "commitments",
    DeadLetter => "dead_letters",
    DirectoryEntry => "directory",
    Invoice => "invoices",
    InvoiceLine => "invoice_lines",
    InvoiceFact => "invoice_facts",
    InvoiceInput => "invoice_inputs",
    Adjustment => "adjustments",
    Audit => "audit",
}
