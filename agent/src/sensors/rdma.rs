//! RDMA ports (InfiniBand, RoCE): `/sys/class/infiniband/*/ports/*/counters`.
//!
//! Data is counted in words of 4 bytes. A counter that the port's device does not have (no file, or a text such as
//! `N/A (no PMA)`) is *unsupported*. Each reading asks the device's firmware, so that errors are read every
//! [`ERRORS_MS`] only, and the last reading holds in between. Which ports there are is looked up every [`PORTS_MS`], and when
//! one has gone.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use contador_schemas::names::{self, Fixed};

use super::kernel::KernelSample;
use super::kernel::text::number;
use super::{Number, Reading};

/// How long a reading of the errors holds, in milliseconds.
const ERRORS_MS: i64 = 10_000;

/// How often ports are looked up, in milliseconds.
const PORTS_MS: i64 = 60_000;

/// Bytes in a word of the data counters.
const WORD: u64 = 4;

const DATA: [(&str, Fixed); 2] =
    [("port_xmit_data", &[(names::IO_DIRECTION, "transmit")]), ("port_rcv_data", &[(names::IO_DIRECTION, "receive")])];

const ERRORS: [(&str, Fixed); 5] = [
    ("symbol_error", &[(names::ERROR_TYPE, "symbol")]),
    ("link_error_recovery", &[(names::ERROR_TYPE, "link_recovery")]),
    ("link_downed", &[(names::ERROR_TYPE, "link_downed")]),
    ("port_rcv_errors", &[(names::ERROR_TYPE, "receive")]),
    ("port_xmit_discards", &[(names::ERROR_TYPE, "transmit_discard")]),
];

/// The reader of RDMA ports.
#[derive(Debug)]
pub struct Rdma {
    class: PathBuf,
    ports: Vec<Port>,
    /// Which span of the wall clock had the last look-up.
    looked_up: Option<i64>,
}

/// One port of a device.
#[derive(Debug)]
struct Port {
    device: String,
    number: String,
    counters: PathBuf,
    /// The span of the wall clock in which errors were last read, and what they were.
    errors: Option<(i64, [Reading<u64>; ERRORS.len()])>,
}

impl Rdma {
    /// A reader under `sys_root` (`/sys`).
    pub fn new(sys_root: impl Into<PathBuf>) -> Self {
        Self { class: sys_root.into().join("class/infiniband"), ports: Vec::new(), looked_up: None }
    }

    /// Every port at `ts_ms` (Unix milliseconds). It does not fail as a whole: each value says why it is missing.
    pub fn sample(&mut self, ts_ms: i64) -> KernelSample {
        let mut sample = KernelSample { ts_ms, ..KernelSample::default() };
        let turn = Some(ts_ms.div_euclid(PORTS_MS));
        if std::mem::replace(&mut self.looked_up, turn) != turn {
            self.ports = ports(&self.class);
        }
        if self.ports.is_empty() {
            let none = || Reading::Unsupported("there is no RDMA device".into());
            DATA.iter().for_each(|(_, fixed)| sample.measures.add_as(names::RDMA_IO, fixed, none()));
            ERRORS.iter().for_each(|(_, fixed)| sample.measures.add_as(names::RDMA_ERRORS, fixed, none()));
            return sample;
        }
        for port in &mut self.ports {
            if !port.counters.is_dir() {
                self.looked_up = None;
                continue;
            }
            let errors = port.errors(ts_ms);
            let mut add = |metric, fixed, reading: Reading<u64>| {
                let of = vec![
                    (names::SYSTEM_DEVICE, Cow::Owned(port.device.clone())),
                    (names::RDMA_PORT, Cow::Owned(port.number.clone())),
                ];
                sample.measures.add_with(metric, fixed, of, reading.map(Number::Whole));
            };
            for (name, fixed) in DATA {
                let words = counter(&port.counters.join(name));
                add(names::RDMA_IO, fixed, words.map(|words| words.saturating_mul(WORD)));
            }
            for ((_, fixed), count) in ERRORS.into_iter().zip(errors) {
                add(names::RDMA_ERRORS, fixed, count);
            }
        }
        sample
    }
}

impl Port {
    /// Its errors at `ts_ms` (Unix milliseconds): as they were last read, unless that is too long ago or one has failed.
    fn errors(&mut self, ts_ms: i64) -> [Reading<u64>; ERRORS.len()] {
        let span = ts_ms.div_euclid(ERRORS_MS);
        let held = self.errors.take().filter(|(at, errors)| *at == span && !errors.iter().any(Reading::is_failed));
        let (_, errors) = held.unwrap_or_else(|| (span, ERRORS.map(|(name, _)| counter(&self.counters.join(name)))));
        self.errors = Some((span, errors.clone()));
        errors
    }
}

