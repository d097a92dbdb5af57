//! What services send, killed agents, and full spools.

use contador_schemas::names;
use contador_schemas::runs::Untold;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, exponential_histogram_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::prelude::*;
use uuid::Uuid;

use super::memory::Taken;
use super::point::{Reason, Total};
use super::*;
use crate::outbox::SpoolLimits;
use crate::outbox::encode::points::text;
use crate::outbox::spool::Lane;
use crate::telemetry::Telemetry;

mod runs;

const SECOND: u64 = 1_000_000_000;
const T: u64 = 1_790_000_000 * SECOND;

fn point(start: u64, time: u64, counts: &[u64]) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: vec![text("http.route", "/a")],
        start_time_unix_nano: start,
        time_unix_nano: time,
        count: counts.iter().sum(),
        sum: Some(counts.iter().sum::<u64>() as f64),
        explicit_bounds: (1_i32..i32::try_from(counts.len()).unwrap()).map(f64::from).collect(),
        bucket_counts: counts.to_vec(),
        ..HistogramDataPoint::default()
    }
}

fn cumulative(points: Vec<HistogramDataPoint>) -> Metric {
    let aggregation_temporality = AggregationTemporality::Cumulative as i32;
    let data = Data::Histogram(Histogram { data_points: points, aggregation_temporality });
    Metric {
        name: "http.server.request.duration".to_owned(),
        unit: "s".to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn request(metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
    let attributes = vec![text(names::SERVICE_NAME, "s"), text(names::SERVICE_INSTANCE_ID, "i")];
    let resource = Some(Resource { attributes, ..Resource::default() });
    let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }],
    }
}

/// Start and time after [`T`], counts, and whether it says reset, of each explicit point.
type Told = Vec<(u64, u64, Vec<u64>, bool)>;

fn told(request: &ExportMetricsServiceRequest) -> Told {
    let metrics = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    let points = metrics.flat_map(|scope| &scope.metrics).flat_map(|metric| match &metric.data {
        Some(Data::Histogram(histogram)) => {
            assert_eq!(histogram.aggregation_temporality, AggregationTemporality::Delta as i32);
            histogram.data_points.clone()
        }
        _ => Vec::new(),
    });
    let told = points.map(|point| {
        let reset = point.attributes.iter().any(|attribute| attribute.key == names::LATENCY_RESET);
        assert_eq!(point.attributes[0].key, "http.route");
        let (start, time) = (point.start_time_unix_nano, point.time_unix_nano);
        (start.saturating_sub(T), time - T, point.bucket_counts, reset)
    });
    told.collect()
}

fn converted(memory: &mut Memory, points: Vec<HistogramDataPoint>) -> (Told, Counted) {
    let mut request = request(vec![cumulative(points)]);
    let counted = deltas::convert(&mut request, "n1", memory, T + 1_000 * SECOND);
    memory.settle();
    (told(&request), counted)
}

/// How many points of each reason.
fn by_reason<R: Copy + Ord>(told: &deltas::Tally<R>) -> std::collections::BTreeMap<R, u64> {
    told.iter().map(|(reason, points, _)| (reason, points)).collect()
}

