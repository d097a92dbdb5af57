//! What the agent makes of GPUs and drivers that go, come back, hang and complain.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::{BTreeMap, BTreeSet};

use contador_agent::run::gpus::MAX_ABANDONED;
use contador_schemas::names;

#[path = "../../agent/tests/common/mod.rs"]
mod collector;
mod nvml_support;
mod watch_support;

use collector::{attribute, points};
use nvml_support::Simulator;
use watch_support::{Agent, number, scenario, second, uuid};

/// Seconds within which samples must come again.
const RESUMES: usize = 5;

fn seconds(range: std::ops::RangeInclusive<i64>) -> BTreeSet<i64> {
    range.collect()
}

#[tokio::test]
async fn a_lost_gpu_is_said_once_stops_no_other_and_is_back_within_5_s() {
    for kind in ["lost", "off_the_bus"] {
        let mut agent = Agent::start(&scenario(3));
        agent.ticks(3).await;
        // XIDs before their thread has registered the GPU are lost, as with the driver.
        agent.until(|agent| !agent.series(names::GPU_XID_LAST, &uuid(1)).is_empty()).await;
        let before = agent.now();
        assert_eq!(agent.kinds(), [""; 0], "{kind}");
        agent.simulator.faults(&format!("[[fault]]\nkind = \"{kind}\"\ngpu = 1\n"));
        agent.ticks(8).await;
        let lost = agent.of_kind("gpu_lost");
        assert_eq!(lost.len(), 1, "{kind}: {:#?}", agent.events());
        assert_eq!(lost[0].device, uuid(1));
        assert!(lost[0].message.starts_with(&format!("GPU 1 ({}, NVIDIA H100 80GB HBM3) is lost: ", uuid(1))));
        assert!(agent.sampled(&uuid(1)).is_subset(&seconds(0..=before)), "{kind}");
        assert_eq!(agent.health.get(), Ok(()), "the others are sampled");
        assert!(agent.health.remarks()[0].contains(&uuid(1)), "{:?}", agent.health.remarks());
        agent.simulator.faults("");
        let from = agent.now();
        let rounds = agent.until(|agent| agent.sampled(&uuid(1)).iter().any(|at| *at > from)).await;
        assert!(rounds <= RESUMES, "{kind}: {rounds}");
        agent.ticks(3).await;
        assert_eq!(agent.kinds(), ["gpu_lost", "gpu_back"], "{kind}");
        assert!(agent.health.remarks().is_empty());
        for other in [0, 2] {
            assert_eq!(agent.sampled(&uuid(other)), seconds(0..=agent.now()), "{kind}: GPU {other}");
        }
        // Off the bus is also an XID; of it the count stays. It comes when its thread has waited for it.
        if kind == "off_the_bus" {
            agent.until(|agent| !agent.of_kind("xid").is_empty()).await;
        }
        let xids = agent.of_kind("xid");
        assert_eq!(xids.len(), usize::from(kind == "off_the_bus"));
        for xid in xids {
            assert_eq!(xid.device, uuid(1));
            assert!(xid.message.ends_with("raised XID 79: the GPU has fallen off the bus"), "{}", xid.message);
            let last = agent.series(names::GPU_XID_LAST, &uuid(1));
            assert_eq!(last.last_key_value().map(|(_, point)| number(point)), Some(79.0));
        }
    }
}

