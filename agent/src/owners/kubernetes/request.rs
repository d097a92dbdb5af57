//! What part of a device a pod has asked for, in the words of the schedulers that share GPUs.
//!
//! The kubelet gives whole devices, or replicas of them; what part is meant, such a scheduler's users write into the limits of
//! a container, or into an annotation of the pod. Each of these [words](WORDS) counts in both places, and is of each device
//! that the container was given, or of all of them together. Of several words, the one that asks for most counts: who has
//! most of the memory, or of the multiprocessors, has kept others from the rest, too. In an annotation it is the pod's: its
//! containers on one device have even parts of it.
//!
//! A word is no part when it is not a number, 0 or less, or more than a device; it is left out then, and said.

use std::collections::HashMap;
use std::fmt;
use std::ops::Bound;

use super::pod::{ANNOTATION, Pod};

/// What a word counts in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// So many are a device: 1, 100 (percent) or 1,000 (milli).
    Of(u32),
    /// So many bytes of its memory.
    Bytes(u64),
}

impl Unit {
    /// What the configuration calls it: `fraction`, `percent`, `milli`, or a size such as `1MiB`, which `size` reads.
    pub fn named(text: &str, size: impl FnOnce(&str) -> Option<u64>) -> Option<Self> {
        match text {
            "fraction" => Some(Self::Of(1)),
            "percent" => Some(Self::Of(100)),
            "milli" => Some(Self::Of(1_000)),
            _ => size(text).filter(|bytes| *bytes > 0).map(Self::Bytes),
        }
    }
}

/// Of which devices a word is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scope {
    /// Of each that the container was given.
    Each,
    /// Of all of them together.
    All,
}

const MIB: u64 = 1 << 20;

/// The words that are known, with their units.
///
/// | scheduler | words | source |
/// |---|---|---|
/// | Alibaba, as in its traces | `alibabacloud.com/gpu-milli` | `data` of alibaba/clusterdata, `cluster-trace-gpu-v2023` |
/// | Alibaba gpushare, ACK | `aliyun.com/gpu-mem` (GiB by default), `aliyun.com/gpu-core.percentage` | AliyunContainerService/gpushare-device-plugin, ACK's manual |
/// | Koordinator | `koordinator.sh/gpu-core`, `gpu-memory-ratio` (percent, 200 is two devices), `gpu-memory` (bytes) | `apis/extension` of koordinator-sh/koordinator |
/// | HAMi | `nvidia.com/gpumem` (MiB), `gpumem-percentage`, `gpucores` (percent) | Project-HAMi/HAMi, `docs/config.md` |
/// | Volcano | `volcano.sh/vgpu-memory` (MiB), `vgpu-memory-percentage`, `vgpu-cores` (percent); `gpu-memory` (MiB) | volcano-sh/volcano, `docs/user-guide` |
/// | Huawei CCE | `volcano.sh/gpu-mem.128Mi`, `volcano.sh/gpu-core.percentage` | CCE's manual |
/// | Tencent GPU manager | `tencent.com/vcuda-core` (percent, 200 is two devices), `vcuda-memory` (256 MiB) | tkestack/gpu-manager |
/// | KAI, Run:ai | `gpu-fraction`, `gpu-memory` (MiB) | kai-scheduler/KAI-Scheduler, `docs/gpu-sharing` |
const WORDS: [(&str, Unit, Scope); 18] = [
    ("alibabacloud.com/gpu-milli", Unit::Of(1_000), Scope::Each),
    ("aliyun.com/gpu-mem", Unit::Bytes(1_024 * MIB), Scope::Each),
    ("aliyun.com/gpu-core.percentage", Unit::Of(100), Scope::Each),
    ("koordinator.sh/gpu-core", Unit::Of(100), Scope::All),
    ("koordinator.sh/gpu-memory-ratio", Unit::Of(100), Scope::All),
    ("koordinator.sh/gpu-memory", Unit::Bytes(1), Scope::All),
    ("nvidia.com/gpumem", Unit::Bytes(MIB), Scope::Each),
    ("nvidia.com/gpumem-percentage", Unit::Of(100), Scope::Each),
    ("nvidia.com/gpucores", Unit::Of(100), Scope::Each),
    ("volcano.sh/vgpu-memory", Unit::Bytes(MIB), Scope::Each),
    ("volcano.sh/vgpu-memory-percentage", Unit::Of(100), Scope::Each),
    ("volcano.sh/vgpu-cores", Unit::Of(100), Scope::Each),
    ("volcano.sh/gpu-memory", Unit::Bytes(MIB), Scope::Each),
    ("volcano.sh/gpu-mem.128Mi", Unit::Bytes(128 * MIB), Scope::Each),
    ("volcano.sh/gpu-core.percentage", Unit::Of(100), Scope::Each),
    ("tencent.com/vcuda-core", Unit::Of(100), Scope::All),
    ("tencent.com/vcuda-memory", Unit::Bytes(256 * MIB), Scope::All),
    ("gpu-fraction", Unit::Of(1), Scope::Each),
];

