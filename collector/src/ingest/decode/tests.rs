//! Requests as senders write them, and the rows that they must become.

use contador_schemas::names;
use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::series::window_of;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, ScopeMetrics, Sum,
    Summary, SummaryDataPoint, exponential_histogram_data_point::Buckets, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::prelude::*;

use super::*;

mod latencies;
mod samples;

const T: u64 = 1_700_000_040_000_000_000;

/// As if it were received at the time of most points.
fn decode(request: &ExportMetricsServiceRequest) -> Decoded {
    super::decode(request, i64::try_from(T).unwrap())
}

/// A point with the metric, resource and scope that it belongs to.
#[derive(Clone, Debug)]
struct Sent {
    resource: Vec<KeyValue>,
    scope: &'static str,
    metric: Metric,
}

fn attribute(name: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

fn attributes(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
    pairs.iter().map(|(name, value)| attribute(name, value)).collect()
}

fn metric(name: &str, unit: &str, data: Data) -> Metric {
    Metric { name: name.to_owned(), unit: unit.to_owned(), data: Some(data), ..Metric::default() }
}

fn point(value: number_data_point::Value, pairs: &[(&str, &str)]) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(pairs),
        time_unix_nano: T,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

fn double(value: f64) -> number_data_point::Value {
    number_data_point::Value::AsDouble(value)
}

fn int(value: i64) -> number_data_point::Value {
    number_data_point::Value::AsInt(value)
}

fn shaped(name: &str, point: NumberDataPoint) -> Metric {
    let known = names::metric(name).unwrap();
    let sum = |temporality: AggregationTemporality, is_monotonic| {
        Data::Sum(Sum { data_points: vec![point.clone()], aggregation_temporality: temporality as i32, is_monotonic })
    };
    let data = match known.instrument {
        Instrument::Gauge => Data::Gauge(Gauge { data_points: vec![point.clone()] }),
        Instrument::Counter => sum(AggregationTemporality::Cumulative, true),
        Instrument::UpDownCounter => sum(AggregationTemporality::Cumulative, false),
        Instrument::Delta | Instrument::Histogram => sum(AggregationTemporality::Delta, false),
    };
    metric(name, known.unit, data)
}

fn sent(metric: Metric) -> Sent {
    Sent { resource: attributes(&[("host.name", "node-1"), ("service.name", "contador-agent")]), scope: "", metric }
}

fn request(sent: impl IntoIterator<Item = Sent>) -> ExportMetricsServiceRequest {
    let resource_metrics = sent.into_iter().map(|sent| ResourceMetrics {
        resource: Some(Resource { attributes: sent.resource, ..Resource::default() }),
        scope_metrics: vec![ScopeMetrics {
            scope: Some(InstrumentationScope { name: sent.scope.to_owned(), ..InstrumentationScope::default() }),
            metrics: vec![sent.metric],
            ..ScopeMetrics::default()
        }],
        ..ResourceMetrics::default()
    });
    ExportMetricsServiceRequest { resource_metrics: resource_metrics.collect() }
}

fn gpu(name: &str, value: number_data_point::Value) -> Sent {
    sent(shaped(name, point(value, &[(names::HW_ID, "GPU-1"), (names::HW_TYPE, "gpu")])))
}

fn ledger(owner: &Owner, values: [i64; 7]) -> Vec<Sent> {
    let id = owner.id().to_string();
    let metrics = [
        names::LEDGER_HELD,
        names::LEDGER_SHARE,
        names::LEDGER_BUSY,
        names::LEDGER_MEMORY,
        names::LEDGER_ENERGY,
        names::LEDGER_REQUESTS,
        names::LEDGER_IDLE,
    ];
    metrics
        .into_iter()
        .zip(values)
        .map(|(name, value)| {
            let mut point = point(int(value), &[(names::HW_ID, "GPU-1"), (names::OWNER_ID, &id)]);
            point.start_time_unix_nano = 1_699_999_980_000_000_000;
            sent(shaped(name, point))
        })
        .collect()
}

fn histogram(unit: &str, point: HistogramDataPoint) -> Sent {
    let temporality = AggregationTemporality::Delta as i32;
    let data = Histogram { data_points: vec![point], aggregation_temporality: temporality };
    sent(metric("http.server.request.duration", unit, Data::Histogram(data)))
}

fn buckets(bounds: &[f64], counts: &[u64]) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: attributes(&[("service.name", "api"), ("http.route", "/v1")]),
        start_time_unix_nano: T - 10_000_000_000,
        time_unix_nano: T,
        count: counts.iter().sum(),
        sum: Some(1.5),
        explicit_bounds: bounds.to_vec(),
        bucket_counts: counts.to_vec(),
        ..HistogramDataPoint::default()
    }
}