#[tokio::test]
async fn a_reloaded_driver_is_opened_again_and_the_ledger_conserves() {
    let mut agent = Agent::start(&scenario(2));
    agent.ticks(70).await;
    agent.simulator.faults("[[fault]]\nkind = \"driver_reload\"\ndriver_version = \"575.57.08\"\n");
    agent.until(|agent| agent.health.get().is_err()).await;
    agent.wait_for_release();
    agent.ticks(4).await;
    assert_eq!(agent.kinds(), ["driver_lost"], "{:#?}", agent.events());
    assert!(agent.health.get().unwrap_err().contains("driver"), "{:?}", agent.health.get());
    agent.simulator.faults("");
    let rounds = agent.until(|agent| agent.health.get().is_ok()).await;
    assert!(rounds <= RESUMES, "{rounds}");
    assert_eq!(agent.kinds(), ["driver_lost", "driver_reloaded"]);
    let reloaded = &agent.of_kind("driver_reloaded")[0];
    assert_eq!(reloaded.message, "the driver was reloaded: 570.133.20 -> 575.57.08");
    assert_eq!(reloaded.attributes[names::HW_DRIVER_VERSION], "575.57.08");
    while agent.now() < 200 {
        agent.tick().await;
    }
    let described = points(&agent.received, names::DEVICE_INFO);
    let version = attribute(&described.last().unwrap().attributes, names::HW_DRIVER_VERSION).to_owned();
    assert_eq!(version, "575.57.08");

    // Rounds are on the boundaries of minutes, so that a minute's energy is what the counter rose by from round to round.
    for device in [uuid(0), uuid(1)] {
        let energy = agent.series(names::ENERGY, &device);
        let counter: Vec<(i64, i64)> = energy.iter().map(|(at, point)| (*at, millijoules(number(point)))).collect();
        let falls = counter.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
        assert_eq!(falls, 1, "the counter starts again at 0, once");
        let mut rises: BTreeMap<i64, i64> = BTreeMap::new();
        for pair in counter.windows(2) {
            let rise = if pair[1].1 < pair[0].1 { pair[1].1 } else { pair[1].1 - pair[0].1 };
            assert_eq!((pair[0].0) / 60, (pair[1].0 - 1) / 60, "no gap over the end of a minute");
            *rises.entry((pair[1].0 - 1) / 60).or_default() += rise;
        }
        let minutes = |metric| {
            let mut minutes: BTreeMap<i64, f64> = BTreeMap::new();
            for point in points(&agent.received, metric) {
                if attribute(&point.attributes, names::HW_ID) == device {
                    *minutes.entry(second(&point) / 60 - 1).or_default() += number(&point);
                }
            }
            minutes
        };
        let (shares, booked) = (minutes(names::LEDGER_SHARE), minutes(names::LEDGER_ENERGY));
        assert_eq!(shares.into_iter().collect::<Vec<_>>(), [(0, 60_000.0), (1, 60_000.0), (2, 60_000.0)]);
        for minute in 0..3 {
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let expected = rises[&minute] as f64;
            assert_eq!(booked[&minute], expected, "{device}, minute {minute}");
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a counter of this test")]
fn millijoules(joules: f64) -> i64 {
    (joules * 1e3).round() as i64
}

#[tokio::test]
async fn a_gpu_that_is_added_is_sampled_within_5_s_and_one_that_is_removed_is_said() {
    let mut agent = Agent::start(&scenario(3));
    agent.simulator.faults("[[fault]]\nkind = \"absent\"\ngpu = 1\n");
    agent.ticks(5).await;
    assert!(agent.sampled(&uuid(1)).is_empty() && agent.kinds().is_empty(), "{:#?}", agent.events());
    agent.simulator.faults("");
    let rounds = agent.until(|agent| !agent.sampled(&uuid(1)).is_empty()).await;
    assert!(rounds <= RESUMES, "{rounds}");
    agent.ticks(3).await;
    assert_eq!(agent.kinds(), ["gpu_added"]);
    let added = &agent.of_kind("gpu_added")[0];
    assert_eq!(added.message, format!("GPU 1 ({}, NVIDIA H100 80GB HBM3) was added", uuid(1)));
    // And is gone again.
    agent.simulator.faults("[[fault]]\nkind = \"absent\"\ngpu = 1\n");
    agent.until(|agent| !agent.of_kind("gpu_removed").is_empty()).await;
    agent.ticks(5).await;
    assert_eq!(agent.kinds(), ["gpu_added", "gpu_removed"]);
    assert_eq!(agent.of_kind("gpu_removed")[0].device, uuid(1));
    // Who comes after it in the driver's list is not taken for it.
    for other in [0, 2] {
        let sampled = agent.sampled(&uuid(other));
        let resumed: BTreeSet<i64> = sampled.iter().copied().filter(|at| *at > agent.now() - 5).collect();
        assert_eq!(resumed, seconds(agent.now() - 4..=agent.now()), "GPU {other}");
    }
    assert_eq!(agent.health.get(), Ok(()));
}

#[tokio::test]
async fn a_gpu_that_hangs_is_stuck_and_no_other_sensor_misses_a_round() {
    let mut agent = Agent::start(&scenario(3));
    agent.ticks(3).await;
    agent.simulator.faults("[[fault]]\nkind = \"hang\"\ngpu = 1\n");
    agent.ticks(60).await;
    let stuck = agent.of_kind("sensor_stuck");
    assert_eq!(stuck.len(), 1, "{:#?}", agent.events());
    assert!(
        stuck[0].message.starts_with(&format!("the sensor {} has not answered for ", uuid(1))),
        "{}",
        stuck[0].message
    );
    assert!(agent.sampled(&uuid(1)).is_subset(&seconds(0..=2)), "nothing is repeated in its place");
    let waited = agent.sensor(names::SENSOR_STUCK, &uuid(1));
    assert_eq!((waited[&0], waited[&4], waited[&62]), (0.0, 1.0, 59.0));
    assert_eq!(waited.get(&2), None, "while nothing is the matter, once a minute is enough");
    assert_eq!(agent.sensor(names::SENSOR_AGE, &uuid(1))[&62], 60.0);
    let calm = agent.sensor(names::SENSOR_STUCK, &uuid(0));
    assert_eq!(calm.into_iter().collect::<Vec<_>>(), [(0, 0.0), (60, 0.0)]);
    let remarks = agent.health.remarks();
    assert!(remarks.len() == 1 && remarks[0].ends_with("has not answered for 59000 ms"), "{remarks:?}");
    agent.simulator.faults("");
    let from = agent.now();
    let rounds = agent.until(|agent| agent.sampled(&uuid(1)).iter().any(|at| *at > from)).await;
    agent.ticks(2).await;
    assert_eq!(agent.kinds(), ["sensor_stuck", "sensor_recovered"], "{rounds}");
    assert!(agent.sampled(&uuid(1)).contains(&3), "the late answer is of the instant that it was asked for");
    for other in [0, 2] {
        assert_eq!(agent.sampled(&uuid(other)), seconds(0..=agent.now()), "GPU {other}");
    }
    assert_eq!(agent.host_sampled(), seconds(0..=agent.now()));
}

#[tokio::test]
async fn a_gpu_that_hangs_at_the_start_does_not_keep_the_others_from_being_found() {
    let mut agent = Agent::start(&scenario(2));
    agent.simulator.faults("[[fault]]\nkind = \"hang\"\ngpu = 0\n");
    agent.ticks(5).await;
    assert_eq!(agent.sampled(&uuid(1)), seconds(0..=4));
    assert_eq!(agent.kinds(), ["sensor_stuck"]);
    agent.simulator.faults("");
    agent.until(|agent| !agent.sampled(&uuid(0)).is_empty()).await;
}

#[tokio::test]
async fn each_xid_of_a_storm_is_stored_and_counted_once() {
    let mut agent = Agent::start(&scenario(2));
    let registered = |agent: &Agent| !agent.series(names::GPU_XID_LAST, &uuid(0)).is_empty();
    agent.until(|agent| registered(agent) && !agent.series(names::GPU_XID_LAST, &uuid(1)).is_empty()).await;
    agent.simulator.faults(
        "[[fault]]\nkind = \"xid\"\ngpu = 0\ncode = 63\ncount = 400\n\
         [[fault]]\nkind = \"xid\"\ngpu = 0\ncode = 94\ncount = 600\ngpu_instance = 2\ncompute_instance = 0\n",
    );
    agent.until(|agent| agent.of_kind("xid").len() >= 1_000).await;
    agent.ticks(3).await;
    let xids = agent.of_kind("xid");
    let ids: BTreeSet<&str> = xids.iter().map(|xid| xid.id.as_str()).collect();
    assert_eq!((xids.len(), ids.len()), (1_000, 1_000));
    let contained = xids.iter().filter(|xid| xid.attributes[names::XID] == "94");
    let of_instance = contained.filter(|xid| {
        xid.attributes.get(names::MIG_GPU_INSTANCE).is_some_and(|id| id == "2")
            && xid.attributes.get(names::MIG_COMPUTE_INSTANCE).is_some_and(|id| id == "0")
            && xid.message.ends_with("raised XID 94: contained ECC error")
    });
    assert_eq!(of_instance.count(), 600);
    assert!(!xids[0].attributes.contains_key(names::MIG_GPU_INSTANCE));
    let counted = |agent: &Agent, metric: &str, name: &str, value: &str, device: &str| {
        let all = points(&agent.received, metric).into_iter();
        let mut own = all.filter(|point| {
            attribute(&point.attributes, names::HW_ID) == device && attribute(&point.attributes, name) == value
        });
        own.next_back().map(|point| number(&point))
    };
    // The counts stay when the driver is opened again.
    agent.simulator.faults("[[fault]]\nkind = \"driver_reload\"\n");
    agent.until(|agent| agent.health.get().is_err()).await;
    agent.wait_for_release();
    agent.simulator.faults("");
    agent.until(|agent| agent.health.get().is_ok()).await;
    agent.ticks(1).await;
    assert_eq!(counted(&agent, names::ERRORS, names::ERROR_TYPE, "xid", &uuid(0)), Some(1_000.0));
    assert_eq!(counted(&agent, names::ERRORS, names::ERROR_TYPE, "xid", &uuid(1)), Some(0.0));
    assert_eq!(counted(&agent, names::GPU_XIDS, names::XID, "63", &uuid(0)), Some(400.0));
    assert_eq!(counted(&agent, names::GPU_XIDS, names::XID, "94", &uuid(0)), Some(600.0));
    let last = agent.series(names::GPU_XID_LAST, &uuid(0));
    assert_eq!(last.last_key_value().map(|(_, point)| number(point)), Some(94.0));
}

#[tokio::test]
async fn a_gpu_without_xids_has_none_rather_than_zero() {
    let unsupported = "unsupported = [\"register_events\"]\n";
    let mut agent = Agent::start(&format!("{}{unsupported}", scenario(1)));
    agent.ticks(60).await;
    let said = |agent: &Agent| {
        let all = points(&agent.received, names::GPU_XID_LAST).into_iter();
        all.map(|point| (point.value.is_some(), point.flags)).collect::<BTreeSet<_>>()
    };
    agent.until(|agent| !said(agent).is_empty()).await;
    assert_eq!(said(&agent), BTreeSet::from([(false, 1)]));
}

#[tokio::test]
async fn released_handles_let_the_driver_be_reloaded_and_are_taken_again() {
    let mut agent = Agent::start(&scenario(2));
    agent.ticks(3).await;
    assert!(agent.simulator.inits() > 0);
    agent.release.ask(agent.instant_ms);
    agent.tick().await;
    agent.wait_for_release();
    agent.tick().await;
    assert_eq!(agent.kinds(), ["handles_released"]);
    assert_eq!(agent.health.get(), Err("the driver's handles are released".to_owned()));
    // The reload that would be blocked by a handle is over as soon as its time is.
    agent.simulator.faults("[[fault]]\nkind = \"driver_reload\"\ndriver_version = \"580.65.06\"\n");
    agent.simulator.faults("");
    agent.ticks(50).await;
    assert_eq!((agent.simulator.inits(), agent.kinds().len()), (0, 1));
    agent.until(|agent| agent.health.get().is_ok()).await;
    assert_eq!(agent.kinds(), ["handles_released", "driver_reloaded", "handles_taken"]);
    assert!(agent.of_kind("driver_reloaded")[0].message.ends_with("570.133.20 -> 580.65.06"));
    let gone: Vec<i64> = agent.sampled(&uuid(0)).into_iter().filter(|at| *at > 2).collect();
    assert!(gone.iter().all(|at| *at >= 62), "{gone:?}");
}

#[tokio::test]
async fn a_call_that_hangs_keeps_its_clone_until_it_returns_and_then_the_reload_is_done() {
    let mut agent = Agent::start(&scenario(2));
    // Who asks for the topology has the driver open as well: a call of its own that hung would be one more.
    agent.until(Agent::knows_the_topology).await;
    agent.until(|agent| agent.simulator.inits() == 1).await;
    let hang = "[[fault]]\nkind = \"hang\"\ngpu = 0\n";
    agent.simulator.faults(hang);
    agent.until(|agent| !agent.of_kind("sensor_stuck").is_empty()).await;
    let reload = "[[fault]]\nkind = \"driver_reload\"\ndriver_version = \"580.65.06\"\n";
    agent.simulator.faults(&format!("{hang}{reload}"));
    agent.until(|agent| !agent.of_kind("driver_lost").is_empty()).await;
    agent.simulator.faults(hang);
    agent.until(|agent| agent.simulator.inits() == 1).await;
    agent.ticks(10).await;
    assert_eq!(agent.simulator.inits(), 1, "the library is not closed under the call");
    assert_eq!(agent.telemetry.abandoned_threads.get(), 1);
    assert!(agent.health.get().is_err());
    agent.simulator.faults("");
    agent.wait_for_release();
    let rounds = agent.until(|agent| agent.health.get().is_ok()).await;
    assert!(rounds <= RESUMES, "{rounds}");
    agent.ticks(1).await;
    assert_eq!(agent.telemetry.abandoned_threads.get(), 0);
    assert_eq!(agent.of_kind("driver_reloaded").len(), 1);
    for device in [uuid(0), uuid(1)] {
        assert!(agent.sampled(&device).contains(&agent.now()));
    }
}

#[tokio::test]
async fn calls_that_hang_for_ever_do_not_pile_up_however_often_the_driver_is_opened_again() {
    let most = i64::try_from(MAX_ABANDONED).unwrap();
    let mut agent = Agent::with_patience(Simulator::new(&scenario(3)), "100ms");
    agent.ticks(2).await;
    let (hang, absent) = ("[[fault]]\nkind = \"hang\"\ngpu = 0\n", "[[fault]]\nkind = \"absent\"\ngpu = 1\n");
    agent.simulator.faults(hang);
    agent.until(|agent| !agent.of_kind("sensor_stuck").is_empty()).await;
    agent.received.clear();
    // Each time that there is another GPU, the driver is opened again, and the GPU hangs again.
    let mut there = true;
    while agent.telemetry.abandoned_threads.get() < most {
        there = !there;
        agent.simulator.faults(&if there { hang.to_owned() } else { format!("{hang}{absent}") });
        let before = agent.telemetry.abandoned_threads.get();
        agent.until(|agent| agent.telemetry.abandoned_threads.get() > before).await;
        if agent.telemetry.abandoned_threads.get() < most {
            agent.until(|agent| agent.sampled(&uuid(2)).contains(&agent.now())).await;
            agent.received.clear();
        }
    }
    assert_eq!(agent.of_kind("sensor_stuck").len(), 0, "what lasts is said once");
    for _ in 0..5 {
        agent.ticks(3).await;
        assert_eq!(agent.telemetry.abandoned_threads.get(), most);
        assert!(agent.health.get().unwrap_err().contains("it is not opened again"), "{:?}", agent.health.get());
    }
    agent.simulator.faults("");
    agent.until(|agent| agent.health.get().is_ok() && agent.telemetry.abandoned_threads.get() == 0).await;
    agent.tick().await;
    assert!((0..3).all(|gpu| agent.sampled(&uuid(gpu)).contains(&agent.now())));
}