#[test]
fn totals_become_what_came_since_the_last_one() {
    let mut memory = Memory::new(T);
    // It began before it was watched: what was counted is not known to be new.
    let (first, counted) = converted(&mut memory, vec![point(T - 5, T + 1, &[3, 1])]);
    assert_eq!((first, counted.base_lines), (vec![], 1));
    // In any order within a request.
    let points = vec![point(T - 5, T + 3, &[5, 9]), point(T - 5, T + 2, &[4, 1])];
    assert_eq!(converted(&mut memory, points).0, [(1, 2, vec![1, 0], false), (2, 3, vec![1, 8], false)]);
    // C8: counts that fall are a reset, and the new total is the increase; so is another start.
    assert_eq!(converted(&mut memory, vec![point(T - 5, T + 4, &[2, 0])]).0, [(3, 4, vec![2, 0], true)]);
    assert_eq!(converted(&mut memory, vec![point(T + 5, T + 9, &[7, 7])]).0, [(5, 9, vec![7, 7], true)]);
    // Nothing new is no row; a retry of the last one is the same row.
    assert_eq!(converted(&mut memory, vec![point(T + 5, T + 10, &[7, 7])]).0, []);
    for _ in 0..2 {
        assert_eq!(converted(&mut memory, vec![point(T + 5, T + 12, &[7, 9])]).0, [(10, 12, vec![0, 2], false)]);
    }
    // What the last one contains is no contradiction; what it does not, is.
    assert_eq!(converted(&mut memory, vec![point(T + 5, T + 11, &[7, 8])]), (vec![], Counted::default()));
    for (wrong, reason) in [
        (point(T + 5, T + 11, &[8, 9]), Reason::OutOfOrder),
        (point(T + 2, T + 20, &[8, 9]), Reason::OutOfOrder),
        (point(T + 5, T + 12, &[8, 9]), Reason::Conflicting),
        (HistogramDataPoint { count: 3, ..point(T + 5, T + 20, &[8, 9]) }, Reason::Torn),
        (point(0, 0, &[8, 9]), Reason::Time),
        (point(T + 21, T + 20, &[8, 9]), Reason::Time),
        // More than 10 minutes ahead of T + 1,000 s: it would hide all that comes before.
        (point(T + 5, T + 1_601 * SECOND, &[8, 9]), Reason::Time),
    ] {
        let (rows, counted) = converted(&mut memory, vec![wrong]);
        assert_eq!((rows, by_reason(&counted.rejected)), (vec![], [(reason, 1)].into()));
    }
    // Other bounds can't be compared.
    let (rows, counted) = converted(&mut memory, vec![point(T + 5, T + 30, &[8, 9, 9])]);
    assert_eq!((rows, by_reason(&counted.untold)), (vec![], [(Untold::Buckets, 1)].into()));
    assert_eq!(converted(&mut memory, vec![point(T + 5, T + 31, &[8, 9, 10])]).0, [(30, 31, vec![0, 0, 1], false)]);
    // Nor can runs that overlap.
    let (time, later) = (T + 40 * SECOND, T + 20 * SECOND);
    converted(&mut memory, vec![point(T + 5, time, &[8, 9, 10])]);
    let (rows, counted) = converted(&mut memory, vec![point(later, time + 1, &[8, 9, 10])]);
    assert_eq!((rows, by_reason(&counted.untold), counted.base_lines), (vec![], [(Untold::Overlap, 1)].into(), 0));
}

