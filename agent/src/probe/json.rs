//! The report for a machine.

use serde::Serialize;
use serde_json::{Map, Value, json};

use contador_schemas::mapping::Decision;
use contador_schemas::owner::Owner;

use super::{Asked, ProbeReport};
use crate::owners::Identified;
use crate::owners::claim::Part;
use crate::run::attribute;

/// The report as JSON; `docs/probe.md` describes it. What was asked for is `{"value": …}`, `{"unsupported": reason}`,
/// `{"failed": reason}` or `{"stuck_seconds": n}`; a measure has its unit.
pub fn render_json(report: &ProbeReport) -> Value {
    let gpus = match &report.gpus {
        Asked::Answered(reading) => Asked::Answered(reading.clone().map(|gpus| {
            let devices: Vec<Value> = gpus
                .devices
                .iter()
                .map(|(identity, sample)| {
                    let owners: Vec<Value> = report.owners_of(&identity.uuid).map(|of| owner(report, of)).collect();
                    let given = attribute::given_of(sample, &report.given).iter().map(|(part, of)| {
                        let ppm = match part {
                            Part::Even => Value::Null,
                            Part::Ppm(ppm) => (*ppm).into(),
                        };
                        let works = !report.without_process(sample).any(|other| other == of);
                        let works = sample.processes.value().map(|_| works);
                        json!({ "id": of.id().to_string(), "label": of.label(), "ppm": ppm, "has_process": works })
                    });
                    let given: Vec<Value> = given.collect();
                    json!({ "identity": identity, "sample": sample, "owners": owners, "given": given })
                })
                .collect();
            let unreadable: Vec<Value> =
                gpus.unreadable.iter().map(|(index, reason)| json!({ "index": index, "reason": reason })).collect();
            let stuck = gpus.stuck.iter().map(|stuck| {
                let seconds = stuck.passed.as_secs_f64();
                json!({ "index": stuck.index, "identity": stuck.identity, "stuck_seconds": seconds })
            });
            json!({
                "simulated": gpus.simulated,
                "driver_version": gpus.driver_version,
                "devices": devices,
                "unreadable": unreadable,
                "stuck": stuck.collect::<Vec<_>>(),
                "topology": shown(&gpus.topology),
            })
        })),
        Asked::Stuck(passed) => Asked::Stuck(*passed),
    };
    let sensors: Map<String, Value> =
        report.sensors.iter().map(|(name, asked)| ((*name).to_owned(), shown(asked))).collect();
    let mut pids: Vec<(&u32, &Identified)> = report.processes.iter().collect();
    pids.sort_by_key(|(pid, _)| **pid);
    let processes: Map<String, Value> =
        pids.into_iter().map(|(pid, of)| (pid.to_string(), owner(report, of))).collect();
    json!({
        "node": report.node,
        "ts_ms": report.ts_ms,
        "gpus": shown(&gpus),
        "process_owners": processes,
        "schedulers_silent": report.silent,
        "sensors": sensors,
    })
}

/// What is known of an owner, how it is called, and what decided who pays.
fn owner(report: &ProbeReport, owner: &Owner) -> Value {
    let mut fields = Map::new();
    fields.insert("label".to_owned(), owner.label().into());
    fields.insert("id".to_owned(), owner.id().to_string().into());
    fields.insert("kind".to_owned(), owner.kind.as_str().into());
    let known = owner.attributes().into_iter().filter(|(_, value)| !value.is_empty());
    fields.extend(known.map(|(name, value)| (name.to_owned(), value.into())));
    let decided = report.decided.get(owner).into_iter().flatten().filter_map(Decision::name);
    fields.insert("rules".to_owned(), decided.collect());
    Value::Object(fields)
}

fn shown<T: Serialize>(asked: &Asked<T>) -> Value {
    match asked {
        Asked::Answered(reading) => {
            serde_json::to_value(reading).unwrap_or_else(|error| json!({ "failed": error.to_string() }))
        }
        Asked::Stuck(passed) => json!({ "stuck_seconds": passed.as_secs_f64() }),
    }
}
