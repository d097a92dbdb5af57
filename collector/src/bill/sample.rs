//! A plausible month of a made-up fleet, as an allocations CSV, for the demo and for tests. The same month and seed give the
//! same text for ever; nothing of it was measured, so import it as simulated.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::import::HEADER;
use crate::random::Random;

/// Nodes: name, GPUs, model, and how its GPUs are used.
const NODES: [(&str, usize, &str, Use); 5] = [
    ("gpu-h1", 8, "NVIDIA H100 80GB HBM3", Use::Training),
    ("gpu-a1", 4, "NVIDIA A100-SXM4-80GB", Use::Training),
    ("gpu-a2", 4, "NVIDIA A100-SXM4-80GB", Use::Research),
    ("gpu-l1", 4, "NVIDIA L4", Use::Serving),
    ("gpu-l2", 4, "NVIDIA L4", Use::Serving),
];

#[derive(Clone, Copy, Eq, PartialEq)]
enum Use {
    /// Jobs on whole GPUs, up to all of a node.
    Training,
    /// Jobs on one whole GPU or on half of one.
    Research,
    /// Services on parts of GPUs.
    Serving,
}

/// Department, project, what its experiments or services are called, and its users.
type Project = (&'static str, &'static str, [&'static str; 3], [&'static str; 2]);

const TRAINING: [Project; 5] = [
    ("research", "foundation-model", ["pretrain-7b", "long-context", "data-mix"], ["alba", "bruno"]),
    ("research", "vision", ["segmentation", "pose", "distill"], ["chiara", "diego"]),
    ("search", "ranking", ["two-tower", "cross-encoder", "negatives"], ["elena", "farid"]),
    ("search", "embeddings", ["multilingual", "matryoshka", "code"], ["gita", "farid"]),
    ("support", "assistant-tuning", ["dpo", "tools", "safety"], ["hugo", "ines"]),
];

const RESEARCH: [Project; 4] = [
    ("research", "vision", ["ablation", "augment", "eval"], ["chiara", "diego"]),
    ("search", "ranking", ["notebook", "eval", "sweep"], ["elena", "farid"]),
    ("support", "assistant-tuning", ["eval", "red-team", "sweep"], ["hugo", "ines"]),
    ("operations", "forecasting", ["demand", "prices", "anomaly"], ["jonas", "keiko"]),
];

const SERVING: [Project; 5] = [
    ("search", "embeddings", ["embed-text", "embed-image", "embed-query"], ["svc-search", "svc-search"]),
    ("search", "ranking", ["rerank", "rerank-canary", "spell"], ["svc-search", "svc-search"]),
    ("support", "assistant", ["chat", "chat-canary", "summaries"], ["svc-support", "svc-support"]),
    ("support", "speech", ["transcribe", "diarize", "voice"], ["svc-support", "svc-support"]),
    ("operations", "documents", ["ocr", "classify", "extract"], ["svc-ops", "svc-ops"]),
];

const HOUR: u64 = 3_600;

/// A price book for the sample's models.
pub const fn sample_prices() -> &'static str {
    include_str!("../../../deploy/prices.example.toml")
}

