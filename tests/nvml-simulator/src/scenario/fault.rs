//! What can go wrong while the simulator runs, as a `[[fault]]` of a scenario or of a control file says it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use toml::Value;

use super::call::{Answer, Call, Refusal};
use super::{Fault, ScenarioError, values};

/// One thing that goes wrong, for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSpec {
    /// What.
    pub kind: FaultKind,
    /// The position of the GPU in the scenario; absent: all of them.
    pub gpu: Option<usize>,
    /// From when, in milliseconds of the simulated clock.
    pub from_ms: u64,
    /// Until when; absent: for as long as it is listed.
    pub until_ms: Option<u64>,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// Every call about the GPU answers GPU_IS_LOST; it has a handle still.
    Lost,
    /// As lost, and there is no handle either; XID 79 is raised when it begins.
    OffTheBus,
    /// The GPU is not there, nor counted. The end of it adds a GPU.
    Absent,
    /// The driver is unloaded and loaded again. Calls answer UNINITIALIZED and nvmlInit DRIVER_NOT_LOADED until the fault has
    /// ended and every init has been shut down. Then counters start at 0.
    DriverReload {
        /// The version from then on; absent: as before.
        driver_version: Option<String>,
    },
    /// A call does not return until the fault has ended.
    Hang(Hung),
    /// XIDs are raised when it begins, once.
    Xid(Xid),
    /// So many ECC errors more than there are.
    Ecc {
        /// Corrected ones.
        corrected: u64,
        /// Uncorrected ones.
        uncorrected: u64,
    },
    /// NVLinks are down; none named: all of the GPU.
    LinkDown(BTreeSet<u32>),
    /// Calls answer errors or other values, as by the keys of a `[[gpu]]`.
    Calls {
        /// Calls that answer an error.
        refused: BTreeMap<Call, Refusal>,
        /// Values that are replaced.
        answers: BTreeMap<Answer, u64>,
    },
    /// Counters start at 0 when it begins, as after a reset of the GPU.
    Restart,
    /// Counters have so many bits.
    Wrap(u32),
}

/// Which calls hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hung {
    /// Every call about the GPU.
    All,
    /// `nvmlInit_v2`
    Init,
    /// `nvmlDeviceGetCount_v2`
    Count,
    /// This one.
    Call(Call),
}

/// XIDs to raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Xid {
    /// The code.
    pub code: u64,
    /// How many.
    pub count: u32,
    /// The GPU instance, if it is of one.
    pub gpu_instance: Option<u32>,
    /// The compute instance, if it is of one.
    pub compute_instance: Option<u32>,
}

impl FaultSpec {
    /// True while it is in force at `now_ms`.
    pub fn is_active(&self, now_ms: u64) -> bool {
        self.from_ms <= now_ms && self.until_ms.is_none_or(|until| now_ms < until)
    }

    /// True when it is about the GPU at this position.
    pub fn is_about(&self, gpu: usize) -> bool {
        self.gpu.is_none_or(|named| named == gpu)
    }
}

/// The faults of a text that has nothing but `[[fault]]` entries, for a machine with so many GPUs. `path` is for messages.
///
/// # Errors
/// When it is none; the message names path, key and expectation.
pub fn parse(path: &Path, text: &str, gpus: usize) -> Result<Vec<FaultSpec>, ScenarioError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        fault: Vec<Raw>,
    }
    let file: File = toml::from_str(text).map_err(|error| ScenarioError::Parse {
        path: path.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })?;
    check_all(&file.fault, gpus).map_err(|Fault { key, fault }| ScenarioError::Value {
        path: path.to_owned(),
        key,
        fault,
    })
}

