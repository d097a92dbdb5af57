//! What an agent tells of latencies and of what was served is what the collector makes of it, to the last float.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use contador::ingest::decode::decode;
use contador_agent::outbox::encode::histogram::{Latency, Served, Whose, answered};
use contador_schemas::cells::{Cell, Cells};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use proptest::prelude::*;
use prost::Message as _;

const T: u64 = 1_790_000_000_000_000_000;
const START: u64 = T - 10_000_000_000;

fn received(latencies: &[Latency], served: &[Served]) -> contador::ingest::decode::Decoded {
    let request = ExportMetricsServiceRequest::decode(answered(latencies, served, "node-1").as_slice()).unwrap();
    decode(&request, i64::try_from(T).unwrap())
}

fn whose() -> Whose {
    Whose { service: "api".into(), model: "llama".into(), instance: "api-0".into(), ..Whose::default() }
}

/// Cells that don't overlap, the last one perhaps without an upper edge.
fn any_cells() -> impl Strategy<Value = Cells> {
    let step = (0.0..1e6_f64, prop_oneof![Just(0.0), 0.0..1e6_f64], 1_u64..1_000_000);
    (prop::collection::vec(step, 1..40), any::<bool>()).prop_map(|(steps, open)| {
        let mut edge = 0.0_f64;
        let last = steps.len() - 1;
        let cells = steps.into_iter().enumerate().map(|(index, (gap, width, n))| {
            let lo = if index == 0 { gap } else { (edge + gap).next_up() };
            edge = lo + width;
            Cell { lo, hi: if open && index == last { f64::INFINITY } else { edge }, n }
        });
        Cells::new(cells).unwrap()
    })
}

proptest! {
    #[test]
    fn cells_come_back_exactly(cells in any_cells(), reset in any::<bool>(), sum in prop::option::of(0.0..1e12_f64)) {
        let latency = Latency {
            whose: whose(),
            metric: "queue_time".into(),
            start_ns: START,
            end_ns: T,
            cells: cells.clone(),
            sum_us: sum,
            reset,
            ..Latency::default()
        };
        let decoded = received(&[latency], &[]);
        prop_assert_eq!(decoded.rejected.points(), 0, "{}", decoded.rejected.message());
        let [row] = decoded.rows.latency.as_slice() else { panic!("{:?}", decoded.rows.latency) };
        prop_assert_eq!((&row.lo, &row.hi, &row.n), (&cells.to_columns().0, &cells.to_columns().1, &cells.to_columns().2));
        prop_assert_eq!((row.sum_us, row.reset, row.censored, row.count), (sum, reset, 0, cells.count()));
    }

    #[test]
    fn l11_of_aborted_requests_the_lower_edges_come_back(cells in any_cells()) {
        let latency = Latency {
            whose: whose(),
            metric: "request_duration".into(),
            start_ns: START,
            end_ns: T,
            cells: cells.clone(),
            censored: true,
            ..Latency::default()
        };
        let decoded = received(&[latency], &[]);
        let [row] = decoded.rows.latency.as_slice() else { panic!("{}", decoded.rejected.message()) };
        prop_assert_eq!((&row.lo, &row.n), (&cells.to_columns().0, &cells.to_columns().2));
        prop_assert!(row.hi.iter().all(|hi| *hi == f64::INFINITY));
        prop_assert_eq!((row.censored, row.sum_us), (cells.count(), None));
    }
}

#[test]
fn what_was_served_comes_back_and_what_is_not_counted_stays_unknown() {
    let owner = uuid::Uuid::from_u128(7);
    let served = Served {
        whose: Whose { owner: Some(owner), device: "GPU-1".into(), ..whose() },
        start_ns: START,
        end_ns: T,
        requests: Some(7),
        aborted: Some(0),
        input_tokens: None,
        output_tokens: Some(u64::from(u32::MAX) * 8),
    };
    let other = Served { whose: Whose { instance: "api-1".into(), ..served.whose.clone() }, ..served.clone() };
    let decoded = received(&[], &[served, other]);
    assert_eq!(decoded.rejected.message(), "");
    let [row, beside] = decoded.rows.served.as_slice() else { panic!("{:?}", decoded.rows.served) };
    assert_eq!((row.service.as_str(), row.model.as_str(), row.device.as_str()), ("api", "llama", "GPU-1"));
    assert_eq!((row.owner, row.node.as_str()), (owner, "node-1"));
    assert_eq!(
        (row.requests, row.aborted, row.input_tokens, row.output_tokens),
        (Some(7), Some(0), None, Some(34_359_738_360))
    );
    assert_ne!(row.source, beside.source);
}
