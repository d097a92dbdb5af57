//! What a node hands on of a GPU that is split by MIG: devices of their own, that are one GPU together.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::{BTreeMap, BTreeSet};

use contador_agent::config::{Config, Overrides};
use contador_agent::http::Health;
use contador_agent::ledger::MINUTE_MS;
use contador_agent::outbox::pack::plain;
use contador_agent::outbox::{Keeper, Kind};
use contador_agent::run::Options;
use contador_agent::run::node::Node;
use contador_agent::sensors::NvmlLibrary;
use contador_agent::telemetry::Telemetry;
use contador_schemas::names;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use prost::Message as _;

#[path = "../../agent/tests/common/mod.rs"]
mod collector;
mod nvml_support;

use collector::points;
use nvml_support::Simulator;

const GPU: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";

/// The start of a minute.
const START: i64 = 1_790_000_040_000;

/// What was handed on.
type Record = (Kind, ExportMetricsServiceRequest);

async fn handed_on(keeper: &Keeper, all: &mut Vec<Record>) {
    while let Some((lane, batch)) = keeper.peek(1_000, 1 << 24).await.unwrap() {
        let records = batch.records.iter();
        all.extend(records.map(|record| {
            (record.kind, ExportMetricsServiceRequest::decode(&*plain(&record.payload).unwrap()).unwrap())
        }));
        keeper.acknowledge(lane, *batch.ends.last().unwrap()).await.unwrap();
    }
}

fn of_kind(all: &[Record], kind: Kind, metric: &str) -> Vec<NumberDataPoint> {
    let requests: Vec<_> = all.iter().filter(|(of, _)| *of == kind).map(|(_, request)| request.clone()).collect();
    points(&requests, metric)
}