#[test]
fn metrics_of_one_device_and_instant_are_one_row() {
    let mut blank = point(double(0.0), &[(names::HW_ID, "GPU-1"), (names::UNSUPPORTED, "true")]);
    blank.value = None;
    blank.flags = 1;
    let decoded = decode(&request([
        gpu(names::GPU_UTILIZATION, double(0.25)),
        gpu(names::POWER, double(412.345)),
        gpu(names::ENERGY, double(123_456.789)),
        gpu(names::GPU_MEMORY_LIMIT, int(85_899_345_920)),
        gpu(names::TEMPERATURE, int(-3)),
        sent(shaped(names::GPU_MEMORY_UTILIZATION, blank)),
    ]));
    assert_eq!(decoded.rejected, Rejected::default());
    let [row] = decoded.rows.gpu.as_slice() else { panic!("one row, not {:?}", decoded.rows.gpu) };
    assert_eq!((row.device.as_str(), row.node.as_str(), row.ts), ("GPU-1", "node-1", 1_700_000_040_000));
    assert_eq!((row.utilization, row.power_mw, row.energy_mj), (Some(0.25), Some(412_345), Some(123_456_789)));
    assert_eq!((row.memory_total, row.temperature_c, row.memory_used), (Some(85_899_345_920), Some(-3), None));
    assert_eq!(row.unsupported, [names::GPU_MEMORY_UTILIZATION]);
    assert_eq!((decoded.points, decoded.rows.len()), (6, 1));
}

#[test]
fn values_that_cannot_be_are_rejected_and_make_no_row() {
    let decoded = decode(&request([
        gpu(names::GPU_UTILIZATION, double(26.19)),
        gpu(names::POWER, double(f64::NAN)),
        gpu(names::GPU_MEMORY_USAGE, int(-1)),
        gpu(names::GPU_PROCESSES, int(4_294_967_296)),
    ]));
    assert_eq!(decoded.rows.len(), 0);
    let reasons: Vec<_> = decoded.rejected.iter().collect();
    assert_eq!(reasons, [(Reason::NotANumber, 1), (Reason::Negative, 1), (Reason::OutOfRange, 2)]);
    assert_eq!(
        decoded.rejected.message(),
        "not_a_number 1 (such as \"hw.power\"): expected a number, got NaN or infinity; \
         negative 1 (such as \"hw.gpu.memory.usage\"): expected a number that is not negative; \
         out_of_range 2 (such as \"contador.gpu.processes\"): expected a number that the quantity can have (a share is 0 to 1)"
    );
}

#[test]
fn a_metric_of_the_same_name_about_something_else_is_a_number_of_its_own() {
    let fan = point(double(7.5), &[(names::HW_ID, "fan0"), (names::HW_TYPE, "fan")]);
    let other = point(double(0.5), &[(names::HW_ID, "GPU-1"), (names::GPU_TASK, "general")]);
    let mut kilowatts = shaped(names::POWER, point(double(0.4), &[(names::HW_ID, "GPU-1")]));
    kilowatts.unit = "kW".to_owned();
    let decoded = decode(&request([
        sent(shaped(names::POWER, fan)),
        sent(shaped(names::GPU_UTILIZATION, other)),
        sent(kilowatts),
    ]));
    assert_eq!((decoded.rows.gpu.len(), decoded.rows.metrics.len()), (0, 3));
    assert!(decoded.rows.metrics.iter().all(|row| row.node == "node-1" && row.service == "contador-agent"));
}