/// KAI's word for memory. It has no domain, so that it is never a resource's.
const KAI_MEMORY: (&str, Unit, Scope) = ("gpu-memory", Unit::Bytes(MIB), Scope::Each);

/// Billionths in one: what a number is counted in.
const NANOS: u128 = 1_000_000_000;

/// One million parts are a device.
const WHOLE_PPM: u128 = 1_000_000;

/// The words that count on this node.
#[derive(Clone, Debug)]
pub struct Requests(HashMap<String, (Unit, Scope)>);

/// One word of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'p> {
    word: &'p str,
    text: &'p str,
    unit: Unit,
    scope: Scope,
    /// It is an annotation.
    pub is_of_pod: bool,
}

impl Requests {
    /// The known ones, and `more`, which are of each device; of a word that is known, their unit counts.
    pub fn new(more: &[(String, Unit)]) -> Self {
        let known = WORDS.iter().chain(std::iter::once(&KAI_MEMORY));
        let known = known.map(|(word, unit, scope)| ((*word).to_owned(), (*unit, *scope)));
        Self(known.chain(more.iter().map(|(word, unit)| (word.clone(), (*unit, Scope::Each)))).collect())
    }

    /// What a container of this pod has asked for.
    pub fn of<'p>(&'p self, pod: &'p Pod, container: &str) -> impl Iterator<Item = Asked<'p>> {
        let asked = move |word: &'p str, text: &'p str, is_of_pod: bool| {
            let (unit, scope) = *self.0.get(word)?;
            Some(Asked { word, text, unit, scope, is_of_pod })
        };
        let limits = pod.limits.get(container).into_iter().flatten();
        let limits = limits.filter_map(move |(word, text)| asked(word, text, false));
        // By rising name, so that those that begin so are together.
        let annotations = pod.labels.range::<str, _>((Bound::Included(ANNOTATION), Bound::Unbounded));
        let annotations = annotations.map_while(|(name, text)| Some((name.strip_prefix(ANNOTATION)?, text)));
        limits.chain(annotations.filter_map(move |(word, text)| asked(word, text, true)))
    }
}

impl Asked<'_> {
    /// The part of each of so many `devices`, in parts per million, where a device has so many bytes of memory; `Ok(None)` where
    /// that must be known, and is not.
    ///
    /// # Errors
    /// That this is no part, with what was expected.
    pub fn part(&self, devices: usize, memory: Option<u64>) -> Result<Option<u32>, String> {
        let devices = if self.scope == Scope::All { devices.max(1) as u128 } else { 1 };
        let (factor, whole) = match (self.unit, memory.filter(|bytes| *bytes > 0)) {
            (Unit::Of(count), _) => (1, u128::from(count)),
            (Unit::Bytes(bytes), Some(memory)) => (u128::from(bytes), u128::from(memory)),
            (Unit::Bytes(_), None) => return Ok(None),
        };
        let whole = whole * NANOS * devices;
        let part = number(self.text).and_then(|nanos| nanos.checked_mul(factor));
        let part = part.filter(|part| (1..=whole).contains(part)).map(|part| (part * WHOLE_PPM + whole / 2) / whole);
        match part.and_then(|ppm| u32::try_from(ppm).ok()) {
            Some(ppm) => Ok(Some(ppm.max(1))),
            None => Err(format!(
                "{self} is no part of a GPU, expected {}",
                match self.unit {
                    Unit::Of(1) => "more than 0 and at most 1".to_owned(),
                    Unit::Of(count) => format!("more than 0 and at most {}", u128::from(count) * devices),
                    Unit::Bytes(_) => "more than 0 and at most its memory".to_owned(),
                }
            )),
        }
    }
}