#[test]
fn what_is_refused_and_what_begins_anew_is_named() {
    let mut memory = Memory::new(T);
    converted(&mut memory, vec![point(T + 5, T + 9, &[7, 7])]);
    let (_, counted) = converted(&mut memory, vec![point(T + 5, T + 8, &[9, 9]), point(T + 5, T + 20, &[8, 9, 9])]);
    let named = |start: u64, time: u64, count| {
        format!(r#""http.server.request.duration" of service "s" with start {start}, time {time}, count {count}"#)
    };
    let first = named(T + 5, T + 8, 18);
    assert_eq!(counted.rejected.iter().collect::<Vec<_>>(), [(Reason::OutOfOrder, 1, first.as_str())]);
    let first = named(T + 5, T + 20, 26);
    assert_eq!(counted.untold.iter().collect::<Vec<_>>(), [(Untold::Buckets, 1, first.as_str())]);
}

/// Hashed for each of them, what they share would take minutes.
#[test]
fn many_points_of_a_long_resource_are_taken() {
    let mut long = request(vec![]);
    let resource = long.resource_metrics[0].resource.as_mut().unwrap();
    resource.attributes.push(text("long", &"x".repeat(2 << 20)));
    let each = |number: u64| {
        let attributes = vec![text("http.route", &number.to_string())];
        HistogramDataPoint { attributes, ..point(T + 1, T + 2, &[number]) }
    };
    let metrics = [cumulative((0..5_000).map(each).collect())];
    // Metrics without a point, too.
    long.resource_metrics[0].scope_metrics[0].metrics =
        metrics.into_iter().chain(vec![cumulative(vec![]); 5_000]).collect();
    let mut memory = Memory::new(T);
    assert_eq!(deltas::convert(&mut long, "n1", &mut memory, T + 10), Counted::default());
    assert_eq!(memory.len(), 5_000);
}

#[test]
fn a_first_total_counts_when_its_start_was_watched_by_both_clocks() {
    for (start, time, expected) in [
        (T + SECOND, T + 2 * SECOND, vec![(SECOND, 2 * SECOND, vec![3, 1], false)]),
        (0, T + 2 * SECOND, vec![]),
        (T - 1, T + 2 * SECOND, vec![]),
        // Its run is longer than it was watched: its clock is ahead.
        (T + SECOND, T + 1_002 * SECOND, vec![]),
    ] {
        assert_eq!(converted(&mut Memory::new(T), vec![point(start, time, &[3, 1])]).0, expected, "{start} {time}");
    }
}

#[test]
fn exponential_totals_subtract_and_everything_else_stays() {
    let exponential = |time, scale, offset, counts: &[u64]| {
        let positive = exponential_histogram_data_point::Buckets { offset, bucket_counts: counts.to_vec() };
        let point = ExponentialHistogramDataPoint {
            time_unix_nano: time,
            count: counts.iter().sum::<u64>() + 2,
            zero_count: 2,
            zero_threshold: 0.02,
            scale,
            positive: Some(positive),
            ..ExponentialHistogramDataPoint::default()
        };
        let aggregation_temporality = AggregationTemporality::Cumulative as i32;
        let data = ExponentialHistogram { data_points: vec![point], aggregation_temporality };
        Metric {
            name: "e".to_owned(),
            unit: "s".to_owned(),
            data: Some(Data::ExponentialHistogram(data)),
            ..Metric::default()
        }
    };
    let gauge = NumberDataPoint { time_unix_nano: T, ..NumberDataPoint::default() };
    let gauge = Data::Gauge(Gauge { data_points: vec![gauge] });
    let gauge = Metric { name: "g".to_owned(), data: Some(gauge), ..Metric::default() };
    let mut memory = Memory::new(T);
    let mut first = request(vec![exponential(T + 1, 1, 2, &[1, 2, 3]), gauge.clone()]);
    assert_eq!(deltas::convert(&mut first, "n1", &mut memory, T).base_lines, 1);
    let resource = &first.resource_metrics[0];
    assert_eq!(resource.scope_metrics[0].metrics, [gauge]);
    assert_eq!(resource.resource.as_ref().unwrap().attributes[2], text(names::HOST_NAME, "n1"));
    let mut later = request(vec![exponential(T + 2, 0, 0, &[7, 4, 5])]);
    deltas::convert(&mut later, "n1", &mut memory, T);
    let Some(Data::ExponentialHistogram(told)) = &later.resource_metrics[0].scope_metrics[0].metrics[0].data else {
        panic!("an exponential histogram: {later:?}")
    };
    // Buckets 2, 3, 4 of scale 1 are 1, 1, 2 of scale 0.
    let point = &told.data_points[0];
    assert_eq!(point.positive.as_ref().unwrap().bucket_counts, [7, 1, 2]);
    // C7: the threshold stays.
    assert_eq!((point.count, point.zero_count, point.zero_threshold, point.scale), (10, 0, 0.02, 0));
}

#[test]
fn a_sum_that_can_not_be_costs_no_count() {
    let total = |time, counts: &[u64], sum| {
        let point = HistogramDataPoint { sum: Some(sum), ..point(T, time, counts) };
        Total::explicit(&point).unwrap().unwrap()
    };
    let increase = |before: f64, after: f64| {
        let (earlier, later) = (total(T + 1, &[1, 0, 0], before), total(T + 2, &[1, 2, 0], after));
        let (Total::Explicit(increase), false) = later.since(&earlier).unwrap().unwrap() else { panic!("an increase") };
        (increase.count, increase.sum)
    };
    // Two values in (1, 2] add up to more than 2 and no more than 4.
    assert_eq!(increase(0.5, 3.5), (2, Some(3.0)));
    // A third one is in the sum, and not yet in the counts; and a sum of few digits.
    assert_eq!(increase(0.5, 5.5), (2, None));
    assert_eq!(increase(1e6, 1e6), (2, None));
}

#[test]
fn what_was_received_least_recently_is_forgotten_and_begins_with_a_base_line() {
    let mut memory = Memory::with_limits(T, 8, 1 << 20);
    let total = |start, time, count| Total::explicit(&point(start, time, &[count])).unwrap().unwrap();
    let key = |number| Uuid::from_u128(number);
    for number in 0..8 {
        memory.take(key(number), total(0, T + SECOND, 1), T).unwrap();
    }
    // Received again, so not forgotten.
    memory.take(key(0), total(0, T + 2 * SECOND, 3), T).unwrap();
    memory.take(key(8), total(0, T + SECOND, 1), T).unwrap();
    assert_eq!(memory.len(), 7);
    assert!(matches!(memory.take(key(0), total(0, T + 3 * SECOND, 4), T), Ok(Taken::Increase(_, false))));
    // It may have been counted before it was forgotten.
    let again = memory.take(key(1), total(T + SECOND, T + 3 * SECOND, 9), T + 90 * SECOND);
    assert_eq!(again, Ok(Taken::BaseLine));
}

const LIMITS: SpoolLimits = SpoolLimits { max_bytes: 1 << 20, segment_bytes: 1 << 16, rejected_bytes: 1 << 10 };

fn open(dir: &Path, limits: SpoolLimits) -> Totals {
    let keeper = Keeper::open(&dir.join("spool"), limits, Telemetry::new().unwrap()).unwrap();
    Totals::open(dir, T, "n1", keeper, limits.max_bytes).unwrap()
}

async fn handed_on(totals: &Totals) -> Told {
    let mut all = Vec::new();
    while let Some((lane, batch)) = totals.keeper.peek(1_000, 1 << 24).await.unwrap() {
        for record in &batch.records {
            all.extend(told(&ExportMetricsServiceRequest::decode(record.payload.as_slice()).unwrap()));
        }
        totals.keeper.acknowledge(lane, *batch.ends.last().unwrap()).await.unwrap();
    }
    all
}

async fn keep(totals: &Totals, time: u64, counts: &[u64]) -> Result<Counted, TotalsError> {
    totals.keep(request(vec![cumulative(vec![point(T + 1, T + time, counts)])]), T + 90 * SECOND, ()).await
}

#[tokio::test]
async fn a_kill_at_any_moment_counts_nothing_twice_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let totals = open(dir.path(), LIMITS);
    keep(&totals, 10, &[1, 0]).await.unwrap();
    keep(&totals, 20, &[4, 0]).await.unwrap();
    assert_eq!(handed_on(&totals).await, [(1, 10, vec![1, 0], false), (10, 20, vec![3, 0], false)]);
    drop(totals);
    // Started again: the last one is handed on once more, and the next goes on from it.
    let totals = open(dir.path(), LIMITS);
    totals.resume().await.unwrap();
    assert_eq!(handed_on(&totals).await, [(10, 20, vec![3, 0], false)]);
    keep(&totals, 30, &[4, 5]).await.unwrap();
    assert_eq!(handed_on(&totals).await, [(20, 30, vec![0, 5], false)]);
    drop(totals);
    // Killed while a frame was written: it was not answered, and comes again.
    let path = dir.path().join("totals.journal");
    let whole = std::fs::read(&path).unwrap();
    let totals = open(dir.path(), LIMITS);
    keep(&totals, 40, &[6, 5]).await.unwrap();
    let grown = std::fs::read(&path).unwrap();
    drop(totals);
    let begun = grown.len() - 7;
    assert!(begun > whole.len() / 2);
    std::fs::write(&path, &grown[..begun]).unwrap();
    let totals = open(dir.path(), LIMITS);
    _ = handed_on(&totals).await;
    keep(&totals, 40, &[6, 5]).await.unwrap();
    let told = handed_on(&totals).await;
    assert_eq!(told.last(), Some(&(30, 40, vec![2, 0], false)), "{told:?}");
}