/// An entry as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    kind: String,
    gpu: Option<usize>,
    from: Option<Value>,
    until: Option<Value>,
    call: Option<String>,
    code: Option<u64>,
    count: Option<u32>,
    gpu_instance: Option<u32>,
    compute_instance: Option<u32>,
    corrected: Option<u64>,
    uncorrected: Option<u64>,
    links: Option<Vec<u32>>,
    driver_version: Option<String>,
    bits: Option<u32>,
    unsupported: Option<Vec<String>>,
    errors: Option<BTreeMap<String, String>>,
    answers: Option<BTreeMap<String, Value>>,
}

impl Raw {
    /// The keys that only some kinds have, as far as they are given.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        let keys = [
            ("call", self.call.is_some()),
            ("code", self.code.is_some()),
            ("count", self.count.is_some()),
            ("gpu_instance", self.gpu_instance.is_some()),
            ("compute_instance", self.compute_instance.is_some()),
            ("corrected", self.corrected.is_some()),
            ("uncorrected", self.uncorrected.is_some()),
            ("links", self.links.is_some()),
            ("driver_version", self.driver_version.is_some()),
            ("bits", self.bits.is_some()),
            ("unsupported", self.unsupported.is_some()),
            ("errors", self.errors.is_some()),
            ("answers", self.answers.is_some()),
        ];
        keys.into_iter().filter_map(|(key, given)| given.then_some(key))
    }
}

/// Each kind, and the keys that it has beside `kind`, `gpu`, `from` and `until`.
const KINDS: [(&str, &[&str]); 11] = [
    ("lost", &[]),
    ("off_the_bus", &[]),
    ("absent", &[]),
    ("driver_reload", &["driver_version"]),
    ("hang", &["call"]),
    ("xid", &["code", "count", "gpu_instance", "compute_instance"]),
    ("ecc", &["corrected", "uncorrected"]),
    ("link_down", &["links"]),
    ("calls", &["unsupported", "errors", "answers"]),
    ("restart", &[]),
    ("wrap", &["bits"]),
];

pub(super) fn check_all(raw: &[Raw], gpus: usize) -> Result<Vec<FaultSpec>, Fault> {
    raw.iter().enumerate().map(|(position, raw)| check(&format!("fault[{position}]"), raw, gpus)).collect()
}

fn check(key: &str, raw: &Raw, gpus: usize) -> Result<FaultSpec, Fault> {
    let at = |name: &str| format!("{key}.{name}");
    let Some((_, keys)) = KINDS.iter().find(|(kind, _)| *kind == raw.kind) else {
        let known = KINDS.map(|(kind, _)| kind).join(", ");
        return Err(Fault::new(at("kind"), format!("\"{}\" is unknown: expected one of {known}", raw.kind)));
    };
    if let Some(wrong) = raw.given().find(|given| !keys.contains(given)) {
        return Err(Fault::new(at(wrong), format!("it is no key of \"{}\": expected {}", raw.kind, expected(keys))));
    }
    if let Some(gpu) = raw.gpu.filter(|gpu| *gpu >= gpus) {
        return Err(Fault::new(at("gpu"), format!("{gpu}: expected the position of one of the {gpus} GPUs, from 0")));
    }
    let time =
        |name: &str, value: &Option<Value>| value.as_ref().map(|value| values::duration(&at(name), value)).transpose();
    let (from_ms, until_ms) = (time("from", &raw.from)?.unwrap_or(0), time("until", &raw.until)?);
    if until_ms.is_some_and(|until| until <= from_ms) {
        return Err(Fault::new(at("until"), "it is not after from: expected a later time"));
    }
    let kind = match raw.kind.as_str() {
        "lost" => FaultKind::Lost,
        "off_the_bus" => FaultKind::OffTheBus,
        "absent" => FaultKind::Absent,
        "driver_reload" => FaultKind::DriverReload { driver_version: raw.driver_version.clone() },
        "hang" => FaultKind::Hang(match raw.call.as_deref() {
            None => Hung::All,
            Some("init") => Hung::Init,
            Some("device_count") => Hung::Count,
            Some(call) => Hung::Call(Call::parse(&at("call"), call)?),
        }),
        "xid" => FaultKind::Xid(Xid {
            code: raw.code.ok_or_else(|| Fault::new(at("code"), "missing: expected the code of an XID, such as 79"))?,
            count: raw.count.unwrap_or(1),
            gpu_instance: raw.gpu_instance,
            compute_instance: raw.compute_instance,
        }),
        "ecc" => FaultKind::Ecc { corrected: raw.corrected.unwrap_or(0), uncorrected: raw.uncorrected.unwrap_or(0) },
        "link_down" => FaultKind::LinkDown(raw.links.iter().flatten().copied().collect()),
        "restart" => FaultKind::Restart,
        "wrap" => match raw.bits.unwrap_or(32) {
            bits @ 1..=63 => FaultKind::Wrap(bits),
            bits => return Err(Fault::new(at("bits"), format!("{bits}: expected 1 to 63"))),
        },
        _ => calls(key, raw)?,
    };
    Ok(FaultSpec { kind, gpu: raw.gpu, from_ms, until_ms })
}

