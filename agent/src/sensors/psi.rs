//! Pressure stall information: `/proc/pressure/{cpu,memory,io}`, the `total` of each line in microseconds.
//!
//! The averages of the kernel are left alone: they are made of the totals. A kernel without support has no such files; one
//! that has it switched off refuses them with `EOPNOTSUPP`, until it is started with `psi=1`. Both are *unsupported*.

use std::io;
use std::path::PathBuf;

use contador_schemas::names::{self, Fixed};

use super::kernel::text::{lines, number, words};
use super::kernel::{KernelError, KernelFile, KernelSample};
use super::{Number, Reading};

/// What the kernel answers when pressure is not measured.
const SWITCHED_OFF: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();

/// The reader of pressure.
#[derive(Debug)]
pub struct Pressure {
    resources: [Resource; 3],
}

/// One file.
#[derive(Debug)]
struct Resource {
    file: KernelFile,
    /// The lines that are handed on, with the variants that they are.
    kinds: &'static [(&'static [u8], Fixed)],
}

impl Pressure {
    /// A reader under `proc_root` (`/proc`).
    pub fn new(proc_root: impl Into<PathBuf>) -> Self {
        let root = proc_root.into().join("pressure");
        let resource = |name, kinds| Resource { file: KernelFile::new(root.join(name)), kinds };
        Self {
            resources: [
                resource("cpu", &[(b"some", &[(names::PSI_RESOURCE, "cpu"), (names::PSI_KIND, "some")])]),
                resource(
                    "memory",
                    &[
                        (b"some", &[(names::PSI_RESOURCE, "memory"), (names::PSI_KIND, "some")]),
                        (b"full", &[(names::PSI_RESOURCE, "memory"), (names::PSI_KIND, "full")]),
                    ],
                ),
                resource(
                    "io",
                    &[
                        (b"some", &[(names::PSI_RESOURCE, "io"), (names::PSI_KIND, "some")]),
                        (b"full", &[(names::PSI_RESOURCE, "io"), (names::PSI_KIND, "full")]),
                    ],
                ),
            ],
        }
    }

    /// The stalls so far, at `ts_ms` (Unix milliseconds). It does not fail as a whole: each value says why it is missing.
    pub fn sample(&mut self, ts_ms: i64) -> KernelSample {
        let mut sample = KernelSample { ts_ms, ..KernelSample::default() };
        for resource in &mut self.resources {
            let text = resource.file.read();
            for (kind, fixed) in resource.kinds {
                let reading = match &text {
                    Ok(text) => total(text, kind),
                    Err(error) => missing(error),
                };
                sample.measures.add_as(names::PSI_STALLED, fixed, reading);
            }
        }
        sample
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`
fn total(text: &[u8], kind: &[u8]) -> Reading<Number> {
    let line = lines(text).find(|line| words(line).next() == Some(kind));
    let Some(line) = line else { return Reading::Unsupported("this kernel does not measure it".into()) };
    let total = words(line).find_map(|word| number(word.strip_prefix(b"total=")?));
    total.map_or_else(
        || Reading::Failed(format!("{:?}, expected a total", String::from_utf8_lossy(line)).into()),
        |total| Reading::Value(Number::Millionths(total)),
    )
}

fn missing(error: &KernelError) -> Reading<Number> {
    match error {
        KernelError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Reading::Unsupported("the kernel has no pressure stall information".into())
        }
        KernelError::Read { source, .. } if source.raw_os_error() == Some(SWITCHED_OFF) => {
            Reading::Unsupported("pressure stall information is switched off: the kernel needs psi=1".into())
        }
        KernelError::Read { source, .. } => Reading::Failed(source.to_string().into()),
        KernelError::Shape { .. } => Reading::Failed(error.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn value(sample: &KernelSample, resource: &str, kind: &str) -> Reading<Number> {
        let of = [(names::PSI_RESOURCE, resource), (names::PSI_KIND, kind)];
        sample.measures.reading_as(names::PSI_STALLED, &of).expect("it was asked").clone()
    }

    #[test]
    fn totals_are_microseconds_and_what_is_missing_says_why() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("pressure");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("cpu"), "some avg10=1.95 avg60=4.88 avg300=9.09 total=74360742\nfull avg10=0.00 total=0\n")
            .unwrap();
        fs::write(dir.join("io"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=\n").unwrap();
        let mut pressure = Pressure::new(root.path());
        let sample = pressure.sample(7);
        assert_eq!(value(&sample, "cpu", "some").get().map(Number::f64), Some(74.360_742));
        let none = Reading::Unsupported("the kernel has no pressure stall information".into());
        assert_eq!(value(&sample, "memory", "full"), none);
        assert!(value(&sample, "io", "some").is_failed());
        assert_eq!(value(&sample, "io", "full"), Reading::Unsupported("this kernel does not measure it".into()));
        assert_eq!((sample.ts_ms, sample.measures.iter().count()), (7, 5));
        fs::write(dir.join("io"), "some total=5\nfull total=0\n").unwrap();
        let sample = pressure.sample(8);
        assert_eq!(value(&sample, "io", "some"), Reading::Value(Number::Millionths(5)));
        assert_eq!(value(&sample, "io", "full"), Reading::Value(Number::Millionths(0)));
    }

    #[test]
    fn what_is_switched_off_is_unsupported_and_other_errors_are_failures() {
        let error = |number| KernelError::read("/proc/pressure/io".as_ref(), io::Error::from_raw_os_error(number));
        let off = missing(&error(rustix::io::Errno::OPNOTSUPP.raw_os_error()));
        assert_eq!(
            off.missing().unwrap(),
            "unsupported (pressure stall information is switched off: the kernel needs psi=1)"
        );
        assert!(missing(&error(rustix::io::Errno::IO.raw_os_error())).is_failed());
    }
}