#[tokio::test]
async fn a_full_spool_is_asked_to_come_back_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let totals = open(dir.path(), SpoolLimits { max_bytes: 700, segment_bytes: 300, ..LIMITS });
    let mut full = 0;
    let mut kept: Told = Vec::new();
    for step in 1..20_u64 {
        while keep(&totals, step * 10, &[step, step * 2]).await.is_err() {
            full += 1;
            kept.extend(handed_on(&totals).await);
        }
    }
    kept.extend(handed_on(&totals).await);
    assert!(full > 2);
    // The same row twice is one.
    kept.sort_by_key(|(_, time, ..)| *time);
    kept.dedup();
    let sum: u64 = kept.iter().flat_map(|(_, _, counts, _)| counts).sum();
    assert_eq!((kept.len(), sum), (19, 57));
}

#[tokio::test]
async fn a_client_that_goes_away_loses_nothing_of_what_the_memory_has() {
    let dir = tempfile::tempdir().unwrap();
    let totals = open(dir.path(), LIMITS);
    keep(&totals, 10, &[1, 0]).await.unwrap();
    for step in 2..20_u64 {
        let counts = [step, 0];
        tokio::select! {
            biased;
            _ = keep(&totals, step * 10, &counts) => {}
            () = std::future::ready(()) => {}
        }
    }
    keep(&totals, 200, &[20, 0]).await.unwrap();
    let sum: u64 = handed_on(&totals).await.iter().flat_map(|(_, _, counts, _)| counts).sum();
    assert_eq!(sum, 20);
}

