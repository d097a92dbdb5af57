//! Which latencies, or other measurements, are the same series: an id of the attributes, whatever their order.

use uuid::{Uuid, uuid};

/// Name space of series and source ids (RFC 9562, version 5).
pub const SERIES_NAMESPACE: Uuid = uuid!("5a3c7a55-8e0f-4d58-9f0e-5a1d0c0e7a02");

/// The id of the series that has these attributes. Empty values count as absent; later ones of the same name win.
pub fn series_id<'a>(attributes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Uuid {
    let sorted: std::collections::BTreeMap<&str, &str> = attributes.into_iter().collect();
    let lines: Vec<String> = sorted
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}:{value}", value.len()))
        .collect();
    Uuid::new_v5(&SERIES_NAMESPACE, lines.join("\n").as_bytes())
}

/// The id of the running total that `source` keeps of `series`.
pub fn total_id(series: Uuid, source: Uuid) -> Uuid {
    let both: Vec<u8> = series.as_bytes().iter().chain(source.as_bytes()).copied().collect();
    Uuid::new_v5(&SERIES_NAMESPACE, &both)
}

/// Length of the windows that latencies are kept in, in seconds, aligned to the Unix epoch.
pub const WINDOW_SECONDS: u32 = 10;

/// Start, in Unix seconds, of the window that an interval ending at `end_ns` (Unix nanoseconds, exclusive) belongs to: the
/// window of its last instant. `None` before the epoch or beyond 32 bits of seconds.
pub fn window_of(end_ns: u64) -> Option<u32> {
    let last_second = end_ns.checked_sub(1)? / 1_000_000_000;
    let seconds = u32::try_from(last_second).ok()?;
    Some(seconds - seconds % WINDOW_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_attributes_does_not_matter_and_empty_ones_are_absent() {
        let one = series_id([("service", "api"), ("metric", "request_duration"), ("region", "eu")]);
        let other = series_id([("region", "eu"), ("route", ""), ("metric", "request_duration"), ("service", "api")]);
        assert_eq!(one, other);
        // uuid.uuid5 of Python's standard library, of the three lines in alphabetical order.
        assert_eq!(one.to_string(), "84192a7a-9828-5cd3-9ac0-9ba51682be12");
        assert_ne!(one, series_id([("service", "api"), ("metric", "request_duration"), ("region", "us")]));
    }

    #[test]
    fn an_interval_belongs_to_the_window_of_its_last_instant() {
        assert_eq!(window_of(1_000_000_010_000_000_000), Some(1_000_000_000));
        assert_eq!(window_of(1_000_000_010_000_000_001), Some(1_000_000_010));
        assert_eq!(window_of(0), None);
        assert_eq!(window_of(u64::MAX), None);
    }
}