/// Every port of every device, in the order of their names.
fn ports(class: &Path) -> Vec<Port> {
    let names = |dir: &Path| -> Vec<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    };
    let mut ports = Vec::new();
    for device in names(class) {
        let dir = class.join(&device).join("ports");
        for number in names(&dir) {
            let counters = dir.join(&number).join("counters");
            ports.push(Port { device: device.clone(), number, counters, errors: None });
        }
    }
    ports
}

fn counter(path: &Path) -> Reading<u64> {
    match fs::read(path) {
        Ok(text) => match number(text.trim_ascii()) {
            Some(value) => Reading::Value(value),
            None => {
                let text = String::from_utf8_lossy(text.trim_ascii()).into_owned();
                Reading::Unsupported(format!("the device says {text:?}").into())
            }
        },
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported) => {
            Reading::Unsupported("the device has no such counter".into())
        }
        Err(error) => Reading::Failed(error.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(root: &Path, device: &str, number: u32, counters: &[(&str, &str)]) -> PathBuf {
        let dir = root.join("class/infiniband").join(device).join("ports").join(number.to_string()).join("counters");
        fs::create_dir_all(&dir).unwrap();
        for (name, text) in counters {
            fs::write(dir.join(name), text).unwrap();
        }
        dir
    }

    fn reading(
        sample: &KernelSample,
        metric: &str,
        fixed: (&str, &str),
        port: (&str, &str),
    ) -> Option<Reading<Number>> {
        let wanted = [fixed, (names::SYSTEM_DEVICE, port.0), (names::RDMA_PORT, port.1)];
        sample.measures.reading_as(metric, &wanted).cloned()
    }

    #[test]
    fn words_become_bytes_and_what_a_port_lacks_is_unsupported() {
        let root = tempfile::tempdir().unwrap();
        let dir = port(
            root.path(),
            "mlx5_0",
            1,
            &[
                ("port_xmit_data", "1000\n"),
                ("port_rcv_data", "18446744073709551615\n"),
                ("symbol_error", "3\n"),
                ("link_downed", "N/A (no PMA)\n"),
                ("port_rcv_errors", "0\n"),
            ],
        );
        port(root.path(), "mlx5_1", 2, &[("port_xmit_data", "7\n")]);
        let mut rdma = Rdma::new(root.path());
        let sample = rdma.sample(0);
        let transmit = (names::IO_DIRECTION, "transmit");
        let first = ("mlx5_0", "1");
        assert_eq!(reading(&sample, names::RDMA_IO, transmit, first), Some(Reading::Value(Number::Whole(4_000))));
        assert_eq!(
            reading(&sample, names::RDMA_IO, transmit, ("mlx5_1", "2")),
            Some(Reading::Value(Number::Whole(28)))
        );
        let error = |kind| reading(&sample, names::RDMA_ERRORS, (names::ERROR_TYPE, kind), first).unwrap();
        assert_eq!(
            (error("symbol"), error("receive")),
            (Reading::Value(Number::Whole(3)), Reading::Value(Number::Whole(0)))
        );
        assert_eq!(error("link_downed").missing().unwrap(), "unsupported (the device says \"N/A (no PMA)\")");
        assert_eq!(error("transmit_discard").missing().unwrap(), "unsupported (the device has no such counter)");
        assert_eq!(sample.measures.iter().count(), 14);
        // Errors are not read each time, and are there each time: they would come and go at `/metrics`.
        fs::write(dir.join("symbol_error"), "5\n").unwrap();
        for (ts_ms, expected) in [(1_000, 3), (ERRORS_MS - 1, 3), (ERRORS_MS, 5), (ERRORS_MS + 1_000, 5)] {
            let sample = rdma.sample(ts_ms);
            let symbol = reading(&sample, names::RDMA_ERRORS, (names::ERROR_TYPE, "symbol"), first);
            assert_eq!(symbol, Some(Reading::Value(Number::Whole(expected))), "{ts_ms}");
            assert_eq!(sample.measures.iter().count(), 14, "{ts_ms}");
        }
    }

    #[test]
    fn ports_come_and_go() {
        let root = tempfile::tempdir().unwrap();
        let mut rdma = Rdma::new(root.path());
        let none = rdma.sample(0);
        assert!(none.measures.iter().all(|measure| matches!(measure.reading, Reading::Unsupported(_))));
        assert_eq!(none.measures.iter().count(), 7);
        let dir = port(root.path(), "mlx5_0", 1, &[("port_xmit_data", "1\n")]);
        assert_eq!(rdma.sample(PORTS_MS).measures.iter().count(), 7, "two of data and five of errors");
        fs::remove_dir_all(dir.parent().unwrap()).unwrap();
        assert!(rdma.sample(PORTS_MS + 1).measures.is_empty(), "its values are gone");
        let sample = rdma.sample(PORTS_MS + 2);
        assert_eq!(sample.measures.missing(names::RDMA_IO), None);
        assert_eq!(sample.measures.iter().count(), 7);
    }
}