#[tokio::test]
async fn numbers_may_go_and_histograms_may_not() {
    let number = |name: &str| {
        let data =
            Data::Gauge(Gauge { data_points: vec![NumberDataPoint { time_unix_nano: T, ..Default::default() }] });
        Metric { name: name.to_owned(), data: Some(data), ..Metric::default() }
    };
    let dir = tempfile::tempdir().unwrap();
    let totals = open(dir.path(), LIMITS);
    let latencies = cumulative(vec![point(T + 1, T + 2, &[3])]);
    let whole = request(vec![number("a"), latencies, number(names::SERVED_REQUESTS), number("b")]);
    totals.keep(whole, T + SECOND, ()).await.unwrap();
    totals.keep(request(vec![number("c")]), T + SECOND, ()).await.unwrap();
    totals.keep(ExportMetricsServiceRequest::default(), T + SECOND, ()).await.unwrap();
    let mut all = Vec::new();
    while let Some((lane, batch)) = totals.keeper.peek(1, 1 << 24).await.unwrap() {
        let record = ExportMetricsServiceRequest::decode(batch.records[0].payload.as_slice()).unwrap();
        let resource = &record.resource_metrics[0];
        assert_eq!(resource.resource.as_ref().unwrap().attributes[0], text(names::SERVICE_NAME, "s"));
        let names = resource.scope_metrics[0].metrics.iter().map(|metric| metric.name.clone());
        all.push((lane, names.collect::<Vec<_>>().join(" ")));
        totals.keeper.acknowledge(lane, batch.ends[0]).await.unwrap();
    }
    let expected = [
        (Lane::Records, "http.server.request.duration contador.served.requests"),
        (Lane::Samples, "a b"),
        (Lane::Samples, "c"),
    ];
    assert_eq!(all, expected.map(|(lane, names)| (lane, names.to_owned())));
}

