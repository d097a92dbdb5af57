//! What devices are, with all facts that are known of them, and what happened, as points.

use contador_schemas::names;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use uuid::Uuid;

use super::points::{Points, int, nanoseconds, text, whole, yes};
use crate::sensors::{GpuIdentity, LayoutChange};

/// Something that happened on the node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// The same for every copy of this event.
    pub id: Uuid,
    /// When, Unix milliseconds.
    pub ts_ms: i64,
    /// Its kind, such as `agent_started`.
    pub kind: &'static str,
    /// For people.
    pub message: String,
    /// The device that it happened to.
    pub device: Option<String>,
    /// For programs, by the names of the registry.
    pub attributes: Vec<(&'static str, String)>,
}

impl Event {
    /// A new event.
    pub fn new(ts_ms: i64, kind: &'static str, message: impl Into<String>) -> Self {
        Self { id: Uuid::new_v4(), ts_ms, kind, message: message.into(), device: None, attributes: Vec::new() }
    }

    /// The same, of a device.
    #[must_use]
    pub fn of(self, uuid: impl Into<String>) -> Self {
        Self { device: Some(uuid.into()), ..self }
    }

    /// The same, with one more attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }
}

/// The event of other MIG instances than before on a GPU.
pub fn mig_changed(change: &LayoutChange, ts_ms: i64) -> Event {
    let list = |instances: &[(String, String)]| {
        let shown: Vec<_> = instances.iter().map(|(profile, uuid)| format!("{profile} ({uuid})")).collect();
        if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
    };
    let message = format!("MIG instances changed from {} to {}", list(&change.before), list(&change.after));
    Event::new(ts_ms, "mig_changed", message).of(&change.parent)
}

/// Adds an event.
pub fn event(points: &mut Points, event: &Event) {
    let mut attributes = vec![
        text(names::EVENT_ID, &event.id.to_string()),
        text(names::EVENT_KIND, event.kind),
        text(names::EVENT_MESSAGE, &event.message),
    ];
    attributes.extend(event.device.as_ref().map(|uuid| text(names::HW_ID, uuid)));
    attributes.extend(event.attributes.iter().map(|(name, value)| text(name, value)));
    let time = nanoseconds(event.ts_ms);
    points.push(names::EVENT, (time, time), attributes, int(1));
}

/// Adds what a device is, as seen at `ts_ms` (Unix milliseconds).
pub fn device(points: &mut Points, gpu: &GpuIdentity, ts_ms: i64) {
    points.push(names::DEVICE_INFO, (0, nanoseconds(ts_ms)), attributes(gpu), int(1));
}

/// What a device is, by the attributes of the registry.
pub fn attributes(gpu: &GpuIdentity) -> Vec<KeyValue> {
    let mut attributes = vec![
        text(names::HW_ID, &gpu.uuid),
        text(names::HW_TYPE, "gpu"),
        text(names::HW_VENDOR, "NVIDIA"),
        text(names::HW_MODEL, &gpu.name),
        text(names::HW_DRIVER_VERSION, &gpu.driver_version),
    ];
    attributes.extend(gpu.pci_bus_id.as_ref().map(|address| text(names::DEVICE_PCI, address)));
    attributes.extend(gpu.memory_total_bytes.get().map(|bytes| whole(names::DEVICE_MEMORY, bytes)));
    if let Some(mig) = &gpu.mig {
        attributes.push(text(names::HW_PARENT, &mig.parent));
        attributes.push(text(names::MIG_PROFILE, &mig.profile));
        let numbers = [
            (names::MIG_GPU_INSTANCE, Some(mig.gpu_instance)),
            (names::MIG_COMPUTE_INSTANCE, Some(mig.compute_instance)),
            (names::MIG_COMPUTE_SLICES, mig.compute_slices),
            (names::MIG_MEMORY_SLICES, mig.memory_slices),
        ];
        attributes.extend(numbers.into_iter().filter_map(|(name, number)| Some(whole(name, number?.into()))));
    }
    for (_, fact) in names::DEVICE_FACTS {
        attributes.extend(gpu.facts.get(fact).map(|value| text(fact, value)));
    }
    attributes.extend(gpu.simulated.then(|| yes(names::SIMULATED)));
    attributes
}
