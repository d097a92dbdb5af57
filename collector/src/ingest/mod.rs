//! OTLP bytes to rows in ClickHouse.