/// As a message has it.
impl fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}", self.word, self.text)
    }
}

/// A number as Kubernetes writes quantities, in billionths: `0.3`, `300`, `3k`, `4Gi`, `500m`, `1e3`. What is less than that is
/// cut off. `None`: it is none, it is below 0, or it is huge.
///
/// Source: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>.
fn number(text: &str) -> Option<u128> {
    let text = text.trim();
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let fraction = fraction.get(..9).unwrap_or(fraction);
    let fraction = format!("{fraction:0<9}").parse::<u64>().ok()?;
    scaled(u128::from(whole) * NANOS + u128::from(fraction), suffix)
}

/// So many times what a quantity's suffix means.
fn scaled(nanos: u128, suffix: &str) -> Option<u128> {
    let binary = |power: u32| nanos.checked_mul(1 << (10 * power));
    let decimal = |power: i32| match (10_u128.checked_pow(power.unsigned_abs())?, power) {
        (factor, 0..) => nanos.checked_mul(factor),
        (factor, _) => Some(nanos / factor),
    };
    match suffix {
        "" => Some(nanos),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => decimal(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn pod(limits: &[(&str, &str)], annotations: &[(&str, &str)]) -> Pod {
        let all = |of: &[(&str, &str)], prefix: &str| -> BTreeMap<String, String> {
            of.iter().map(|(name, text)| (format!("{prefix}{name}"), (*text).to_owned())).collect()
        };
        let limits = [("main".to_owned(), all(limits, ""))].into();
        let mut labels = all(annotations, ANNOTATION);
        labels.insert("k8s.label.gpu-fraction".to_owned(), "0.1".to_owned());
        Pod { limits, labels, ..Pod::default() }
    }

    /// What the container `main` of this pod has asked for of each of so many devices of 80 GiB.
    fn parts(pod: &Pod, devices: usize) -> Vec<Option<u32>> {
        let requests = Requests::new(&[]);
        requests.of(pod, "main").map(|asked| asked.part(devices, Some(80 * GIB)).unwrap()).collect()
    }

    #[test]
    fn each_scheduler_has_its_word() {
        for (word, text, devices, ppm) in [
            ("alibabacloud.com/gpu-milli", "300", 1, 300_000),
            ("alibabacloud.com/gpu-milli", "1k", 2, 1_000_000),
            ("aliyun.com/gpu-mem", "20", 1, 250_000),
            ("aliyun.com/gpu-core.percentage", "30", 1, 300_000),
            ("koordinator.sh/gpu-core", "50", 1, 500_000),
            ("koordinator.sh/gpu-memory-ratio", "200", 2, 1_000_000),
            ("koordinator.sh/gpu-memory", "8Gi", 1, 100_000),
            ("koordinator.sh/gpu-memory", "80Gi", 2, 500_000),
            // 80 GiB are 81,920 MiB; 3,000 of them are 3.6621 %.
            ("nvidia.com/gpumem", "3k", 1, 36_621),
            ("nvidia.com/gpumem-percentage", "50", 2, 500_000),
            ("nvidia.com/gpucores", "25", 1, 250_000),
            ("volcano.sh/vgpu-memory", "8192", 1, 100_000),
            ("volcano.sh/vgpu-memory-percentage", "10", 1, 100_000),
            ("volcano.sh/vgpu-cores", "10", 1, 100_000),
            ("volcano.sh/gpu-memory", "4096", 1, 50_000),
            ("volcano.sh/gpu-mem.128Mi", "64", 1, 100_000),
            ("volcano.sh/gpu-core.percentage", "5", 1, 50_000),
            ("tencent.com/vcuda-core", "30", 1, 300_000),
            ("tencent.com/vcuda-core", "200", 2, 1_000_000),
            ("tencent.com/vcuda-memory", "32", 1, 100_000),
            ("gpu-fraction", "0.125", 3, 125_000),
            ("gpu-memory", "40960", 1, 500_000),
        ] {
            for pod in [pod(&[(word, text)], &[]), pod(&[], &[(word, text)])] {
                assert_eq!(parts(&pod, devices), [Some(ppm)], "{word} = {text}, {devices}");
            }
        }
        assert_eq!(parts(&pod(&[("cpu", "4"), ("nvidia.com/gpu", "1")], &[("team", "0.5")]), 1), []);
        let both = pod(&[("nvidia.com/gpumem-percentage", "10"), ("nvidia.com/gpucores", "25")], &[]);
        assert_eq!(parts(&both, 1), [Some(250_000), Some(100_000)]);
    }

    #[test]
    fn what_is_no_part_is_said_with_key_and_value() {
        let fault = |word: &str, text: &str| {
            let (pod, requests) = (pod(&[], &[(word, text)]), Requests::new(&[]));
            requests.of(&pod, "main").map(|asked| asked.part(1, Some(80 * GIB))).next().unwrap()
        };
        let wrong = ["0", "0.0", "-1", "-0.5", "", "abc", "1.2.3", ".", "1x", "1e", "0x1", "∞", "NaN", "1e-99"];
        for text in wrong.into_iter().chain(["1001", "1e99", "99999999999999999999999999", "9Ei", "2000000m"]) {
            let said = fault("alibabacloud.com/gpu-milli", text).unwrap_err();
            let expected = "expected more than 0 and at most 1000";
            assert_eq!(said, format!("alibabacloud.com/gpu-milli = {text:?} is no part of a GPU, {expected}"));
        }
        assert!(fault("gpu-fraction", "1.000000001").unwrap_err().ends_with("at most 1"));
        assert!(fault("nvidia.com/gpumem", "81921").unwrap_err().ends_with("at most its memory"));
        assert_eq!(fault("nvidia.com/gpumem", "81920"), Ok(Some(1_000_000)));
        assert_eq!(fault("gpu-fraction", "0.000000001"), Ok(Some(1)), "something, as long as it is not nothing");
    }

    #[test]
    fn memory_is_no_part_of_a_device_whose_memory_is_not_known() {
        let (pod, requests) = (pod(&[("nvidia.com/gpumem", "1k")], &[]), Requests::new(&[]));
        for memory in [None, Some(0)] {
            assert_eq!(requests.of(&pod, "main").next().unwrap().part(1, memory), Ok(None));
        }
    }

    #[test]
    fn the_configuration_has_words_of_its_own() {
        let size = |text: &str| text.strip_suffix("MiB")?.parse::<u64>().ok().map(|count| count << 20);
        let unit = |text: &str| Unit::named(text, size);
        assert_eq!(["fraction", "percent", "milli"].map(unit), [1, 100, 1_000].map(|count| Some(Unit::Of(count))));
        assert_eq!([unit("256MiB"), unit("0MiB"), unit("ppm")], [Some(Unit::Bytes(256 << 20)), None, None]);
        let more = [("aliyun.com/gpu-mem", Unit::Bytes(MIB)), ("example.com/share", Unit::Of(1_000))];
        let requests = Requests::new(&more.map(|(word, unit)| (word.to_owned(), unit)));
        let pod = pod(&[("aliyun.com/gpu-mem", "8192"), ("example.com/share", "10")], &[]);
        let parts: Vec<_> = requests.of(&pod, "main").map(|asked| asked.part(1, Some(80 * GIB))).collect();
        assert_eq!(parts, [Ok(Some(100_000)), Ok(Some(10_000))]);
        assert_eq!(requests.of(&pod, "side").count(), 0);
    }

    proptest! {
        #[test]
        fn a_number_is_what_it_says(whole in 0_u64..1_000_000, fraction in 0_u32..1_000_000_000, power in 0_usize..7) {
            let suffixes = [("", 1), ("k", 1_000), ("M", 1_000_000), ("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("e2", 100)];
            let (suffix, factor) = suffixes[power];
            let nanos = (u128::from(whole) * NANOS + u128::from(fraction)) * factor;
            prop_assert_eq!(number(&format!("{whole}.{fraction:09}{suffix}")), Some(nanos));
        }

        #[test]
        fn any_text_is_a_part_or_none(text in "[+-]?[0-9.]{0,40}([eEnumkMGTP]i?[0-9-]{0,12})?|\\PC{0,30}", devices in 0_usize..9) {
            for word in ["gpu-fraction", "koordinator.sh/gpu-memory", "tencent.com/vcuda-core"] {
                let (pod, requests) = (pod(&[], &[(word, &text)]), Requests::new(&[]));
                for asked in requests.of(&pod, "main") {
                    if let Ok(Some(ppm)) = asked.part(devices, Some(80 * GIB)) {
                        prop_assert!((1..=1_000_000).contains(&ppm));
                    }
                }
            }
        }
    }
}
