//! Faults of sensors and drivers that users of comparable systems have met, by the ids of the list of cases.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::collections::BTreeSet;

use contador_agent::config::{Config, Overrides};
use contador_schemas::names;

#[path = "../../agent/tests/common/mod.rs"]
mod collector;
mod nvml_support;
mod watch_support;

use nvml_support::Simulator;
use watch_support::{Agent, scenario, uuid};

/// While a device does not answer there is no value of it, its age rises, and it is said: an old value is never new.
#[tokio::test]
async fn d15_a_value_that_is_not_read_any_more_expires_and_its_age_is_told() {
    let mut agent = Agent::start(&scenario(2));
    agent.ticks(3).await;
    agent.simulator.faults("[[fault]]\nkind = \"hang\"\ngpu = 0\ncall = \"utilization_rates\"\n");
    agent.ticks(30).await;
    for metric in [names::GPU_UTILIZATION, names::ENERGY, names::POWER, names::GPU_MEMORY_USAGE] {
        let last = agent.series(metric, &uuid(0)).into_keys().last();
        assert_eq!(last, Some(2), "{metric}");
    }
    let age = agent.sensor(names::SENSOR_AGE, &uuid(0));
    assert_eq!((age[&4], age[&32]), (2.0, 30.0));
    assert!(agent.health.remarks()[0].contains(&uuid(0)));
    let age = agent.sensor(names::SENSOR_AGE, &uuid(1));
    assert!(age.values().all(|age| *age == 0.0), "{age:?}");
}

/// Started while the driver is being reloaded: not ready, and no handle is in the reload's way; once it is there, ready.
#[tokio::test]
async fn d16_an_agent_that_starts_during_a_reload_is_not_ready_and_holds_no_handle() {
    let simulator = Simulator::without_scenario();
    simulator.load(&scenario(2)).unwrap();
    simulator.hold_clock(0);
    simulator.faults("[[fault]]\nkind = \"driver_reload\"\ndriver_version = \"580.65.06\"\n");
    let mut agent = Agent::with(simulator);
    for _ in 0..10 {
        agent.tick().await;
        let said = agent.health.get().unwrap_err();
        assert!(said.contains("driver"), "{said}");
        assert_eq!(agent.simulator.inits(), 0);
    }
    assert_eq!(agent.of_kind("gpus_missing").len(), 1);
    agent.simulator.faults("");
    let rounds = agent.until(|agent| agent.health.get().is_ok()).await;
    assert!(rounds <= 5, "{rounds}");
    assert_eq!(agent.of_kind("gpus_found").len(), 1);
    assert!(agent.sampled(&uuid(0)).contains(&agent.now()) && agent.sampled(&uuid(1)).contains(&agent.now()));
}

/// A driver that never returns, from a sample or from its start: the watchdog says so, and the machine is sampled on.
#[tokio::test]
async fn d17_a_driver_that_never_returns_is_said_and_cpu_and_disks_go_on() {
    for call in ["", "call = \"init\"\n", "call = \"device_count\"\n"] {
        let mut agent = Agent::start(&scenario(2));
        agent.simulator.faults(&format!("[[fault]]\nkind = \"hang\"\n{call}"));
        agent.ticks(20).await;
        assert_eq!(agent.host_sampled(), (0..20).collect::<BTreeSet<_>>(), "{call}");
        let stuck: BTreeSet<String> = agent.of_kind("sensor_stuck").into_iter().map(|event| event.message).collect();
        let sensors: &[&str] = if call.is_empty() { &["gpu-0", "gpu-1"] } else { &["gpus"] };
        assert_eq!(stuck.len(), sensors.len(), "{stuck:?}");
        for sensor in sensors {
            assert!(
                stuck.iter().any(|said| said.starts_with(&format!("the sensor {sensor} has not answered"))),
                "{stuck:?}"
            );
            assert_eq!(agent.sensor(names::SENSOR_STUCK, sensor)[&19], 19.0);
        }
        assert!(agent.health.get().unwrap_err().contains("has not answered"), "{:?}", agent.health.get());
        for sensor in ["disks", "host"] {
            let stuck = agent.sensor(names::SENSOR_STUCK, sensor);
            assert!(!stuck.is_empty() && stuck.values().all(|stuck| *stuck == 0.0), "{sensor}: {stuck:?}");
        }
        agent.simulator.faults("");
        agent.until(|agent| agent.health.get().is_ok()).await;
    }
}

/// An interval is a duration with its unit, from 100 ms: "3" is neither 3 s nor 3 ms, but a mistake.
#[test]
fn d18_an_interval_without_a_unit_is_refused_and_there_is_a_floor() {
    let load =
        |interval: &str| Config::load(None, &Overrides { interval: Some(interval.into()), ..Overrides::default() });
    for wrong in ["3", "0", "", "50ms", "99ms", "1ms", "0s"] {
        let said = load(wrong).expect_err(wrong).to_string();
        assert!(
            said.contains("interval") && said.contains(&format!("{wrong:?}")) && said.contains("expected"),
            "{said}"
        );
    }
    for (right, ms) in [("100ms", 100), ("3s", 3_000)] {
        assert_eq!(load(right).unwrap().interval.as_millis(), ms);
    }
}
