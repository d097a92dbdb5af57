//! What services served: the counts of one service, model, owner, replica and interval make a row.

use std::collections::BTreeMap;

use contador_schemas::names::{self, MetricName};
use contador_schemas::rows::Served;
use contador_schemas::series::window_of;
use uuid::Uuid;

use super::Point;
use super::latency::Identity;
use super::reject::Reason;
use super::value::put;

/// Service, model, environment, node, device, owner, source, start and end: what a row is known by.
type Key = (String, String, String, String, String, Uuid, Uuid, i64, i64);

/// Rows that are being put together.
#[derive(Default)]
pub(super) struct Counts(BTreeMap<Key, Served>);

impl Counts {
    /// Takes one count.
    ///
    /// # Errors
    /// [`Reason`]: the point is in no row.
    pub(super) fn add(&mut self, metric: &MetricName, point: &Point<'_>) -> Result<(), Reason> {
        let value = point.value.ok_or(Reason::NoValue)?.u64(1)?;
        let whose = Identity::of(point.origin, metric.name, point.attributes)?.into_row();
        let window = u64::try_from(point.time).ok().and_then(window_of).ok_or(Reason::Time)?;
        let start_ts = point.start.unwrap_or(point.time);
        let names = (whose.service, whose.model, whose.environment, whose.node, whose.device);
        let key = (names.0, names.1, names.2, names.3, names.4, whose.owner, whose.source, start_ts, point.time);
        let row = self.0.entry(key).or_insert_with(|| Served { window, ..Served::default() });
        row.simulated |= whose.simulated;
        let kind = point.attributes.get(names::TOKEN_TYPE);
        match (metric.name, kind.as_deref()) {
            (names::SERVED_REQUESTS, _) => put(&mut row.requests, value),
            (names::SERVED_ABORTED, _) => put(&mut row.aborted, value),
            (names::SERVED_TOKENS, Some("input")) => put(&mut row.input_tokens, value),
            (names::SERVED_TOKENS, Some("output")) => put(&mut row.output_tokens, value),
            (names::SERVED_TOKENS, _) => Err(Reason::Attribute),
            _ => Err(Reason::Shape),
        }
    }

    /// The rows, without those of which no count was accepted.
    pub(super) fn finish(self) -> Vec<Served> {
        let told =
            |row: &Served| [row.requests, row.aborted, row.input_tokens, row.output_tokens].iter().any(Option::is_some);
        let rows = self.0.into_iter().filter(|(_, row)| told(row));
        rows.map(|((service, model, environment, node, device, owner, source, start_ts, ts), row)| Served {
            start_ts,
            ts,
            source,
            service,
            model,
            environment,
            node,
            device,
            owner,
            ..row
        })
        .collect()
    }
}