#[test]
fn a_ledger_row_is_whole_or_rejected() {
    let owner = Owner { department: "research".into(), ..Owner::default() };
    let points = ledger(&owner, [60_000, 30_000, 29_000, 5_000, 12_345, 7, 59_000]);
    let decoded = decode(&request(points.clone()));
    let [row] = decoded.rows.ledger.as_slice() else { panic!("one row: {:?}", decoded.rejected) };
    assert_eq!((row.minute, row.owner, row.kind.as_str()), (1_699_999_980, owner.id(), "workload"));
    assert_eq!((row.held_ms, row.share_ms, row.busy_ms), (60_000, 30_000, 29_000));
    assert_eq!((row.memory_mib_ms, row.energy_mj, row.requests, row.idle_ms), (5_000, 12_345, 7, 59_000));

    // An older agent does not tell how long a held device had no work.
    let decoded = decode(&request(points.iter().take(6).cloned()));
    assert_eq!((decoded.rows.ledger[0].idle_ms, decoded.rows.ledger[0].energy_mj), (0, 12_345));

    let decoded = decode(&request(points.iter().skip(1).cloned()));
    assert_eq!((decoded.rows.len(), decoded.rejected.of(Reason::LedgerIncomplete)), (0, 6));
    for impossible in [[60_001, 0, 0, 0, 0, 0, 0], [59_000, 0, 0, 0, 0, 0, 59_001]] {
        let decoded = decode(&request(ledger(&owner, impossible)));
        assert_eq!((decoded.rows.len(), decoded.rejected.of(Reason::LedgerInterval)), (0, 7));
    }
    let decoded = decode(&request(ledger(&owner, [1, -1, 0, 0, 0, 0, 0])));
    assert_eq!((decoded.rows.len(), decoded.rejected.of(Reason::Negative)), (0, 7));

    let idle = decode(&request(ledger(&Owner::of_kind(OwnerKind::Idle), [0, 0, 0, 0, 0, 0, 0])));
    assert_eq!(idle.rows.ledger[0].kind, "idle");
}

#[test]
fn an_owner_is_what_its_id_says_or_rejected() {
    let owner = Owner { department: "research".into(), pod: "train-0".into(), ..Owner::default() };
    let send = |id: String, department: &str| {
        let pairs = [
            (names::OWNER_ID, id.as_str()),
            (names::OWNER_KIND, "workload"),
            (names::DEPARTMENT, department),
            (names::POD, "train-0"),
        ];
        decode(&request([sent(shaped(names::OWNER_INFO, point(int(1), &pairs)))]))
    };
    let decoded = send(owner.id().to_string(), "research");
    assert_eq!(decoded.rows.owners[0].department, "research");
    let decoded = send(owner.id().to_string(), "finance");
    assert_eq!((decoded.rows.len(), decoded.rejected.of(Reason::OwnerId)), (0, 1));
}

#[test]
fn impossible_times_are_counted() {
    let mut early = point(double(1.0), &[]);
    early.time_unix_nano = 0;
    let mut late = point(double(1.0), &[]);
    late.time_unix_nano = u64::MAX;
    let data = Data::Gauge(Gauge { data_points: vec![early, late, point(double(1.0), &[])] });
    let decoded = decode(&request([sent(metric("queue.length", "1", data))]));
    assert_eq!((decoded.rejected.of(Reason::Time), decoded.rows.metrics.len()), (2, 1));
}

#[test]
fn no_recorded_value_is_null() {
    let mut none = point(double(3.0), &[("shard", "1")]);
    none.flags = 1;
    let data = Data::Gauge(Gauge { data_points: vec![none, point(int(7), &[("shard", "2")])] });
    let decoded = decode(&request([sent(metric("queue.length", "1", data))]));
    let mut values: Vec<_> = decoded.rows.metrics.iter().map(|row| (row.value, row.value_int)).collect();
    values.sort_by(|left, right| left.partial_cmp(right).unwrap());
    assert_eq!(values, [(None, None), (Some(7.0), Some(7))]);
}

#[test]
fn explicit_buckets_are_cells_in_microseconds() {
    let decoded = decode(&request([histogram("s", buckets(&[0.1, 0.5], &[3, 4, 1]))]));
    let [row] = decoded.rows.latency.as_slice() else { panic!("one row: {:?}", decoded.rejected) };
    assert_eq!((row.service.as_str(), row.metric.as_str(), row.route.as_str()), ("api", "request_duration", "/v1"));
    assert_eq!((row.lo.as_slice(), row.n.as_slice(), row.count), (&[0.0, 1e5, 5e5][..], &[3, 4, 1][..], 8));
    assert_eq!((&row.hi[..2], row.hi[2]), (&[1e5, 5e5][..], f64::INFINITY));
    assert_eq!((row.sum_us, row.reset, row.node.as_str()), (Some(1.5e6), false, "node-1"));
    assert_eq!((row.window, row.ts - row.start_ts), (window_of(T).unwrap(), 10_000_000_000));
}

#[test]
fn a_bound_of_infinity_and_a_histogram_without_buckets_are_understood() {
    let without = HistogramDataPoint { count: 3, max: Some(2.0), min: Some(0.5), ..buckets(&[], &[]) };
    let mut other = histogram("s", without);
    "other.duration".clone_into(&mut other.metric.name);
    let decoded = decode(&request([histogram("s", buckets(&[0.1, f64::INFINITY], &[3, 4, 0])), other]));
    let cells: Vec<_> =
        decoded.rows.latency.iter().map(|row| (row.lo.clone(), row.hi.clone(), row.n.clone())).collect();
    assert!(cells.contains(&(vec![0.0, 1e5], vec![1e5, f64::INFINITY], vec![3, 4])), "{cells:?}");
    assert!(cells.contains(&(vec![5e5], vec![2e6], vec![3])), "{cells:?}");
}