/// The allocations CSV of the sample fleet in the month that `day` is in (UTC).
pub fn sample_fleet(day: Date, seed: u64) -> String {
    let first = day.first_of_month();
    let midnight = |date: Date| date.to_zoned_datetime(TimeZone::UTC).map_or(0, |zoned| zoned.timestamp().as_second());
    let start = u64::try_from(midnight(first)).unwrap_or_default();
    let hours = u64::try_from(first.days_in_month()).unwrap_or_default() * 24;
    let month = Month { start, end: start + hours * HOUR };
    let mut writer = Writer { random: Random::new(seed), lines: Vec::new(), jobs: 1_000 };
    for (node, gpus, model, usage) in NODES {
        match usage {
            Use::Training => writer.training(node, gpus, model, month),
            Use::Research => writer.lanes(node, gpus, model, month, &RESEARCH, &[&[1_000], &[500, 500]], (2, 20)),
            Use::Serving => {
                let shapes: [&[u32]; 4] = [&[1_000], &[500, 500], &[500, 250, 250], &[250, 250, 250, 250]];
                writer.lanes(node, gpus, model, month, &SERVING, &shapes, (40, 160));
            }
        }
    }
    // Stable, so that lines of the same instant stay in the order of the nodes.
    writer.lines.sort_by_key(|(start, _)| *start);
    let mut text = HEADER.join(",");
    text.push('\n');
    for (_, line) in writer.lines {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[derive(Clone, Copy)]
struct Month {
    start: u64,
    end: u64,
}

struct Writer {
    random: Random,
    /// Start, and the line.
    lines: Vec<(u64, String)>,
    jobs: u32,
}

struct Held<'a> {
    node: &'a str,
    /// Of the node's GPUs; nothing if the job has several.
    gpu: Option<usize>,
    model: &'a str,
    gpus: usize,
    /// Thousandths of each GPU.
    part: u32,
}

impl Writer {
    /// Jobs of 1, 2, 4… whole GPUs: each waits for the GPUs that are free first, and for a user to come.
    fn training(&mut self, node: &str, gpus: usize, model: &str, month: Month) {
        let mut free = vec![month.start; gpus];
        loop {
            let sizes: &[usize] = if gpus == 8 { &[1, 1, 2, 2, 4, 8] } else { &[1, 1, 2, 4] };
            let wanted = *self.random.pick(sizes);
            let mut order: Vec<usize> = (0..gpus).collect();
            order.sort_by_key(|gpu| free[*gpu]);
            order.truncate(wanted);
            let ready = order.iter().map(|gpu| free[*gpu]).max().unwrap_or(month.end);
            let start = ready + self.random.seconds(0, 4);
            if start >= month.end {
                return;
            }
            let end = (start + self.random.seconds(1, 34)).min(month.end);
            for gpu in &order {
                free[*gpu] = end;
            }
            let gpu = if wanted == 1 { order.first().copied() } else { None };
            let held = Held { node, gpu, model, gpus: wanted, part: 1_000 };
            self.line(&held, start, end, &TRAINING, "development");
        }
    }

    /// Each GPU cut into lanes; in each lane one holder after another, for so many hours.
    #[expect(clippy::too_many_arguments, reason = "a private helper with two callers")]
    fn lanes(
        &mut self,
        node: &str,
        gpus: usize,
        model: &str,
        month: Month,
        projects: &[Project],
        shapes: &[&[u32]],
        hours: (u64, u64),
    ) {
        let environment = if hours.1 > 24 { "production" } else { "development" };
        for gpu in 0..gpus {
            for part in self.random.pick(shapes).iter() {
                let mut at = month.start + self.random.seconds(0, hours.0);
                while at < month.end {
                    let end = (at + self.random.seconds(hours.0, hours.1)).min(month.end);
                    let held = Held { node, gpu: Some(gpu), model, gpus: 1, part: *part };
                    self.line(&held, at, end, projects, environment);
                    at = end + self.random.seconds(0, hours.0);
                }
            }
        }
    }

    fn line(&mut self, held: &Held<'_>, start: u64, end: u64, projects: &[Project], environment: &str) {
        if start >= end {
            return;
        }
        let (department, project, names, users) = *self.random.pick(projects);
        let (name, user) = (*self.random.pick(&names), *self.random.pick(&users));
        let (experiment, service) = if environment == "production" { ("", name) } else { (name, "") };
        self.jobs += 1;
        let device = held.gpu.map(|gpu| format!("GPU-sample-{}-{gpu}", held.node)).unwrap_or_default();
        let mut line = String::new();
        let Held { node, model, gpus, part, .. } = held;
        let _ = write!(
            line,
            "{},{},{node},{device},{model},{gpus},{}.{:03},{environment},{department},{project},{experiment},{user},{service},{}",
            time(start),
            time(end),
            part / 1_000,
            part % 1_000,
            self.jobs,
        );
        self.lines.push((start, line));
    }
}

fn time(second: u64) -> String {
    let instant = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
    instant.unwrap_or_default().to_string()
}

/// What the sample draws.
impl Random {
    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = self.next() % of.len() as u64;
        &of[usize::try_from(at).unwrap_or_default()]
    }

    /// So many hours, as seconds, in steps of a second, from `low` up to `high`.
    fn seconds(&mut self, low: u64, high: u64) -> u64 {
        low * HOUR + self.next() % ((high - low) * HOUR + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use contador_schemas::owner::Owner;
    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;
    use crate::bill::decimal::ONE;
    use crate::bill::facts::Device;
    use crate::bill::import::parse;
    use crate::bill::prices::file;

    #[test]
    fn the_sample_is_the_same_each_time_and_every_model_of_it_is_priced() {
        let text = sample_fleet(date(2026, 10, 17), 1);
        assert_eq!(text, sample_fleet(date(2026, 10, 1), 1));
        assert_ne!(text, sample_fleet(date(2026, 10, 1), 2));
        let parsed = parse("sample", text.as_bytes(), true).unwrap();
        assert!((400..1_000).contains(&parsed.allocations().len()), "{}", parsed.allocations().len());
        let book = file::parse("prices.example.toml", sample_prices()).unwrap();
        for allocation in parsed.allocations() {
            let device = Device { gpu_model: allocation.gpu_model.clone(), ..Device::default() };
            assert!(
                book.rate(&device, &Owner::default(), None, allocation.start).is_some(),
                "{}",
                allocation.gpu_model
            );
            assert!(allocation.simulated);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn no_gpu_and_no_node_is_ever_held_more_than_whole(seed: u64, month in 1i8..=12) {
            let text = sample_fleet(date(2026, month, 1), seed);
            let parsed = parse("sample", text.as_bytes(), true).unwrap();
            // At each instant, what starts and what ends, by device and by node.
            let mut changes: BTreeMap<(String, i64), i128> = BTreeMap::new();
            for row in parsed.allocations() {
                let held = i128::from(row.gpus) * i128::from(row.fraction);
                let places = [row.node.clone(), row.device.clone()];
                for place in places.into_iter().filter(|place| !place.is_empty()) {
                    *changes.entry((place.clone(), row.start)).or_default() += held;
                    *changes.entry((place, row.end)).or_default() -= held;
                }
            }
            let mut place = String::new();
            let mut held = 0;
            for ((name, _), change) in changes {
                if name != place {
                    prop_assert_eq!(held, 0);
                    place = name;
                }
                held += change;
                let gpus = NODES.iter().find(|node| node.0 == place).map_or(1, |node| node.1 as i128);
                prop_assert!((0..=gpus * ONE).contains(&held), "{place}: {held}");
            }
        }
    }
}
