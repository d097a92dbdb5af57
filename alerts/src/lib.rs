//! Alert rules, their evaluation and their pages. Nothing is evaluated yet: the crate holds the place of the stage that
//! will read what the collector stored (through `contador-schemas` alone) and send pages to Alertmanager, started by
//! `contador serve`.
