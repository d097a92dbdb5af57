//! The embedded ClickHouse engine behind ClickHouse's HTTP interface.