#[tokio::test]
async fn what_the_spool_never_can_have_is_refused_and_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let totals = open(dir.path(), LIMITS);
    keep(&totals, 10, &[1; 50]).await.unwrap();
    drop(totals);
    // The spool was made smaller than the last one.
    let small = SpoolLimits { max_bytes: 600, segment_bytes: 300, rejected_bytes: 1 << 20 };
    let totals = open(dir.path(), small);
    assert_eq!(handed_on(&totals).await.len(), 1);
    totals.resume().await.unwrap();
    let refused = keep(&totals, 20, &[2; 50]).await.unwrap_err();
    assert!(matches!(refused, TotalsError::TooLarge { max_bytes: 300, .. }), "{refused}");
    // It is as if it had not come: a small one that starts again.
    totals.keep(request(vec![cumulative(vec![point(T + 15, T + 30, &[4, 0])])]), T + 90 * SECOND, ()).await.unwrap();
    assert_eq!(handed_on(&totals).await, [(15, 30, vec![4, 0], true)]);
}

#[test]
fn series_are_bounded_by_their_bytes_too() {
    let mut memory = Memory::with_limits(T, 1_000, 1 << 20);
    for number in 0..100 {
        let total = Total::explicit(&point(T + 1, T + 2 + number, &[1; 1_000])).unwrap().unwrap();
        memory.take(Uuid::from_u128(u128::from(number)), total, T + 1_000).unwrap();
    }
    // A total of 2 * 8 kB each, since those after the first that was forgotten are base lines.
    assert!((50..64).contains(&memory.len()), "{}", memory.len());
    memory.undo();
    assert!(memory.is_empty());
}

#[tokio::test]
async fn a_damaged_journal_begins_with_base_lines_and_a_cut_one_does_not() {
    for (damage, expected) in [(false, vec![(31, 40, vec![5], false)]), (true, vec![])] {
        let dir = tempfile::tempdir().unwrap();
        let totals = open(dir.path(), LIMITS);
        keep(&totals, 10, &[1, 0]).await.unwrap();
        drop(totals);
        let path = dir.path().join("totals.journal");
        let mut bytes = std::fs::read(&path).unwrap();
        // Half of another frame; or one whose length is wrong.
        let frame = bytes[..bytes.len() / 2].to_vec();
        bytes.extend(&frame);
        if damage {
            let at = bytes.len() - frame.len();
            bytes[at] ^= 1;
        }
        std::fs::write(&path, &bytes).unwrap();
        let keeper = Keeper::open(&dir.path().join("spool"), LIMITS, Telemetry::new().unwrap()).unwrap();
        let totals = Totals::open(dir.path(), T + 80 * SECOND, "n1", keeper, LIMITS.max_bytes).unwrap();
        totals.resume().await.unwrap();
        _ = handed_on(&totals).await;
        let mut other = request(vec![cumulative(vec![point(T + 31, T + 40, &[5])])]);
        other.resource_metrics[0].resource.as_mut().unwrap().attributes.push(text("other", "series"));
        totals.keep(other, T + 90 * SECOND, ()).await.unwrap();
        assert_eq!(handed_on(&totals).await, expected);
    }
}

proptest! {
    // Each step is written to the disk.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is killed and sent again: the increases add up to the last total.
    #[test]
    fn increases_add_up(steps in prop::collection::vec((0_u64..5, 0_u64..5, any::<bool>(), any::<bool>()), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let mut totals = open(dir.path(), LIMITS);
            let (mut counts, mut time, mut all) = ([0_u64; 2], 1, Vec::new());
            for (low, high, killed, again) in steps {
                counts = [counts[0] + low, counts[1] + high];
                time += 10;
                keep(&totals, time, &counts).await.unwrap();
                if killed {
                    all.extend(handed_on(&totals).await);
                    drop(totals);
                    totals = open(dir.path(), LIMITS);
                    totals.resume().await.unwrap();
                }
                if again {
                    keep(&totals, time, &counts).await.unwrap();
                }
            }
            all.extend(handed_on(&totals).await);
            all.sort_by_key(|(_, time, ..)| *time);
            all.dedup();
            let times: Vec<u64> = all.iter().map(|(_, time, ..)| *time).collect();
            prop_assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", all);
            let sum = all.iter().fold([0, 0], |sum, (_, _, row, _)| [sum[0] + row[0], sum[1] + row[1]]);
            prop_assert_eq!(sum, counts);
            Ok(())
        })?;
    }
}
