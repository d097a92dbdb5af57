//! What was last measured, by stream: one for each device, and one for each other sensor.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contador_schemas::names;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use crate::outbox::encode::infos;
use crate::owners::Identified;
use crate::sensors::{GpuIdentity, Measures};

/// How many intervals a value is shown for after it was measured, and for how long at least.
const INTERVALS: u32 = 5;
const AT_LEAST: Duration = Duration::from_secs(5);

/// How long the age of a stream that has ended is shown.
const FORGET: Duration = Duration::from_secs(3_600);

/// The sensor whose sample has only those mounts that have answered.
const ONE_BY_ONE: &str = "mounts";

/// Metrics that the agent makes itself: they say nothing about whether the device has answered.
const MADE: [&str; 4] = [names::STATUS, names::ERRORS, names::GPU_XID_LAST, names::GPU_XIDS];

/// What a device is, by the attributes of the registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The driver's own id.
    pub uuid: String,
    /// Attributes and their values; each once.
    pub attributes: Vec<(String, String)>,
}

impl Device {
    /// As its driver identified it.
    pub fn of(gpu: &GpuIdentity) -> Self {
        let mut device = Self { uuid: gpu.uuid.clone(), attributes: Vec::new() };
        for attribute in infos::attributes(gpu) {
            let value = match attribute.value.and_then(|value| value.value) {
                Some(Value::StringValue(text)) => text,
                Some(Value::IntValue(number)) => number.to_string(),
                Some(Value::BoolValue(yes)) => yes.to_string(),
                _ => continue,
            };
            device.set(&attribute.key, value);
        }
        device.set(names::DEVICE_INDEX, gpu.index.to_string());
        if let Some(minor) = gpu.minor {
            device.set(names::DEVICE_MINOR, minor.to_string());
        }
        device
    }

    /// Sets an attribute.
    pub fn set(&mut self, name: &str, value: String) {
        match self.attributes.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.attributes.push((name.to_owned(), value)),
        }
    }

    /// An attribute; empty when the device lacks it.
    pub fn get(&self, name: &str) -> &str {
        self.attributes.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// The last of everything. Clones share it.
#[derive(Clone, Debug)]
pub struct Latest {
    lifetime: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    devices: Arc<Vec<Device>>,
    streams: BTreeMap<String, Stream>,
}

#[derive(Clone, Debug)]
struct Stream {
    is_device: bool,
    measures: Arc<Measures>,
    /// Who holds the device.
    holders: Arc<Vec<Identified>>,
    /// When it was last asked with success; never, if it never was.
    answered: Option<Instant>,
    /// When something was last put in.
    put: Instant,
    /// How long that is shown.
    lifetime: Duration,
}

/// Everything at one instant.
#[derive(Debug)]
pub struct Snapshot {
    /// What each device is, as last identified.
    pub devices: Arc<Vec<Device>>,
    /// Streams that are fresh enough to be shown, by name.
    pub streams: Vec<Fresh>,
    /// How long ago each stream was last measured, those that are too old too.
    pub ages: Vec<(String, Duration)>,
}

/// One stream's last sample.
#[derive(Debug)]
pub struct Fresh {
    /// UUID of the device, or name of the sensor.
    pub name: String,
    /// True for a device.
    pub is_device: bool,
    /// What was measured.
    pub measures: Arc<Measures>,
    /// Who holds the device.
    pub holders: Arc<Vec<Identified>>,
}

impl Latest {
    /// Nothing yet, of sensors that are asked every `interval`.
    pub fn new(interval: Duration) -> Self {
        Self { lifetime: lifetime(interval), state: Arc::default() }
    }

    /// How long a value is shown after it was measured.
    pub fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// Takes over which devices there are.
    pub fn identify<'g>(&self, gpus: impl IntoIterator<Item = &'g GpuIdentity>) {
        self.identified(gpus.into_iter().map(Device::of).collect());
    }

    /// As [`Latest::identify`], of devices that are described by their attributes.
    pub fn identified(&self, devices: Vec<Device>) {
        self.state().devices = Arc::new(devices);
    }

    /// Takes over what a device measured at `now`. Values that it did not give are gone at once.
    pub fn device(&self, uuid: &str, measures: Measures, now: Instant) {
        self.put(uuid, true, measures, now, self.lifetime);
    }

    /// Takes over what a sensor of the node measured at `now`, which holds for `every`: as long as an interval, at least. Its
    /// measures tell disks and mounts apart themselves. Nothing at all means that it was not its turn. Mounts answer one by
    /// one, each at its own time: each is a stream of its own, so that one does not take the place of the others.
    pub fn sensor(&self, name: &str, measures: Measures, now: Instant, every: Duration) {
        let lifetime = lifetime(every).max(self.lifetime);
        let mut streams: BTreeMap<&str, Measures> = BTreeMap::new();
        if name == ONE_BY_ONE {
            for measure in measures.iter() {
                let point = measure.attributes().find(|(key, _)| *key == names::MOUNTPOINT);
                streams.entry(point.map_or(name, |(_, point)| point)).or_default().push(measure.clone());
            }
        } else if !measures.is_empty() {
            return self.put(name, false, measures, now, lifetime);
        }
        for (stream, measures) in streams {
            self.put(stream, false, measures, now, lifetime);
        }
    }

    /// Takes over who holds a device that has been measured.
    pub fn hold<'o>(&self, uuid: &str, holders: impl Iterator<Item = &'o Identified> + Clone) {
        let mut state = self.state();
        let Some(stream) = state.streams.get_mut(uuid) else { return };
        if !stream.holders.iter().eq(holders.clone()) {
            stream.holders = Arc::new(holders.cloned().collect());
        }
    }

    fn put(&self, name: &str, is_device: bool, measures: Measures, now: Instant, lifetime: Duration) {
        let has_answered = measures.now().any(|measure| {
            let is_made = is_device && MADE.contains(&measure.metric);
            measure.reading.value().is_some() && !is_made
        });
        let mut state = self.state();
        let measures = Arc::new(measures);
        match state.streams.get_mut(name) {
            Some(stream) => {
                stream.measures = measures;
                stream.put = now;
                stream.answered = if has_answered { Some(now) } else { stream.answered };
            }
            None => {
                let answered = has_answered.then_some(now);
                let stream = Stream { is_device, measures, holders: Arc::default(), answered, put: now, lifetime };
                state.streams.insert(name.to_owned(), stream);
            }
        }
        state.streams.retain(|_, stream| now.saturating_duration_since(stream.put) < FORGET);
    }

    /// Everything as it is at `now`.
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let state = self.state();
        let age = |at: Instant| now.saturating_duration_since(at);
        let fresh = state.streams.iter().filter(|(_, stream)| age(stream.put) < stream.lifetime);
        Snapshot {
            devices: Arc::clone(&state.devices),
            streams: fresh
                .map(|(name, stream)| Fresh {
                    name: name.clone(),
                    is_device: stream.is_device,
                    measures: Arc::clone(&stream.measures),
                    // Who holds a device that does not answer is not known.
                    holders: match stream.answered {
                        Some(at) if age(at) < stream.lifetime => Arc::clone(&stream.holders),
                        _ => Arc::default(),
                    },
                })
                .collect(),
            ages: state
                .streams
                .iter()
                .filter_map(|(name, stream)| Some((name.clone(), age(stream.answered?))))
                .collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a value is shown that is measured every `interval`.
fn lifetime(interval: Duration) -> Duration {
    (interval * INTERVALS).max(AT_LEAST)
}

impl Snapshot {
    /// The device of this id.
    pub fn find(&self, uuid: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.uuid == uuid)
    }
}