#[test]
fn cells_of_whole_microseconds_come_back_exactly() {
    // Cells [5, 5] and [1000, 1007], as the registry says that they travel.
    let mut point = buckets(&[5.0_f64.next_down(), 5.0, 1_000.0_f64.next_down(), 1_007.0], &[0, 2, 0, 9, 0]);
    point.attributes = attributes(&[("service.name", "api"), (names::LATENCY_METRIC, "queue_time")]);
    let mut hdr = histogram("us", point);
    names::LATENCY.clone_into(&mut hdr.metric.name);
    let decoded = decode(&request([hdr]));
    let [row] = decoded.rows.latency.as_slice() else { panic!("one row: {:?}", decoded.rejected) };
    assert_eq!((row.lo.as_slice(), row.hi.as_slice()), (&[5.0, 1_000.0][..], &[5.0, 1_007.0][..]));
    assert_eq!((row.n.as_slice(), row.metric.as_str(), row.attributes.len()), (&[2, 9][..], "queue_time", 0));
}

#[test]
fn histograms_that_cannot_be_added_up_are_rejected_visibly() {
    let mut torn = buckets(&[0.1], &[3, 4]);
    torn.count = 9;
    let falling = buckets(&[0.5, 0.1], &[1, 1, 1]);
    let exponential = |negative: u64| {
        let point = ExponentialHistogramDataPoint {
            time_unix_nano: T,
            count: 1 + negative,
            zero_count: 1,
            zero_threshold: 0.02,
            negative: Some(Buckets { offset: 0, bucket_counts: vec![negative] }),
            ..ExponentialHistogramDataPoint::default()
        };
        let temporality = AggregationTemporality::Delta as i32;
        let data = ExponentialHistogram { data_points: vec![point], aggregation_temporality: temporality };
        sent(metric("some.duration", "s", Data::ExponentialHistogram(data)))
    };
    let summary = Summary { data_points: vec![SummaryDataPoint { time_unix_nano: T, ..SummaryDataPoint::default() }] };
    let decoded = decode(&request([
        histogram("s", torn),
        histogram("s", falling),
        histogram("By", buckets(&[1.0], &[1, 1])),
        exponential(1),
        exponential(0),
        sent(metric("some.summary", "s", Data::Summary(summary))),
    ]));
    let reasons: Vec<_> = decoded.rejected.iter().map(|(reason, count)| (reason.as_str(), count)).collect();
    let expected = ["summary", "histogram_unit", "buckets", "torn", "negative_range"].map(|reason| (reason, 1));
    assert_eq!(reasons, expected);
    // The zero bucket keeps its threshold.
    assert_eq!((decoded.rows.latency[0].hi[0], decoded.rows.latency[0].n[0]), (0.02 * 1e6, 1));
}

#[test]
fn what_is_not_finite_or_not_in_time_is_rejected() {
    let gauge = |value| sent(metric("queue.length", "1", Data::Gauge(Gauge { data_points: vec![point(value, &[])] })));
    let mut endless = buckets(&[1.0], &[1, 1]);
    endless.sum = Some(f64::INFINITY);
    let mut old = buckets(&[1.0], &[1, 1]);
    (old.time_unix_nano, old.start_time_unix_nano) = (T / 1_000, 0);
    let mut ahead = buckets(&[1.0], &[1, 1]);
    ahead.time_unix_nano = T + 3_600_000_000_000;
    let decoded = decode(&request([
        gauge(double(f64::INFINITY)),
        gauge(double(f64::NEG_INFINITY)),
        histogram("s", endless),
        histogram("s", old),
        histogram("s", ahead),
    ]));
    let reasons: Vec<_> = decoded.rejected.iter().map(|(reason, count)| (reason.as_str(), count)).collect();
    assert_eq!(reasons, [("time", 1), ("too_old", 1), ("not_a_number", 3)]);
    assert!(decoded.rows.is_empty());
    // A sum that only overflows in microseconds is not told.
    let mut large = buckets(&[1.0], &[1, 1]);
    large.sum = Some(f64::MAX);
    assert_eq!(decode(&request([histogram("s", large)])).rows.latency[0].sum_us, None);
}