fn calls(key: &str, raw: &Raw) -> Result<FaultKind, Fault> {
    let (none, nothing) = (BTreeMap::new(), BTreeMap::new());
    let unsupported = raw.unsupported.as_deref().unwrap_or_default();
    let refused = super::refused(key, unsupported, raw.errors.as_ref().unwrap_or(&none))?;
    let answers = super::answers(key, raw.answers.as_ref().unwrap_or(&nothing))?;
    Ok(FaultKind::Calls { refused, answers })
}

fn expected(keys: &[&str]) -> String {
    if keys.is_empty() { "none of its own".to_owned() } else { keys.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        parse(Path::new("f.toml"), text, 2).expect_err("a fault").to_string()
    }

    #[test]
    fn faults_are_read_with_their_times() {
        let text = "[[fault]]\nkind = \"hang\"\ngpu = 1\ncall = \"power_usage\"\nfrom = \"5s\"\nuntil = \"9s\"\n\
                    [[fault]]\nkind = \"xid\"\ncode = 48\ncount = 3\ngpu_instance = 2";
        let faults = parse(Path::new("f.toml"), text, 2).expect("two faults");
        assert_eq!(faults[0].kind, FaultKind::Hang(Hung::Call(Call::PowerUsage)));
        assert_eq!([4_999, 5_000, 8_999, 9_000].map(|at| faults[0].is_active(at)), [false, true, true, false]);
        assert!(faults[0].is_about(1) && !faults[0].is_about(0) && faults[1].is_about(0));
        let xid = Xid { code: 48, count: 3, gpu_instance: Some(2), compute_instance: None };
        assert_eq!((faults[1].kind.clone(), faults[1].until_ms), (FaultKind::Xid(xid), None));
    }

    #[test]
    fn what_is_no_fault_is_said_with_its_key() {
        assert!(
            fault("[[fault]]\nkind = \"broken\"")
                .starts_with("f.toml: fault[0].kind: \"broken\" is unknown: expected one of lost,")
        );
        assert_eq!(
            fault("[[fault]]\nkind = \"lost\"\ngpu = 2"),
            "f.toml: fault[0].gpu: 2: expected the position of one of the 2 GPUs, from 0"
        );
        assert_eq!(
            fault("[[fault]]\nkind = \"lost\"\ncode = 2"),
            "f.toml: fault[0].code: it is no key of \"lost\": expected none of its own"
        );
        assert_eq!(
            fault("[[fault]]\nkind = \"xid\""),
            "f.toml: fault[0].code: missing: expected the code of an XID, such as 79"
        );
        assert_eq!(
            fault("[[fault]]\nkind = \"absent\"\nfrom = \"2s\"\nuntil = \"2s\""),
            "f.toml: fault[0].until: it is not after from: expected a later time"
        );
    }
}