/// An attribute as text; empty when it is not there.
fn attribute(point: &NumberDataPoint, name: &str) -> String {
    let value = point.attributes.iter().find(|attribute| attribute.key == name).and_then(|found| found.value.as_ref());
    match value.and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn devices(points: &[NumberDataPoint]) -> BTreeSet<String> {
    points.iter().map(|point| attribute(point, names::HW_ID)).collect()
}

#[tokio::test]
async fn instances_are_sampled_and_booked_as_parts_of_their_gpu() {
    let here = std::process::id();
    let simulator = Simulator::new(&format!(
        "[[gpu]]\nmodel = \"h100-80gb\"\nuuid = \"{GPU}\"\n\
         mig = [{{ at = \"0s\", layout = [\"3g.40gb\", \"1g.10gb\"] }}, {{ at = \"1s\", layout = [\"1g.10gb\"] }}]\n\
         [[gpu.instance]]\nprofile = \"1g.10gb\"\n[[gpu.instance.process]]\npid = {here}\nmemory_mib = 100\n"
    ));
    let state = tempfile::tempdir().unwrap();
    let overrides =
        Overrides { state_dir: Some(state.path().to_owned()), node: Some("n1".into()), ..Overrides::default() };
    let mut config = Config::load(None, &overrides).unwrap();
    // Those of the machine that this runs on have nothing to do with it.
    (config.kubernetes.socket, config.slurm.scontrol) =
        ("/nonexistent/kubelet.sock".into(), "/nonexistent/scontrol".into());
    let telemetry = Telemetry::new().unwrap();
    let keeper = Keeper::open(&config.spool_dir, config.spool, telemetry.clone()).unwrap();
    let options = Options { library: NvmlLibrary::at(simulator.path()), ..Options::default() };
    let mut node = Node::start(&config, &options, keeper.clone(), telemetry, Health::default()).unwrap();
    let mut all = Vec::new();
    let mut instant_ms = START;
    let mut until = async |node: &mut Node, all: &mut Vec<_>, is_there: &dyn Fn(&[Record]) -> bool| {
        // A tick that finds the sensor slow hands on what it has; the next one has the rest.
        for _ in 0..500 {
            node.tick(instant_ms).await;
            instant_ms += 1_000;
            handed_on(&keeper, all).await;
            if is_there(all) {
                return;
            }
        }
        panic!("it did not come: {all:?}");
    };

    until(&mut node, &mut all, &|all| devices(&of_kind(all, Kind::Samples, names::GPU_MEMORY_USAGE)).len() == 3).await;
    let infos = of_kind(&all, Kind::Samples, names::DEVICE_INFO);
    let told = |name: &str| -> BTreeMap<String, String> {
        let has = infos.iter().filter(|info| info.attributes.iter().any(|attribute| attribute.key == name));
        has.map(|info| (attribute(info, names::HW_ID), attribute(info, name))).collect()
    };
    assert_eq!(told(names::HW_MODEL).len(), 3);
    assert_eq!(told(names::HW_PARENT).into_values().collect::<Vec<_>>(), [GPU, GPU]);
    assert!(!told(names::MIG_PROFILE).contains_key(GPU), "a GPU is no instance");
    let profiles: BTreeSet<_> = told(names::MIG_PROFILE).into_values().collect();
    assert_eq!(profiles, BTreeSet::from(["1g.10gb".to_owned(), "3g.40gb".to_owned()]));
    let numbers =
        [names::MIG_GPU_INSTANCE, names::MIG_COMPUTE_INSTANCE, names::MIG_COMPUTE_SLICES, names::MIG_MEMORY_SLICES];
    let of_3g = told(names::MIG_PROFILE).into_iter().find(|(_, profile)| profile == "3g.40gb").unwrap().0;
    assert_eq!(numbers.map(|name| told(name)[&of_3g].clone()), ["1", "0", "3", "4"]);

    // Another layout: an event says so, and the devices are described again.
    simulator.hold_clock(1_000);
    until(&mut node, &mut all, &|all| {
        let events = of_kind(all, Kind::Event, names::EVENT);
        events.iter().any(|event| attribute(event, names::EVENT_KIND) == "mig_changed")
    })
    .await;
    let events = of_kind(&all, Kind::Event, names::EVENT);
    let changed = events.iter().find(|event| attribute(event, names::EVENT_KIND) == "mig_changed").unwrap();
    assert_eq!(attribute(changed, names::HW_ID), GPU);
    let message = attribute(changed, names::EVENT_MESSAGE);
    assert!(
        message.starts_with("MIG instances changed from 3g.40gb (MIG-") && message.contains(" to 1g.10gb (MIG-"),
        "{message}"
    );

    // Nothing of the change is in the next minute but one.
    let nanos = u64::try_from(MINUTE_MS).unwrap() * 1_000_000;
    let minute = (changed.time_unix_nano / nanos + 2) * nanos;
    // Whole minutes later each is booked with its part of the GPU: together they have its time, and the process its own.
    until(&mut node, &mut all, &|all| {
        let booked = of_kind(all, Kind::Ledger, names::LEDGER_SHARE);
        booked.iter().any(|point| point.start_time_unix_nano >= minute)
    })
    .await;
    let rows = of_kind(&all, Kind::Ledger, names::LEDGER_SHARE);
    let mut minutes = BTreeMap::<u64, i64>::new();
    let mut last = BTreeMap::<(String, String), i64>::new();
    for row in &rows {
        let Some(Value::AsInt(share)) = row.value else { panic!("no whole number: {row:?}") };
        *minutes.entry(row.start_time_unix_nano).or_default() += share;
        if row.start_time_unix_nano == minute {
            last.insert((attribute(row, names::HW_ID), attribute(row, names::OWNER_KIND)), share);
        }
    }
    assert!(minutes.len() >= 3 && minutes.values().all(|share| *share == 60_000), "{minutes:?}");
    let one =
        devices(&rows).into_iter().find(|device| last.contains_key(&(device.clone(), "workload".into()))).unwrap();
    let infos = of_kind(&all, Kind::Samples, names::DEVICE_INFO);
    let profile = infos.iter().rev().find(|info| attribute(info, names::HW_ID) == one).unwrap();
    assert_eq!(attribute(profile, names::MIG_PROFILE), "1g.10gb");
    // A seventh, and what no instance covers has the rest.
    let stranded = last[&(GPU.to_owned(), "stranded".to_owned())];
    assert_eq!(last.into_values().collect::<Vec<_>>(), [stranded, 60_000 - stranded]);
    assert!((60_000 - stranded - 60_000 / 7).abs() <= 1, "{stranded}");
    // The energy is the board's counter's, to the millijoule, which has not risen since the clock was held.
    let booked: i64 = of_kind(&all, Kind::Ledger, names::LEDGER_ENERGY)
        .iter()
        .map(|row| match row.value {
            Some(Value::AsInt(energy)) => energy,
            _ => panic!("no whole number: {row:?}"),
        })
        .sum();
    let counter = of_kind(&all, Kind::Samples, names::ENERGY);
    let joules = |point: &NumberDataPoint| match point.value {
        Some(Value::AsDouble(joules)) => joules,
        Some(Value::AsInt(joules)) => f64::from(i32::try_from(joules).unwrap()),
        None => panic!("no value: {point:?}"),
    };
    let risen = joules(counter.last().unwrap()) - joules(counter.first().unwrap());
    assert!((f64::from(i32::try_from(booked).unwrap()) - risen * 1e3).abs() < 0.5, "{booked} mJ of {risen} J");
}