/// Points of every kind, some of which contradict each other.
fn any_point() -> impl Strategy<Value = Sent> {
    let device = prop::sample::select(vec!["GPU-1", "GPU-2"]);
    let number =
        (prop::sample::select(names::metrics().copied().collect::<Vec<_>>()), -1_i64..3, device.clone(), 0_u64..2)
            .prop_map(|(known, value, device, second)| {
                let owner = Owner { project: device.to_owned(), ..Owner::default() }.id().to_string();
                let mut pairs = match known.group {
                    Group::Gpu => vec![(names::HW_ID, device)],
                    Group::Storage => vec![(names::SYSTEM_DEVICE, device)],
                    Group::Ledger => vec![(names::HW_ID, device), (names::OWNER_ID, owner.as_str())],
                    Group::Info => {
                        vec![(names::HW_ID, device), (names::EVENT_KIND, "x"), (names::EVENT_ID, owner.as_str())]
                    }
                    Group::Served => vec![(names::SERVICE_NAME, device), (names::TOKEN_TYPE, "output")],
                    Group::Node | Group::Latency | Group::Series => Vec::new(),
                };
                if known.group == Group::Storage && !known.name.contains(".disk.") {
                    pairs = vec![(names::MOUNTPOINT, if device == "GPU-1" { "/" } else { "/data" })];
                }
                // Of several variants, any one.
                let chosen = usize::try_from(value + 1).unwrap() % known.variants.len().max(1);
                pairs.extend(known.variants.get(chosen).map_or(&[][..], |variant| variant.attributes));
                let mut point = point(int(value), &pairs);
                point.time_unix_nano = 1_700_000_040_000_000_000 - second * 60_000_000_000;
                point.start_time_unix_nano = point.time_unix_nano - 60_000_000_000;
                sent(shaped(known.name, point))
            });
    let latency =
        (prop::collection::vec(0_u64..4, 3), 0_u64..3, any::<bool>()).prop_map(|(counts, second, cumulative)| {
            let mut point = buckets(&[0.1, 0.5], &counts);
            point.time_unix_nano += second;
            let mut sent = histogram("s", point);
            if let (true, Some(Data::Histogram(histogram))) = (cumulative, &mut sent.metric.data) {
                histogram.aggregation_temporality = AggregationTemporality::Cumulative as i32;
            }
            sent
        });
    let scoped = (0_i64..3, prop::sample::select(vec!["", "scope"])).prop_map(|(value, scope)| Sent {
        scope,
        ..sent(metric("queue.length", "1", Data::Gauge(Gauge { data_points: vec![point(int(value), &[])] })))
    });
    prop_oneof![6 => number, 2 => latency, 1 => scoped]
}

/// The same points, neighbours with equal resources put under one.
fn merged(sent: Vec<Sent>) -> ExportMetricsServiceRequest {
    let mut merged = ExportMetricsServiceRequest::default();
    for one in request(sent).resource_metrics {
        match merged.resource_metrics.last_mut() {
            Some(last) if last.resource == one.resource => last.scope_metrics.extend(one.scope_metrics),
            _ => merged.resource_metrics.push(one),
        }
    }
    merged
}

/// What the writer will be told, running totals included.
async fn rows(request: &ExportMetricsServiceRequest) -> (Rows, Rejected) {
    let mut decoded = decode(request);
    let memory = crate::ingest::cumulative::Memory::new(100);
    let mut work = memory.hold(decoded.running, &mut decoded.rejected).await;
    work.take(crate::ingest::cumulative::Stored::default(), i64::try_from(T).unwrap(), &mut decoded.rejected);
    decoded.rows.latency.extend(work.rows());
    (decoded.rows, decoded.rejected)
}

proptest! {
    #[test]
    fn neither_order_nor_division_of_points_matters(
        (points, shuffled) in prop::collection::vec(any_point(), 0..60)
            .prop_flat_map(|points| (Just(points.clone()), Just(points).prop_shuffle()))
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let total = points.len() as u64;
        let (one, other) = runtime.block_on(async { (rows(&request(points)).await, rows(&merged(shuffled)).await) });
        prop_assert_eq!(&one.0, &other.0);
        // Of equal points that lose against another one, the first may or may not have come before it.
        let counts = |rejected: &Rejected| {
            let told = rejected.iter().map(|(reason, count)| if reason == Reason::Conflicting { (reason, 1) } else { (reason, count) });
            told.collect::<Vec<_>>()
        };
        prop_assert_eq!(counts(&one.1), counts(&other.1));
        prop_assert!(one.1.points() <= total);
    }
}
