//! The report for a machine.

use serde::Serialize;
use serde_json::{Value, json};

use super::ProbeReport;
use crate::sensors::Reading;

/// The report as JSON. A reading is `{"value": …}`, `{"unsupported": reason}` or `{"failed": reason}`; units are in
/// the keys, as in the sensors' samples.
pub fn render_json(report: &ProbeReport) -> Value {
    let gpus = report.gpus.clone().map(|gpus| {
        let devices: Vec<Value> = gpus
            .devices
            .iter()
            .map(|(identity, sample)| {
                let owners: Vec<&str> = report.owners_of(&identity.uuid).collect();
                json!({ "identity": identity, "sample": sample, "owners": owners })
            })
            .collect();
        let unreadable: Vec<Value> =
            gpus.unreadable.iter().map(|(index, reason)| json!({ "index": index, "reason": reason })).collect();
        json!({ "simulated": gpus.simulated, "devices": devices, "unreadable": unreadable })
    });
    json!({
        "node": report.node,
        "ts_ms": report.ts_ms,
        "gpus": reading(&gpus),
        "disks": reading(&report.disks),
        "host": reading(&report.host),
    })
}

fn reading<T: Serialize>(reading: &Reading<T>) -> Value {
    serde_json::to_value(reading).unwrap_or_else(|error| json!({ "failed": error.to_string() }))
}
