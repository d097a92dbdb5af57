//! Every metric of a GPU on every simulated board: a value on those that have it, and *unsupported*, never 0 and never
//! nothing, on those that don't.
//!
//! Which board has what is written down here once more, by hand, and owes nothing to the simulator's code.

use std::path::Path;

use contador_agent::sensors::{GpuSample, Gpus, Measure, NvmlLibrary, Reading};
use contador_schemas::names::{self, Group, MetricName, Support, Variant};

mod nvml_support;
use nvml_support::Simulator;

const BOARDS: [&str; 6] = ["a100-80gb", "b200-180gb", "h100-80gb", "h200-141gb", "l4", "rtx-4090"];

/// Whether a board that is not split by MIG has what the registry says by `support`.
fn has(board: &str, support: Support) -> bool {
    let boards: &[&str] = match support {
        Support::Always | Support::Whole | Support::Board => &BOARDS,
        Support::NvLink | Support::Hbm => &["a100-80gb", "b200-180gb", "h100-80gb", "h200-141gb"],
        Support::NvLink4 => &["a100-80gb", "h100-80gb", "h200-141gb"],
        Support::Ecc | Support::RowRemapping => &["a100-80gb", "b200-180gb", "h100-80gb", "h200-141gb", "l4"],
        Support::PcieBytes => &["b200-180gb", "h100-80gb", "h200-141gb"],
        Support::Fan => &["rtx-4090"],
        Support::Gpm | Support::GpmBoard => &["b200-180gb", "h100-80gb", "h200-141gb"],
        Support::Mig | Support::VgpuHost | Support::Kernel => &[],
    };
    boards.contains(&board)
}

/// What needs a second sample: the first one leaves it out.
fn is_of_two_samples(variant: &Variant) -> bool {
    matches!(variant.support, Support::Gpm | Support::GpmBoard)
}

/// What other sensors than that of the whole board read.
fn is_read_elsewhere(metric: &MetricName, variant: &Variant) -> bool {
    matches!(metric.name, names::GPU_XID_LAST | names::GPU_XIDS)
        || (metric.name == names::ERRORS && variant.attributes == [(names::ERROR_TYPE, "xid")])
}

/// Every value that the sensor of a whole board is to read.
fn wanted() -> impl Iterator<Item = (&'static MetricName, &'static Variant)> {
    let of_gpus = |metric: &&MetricName| {
        metric.group == Group::Gpu || (metric.group == Group::Series && metric.name.starts_with("contador.gpu."))
    };
    let variants = names::metrics().filter(of_gpus).flat_map(|metric| metric.variants.iter().map(move |v| (metric, v)));
    variants.filter(|(metric, variant)| !is_read_elsewhere(metric, variant))
}

fn of<'s>(sample: &'s GpuSample, metric: &MetricName, variant: &Variant) -> Vec<&'s Measure> {
    let is_it = |measure: &&Measure| measure.metric == metric.name && measure.fixed == variant.attributes;
    sample.measures.iter().filter(is_it).collect()
}

/// Two samples of a board, the second when the reader knows what the board lacks.
fn samples(board: &str) -> Vec<GpuSample> {
    let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"{board}\"\nutilization = 40\nmemory_mib = 1000"));
    let mut gpus = Gpus::open(&NvmlLibrary::at(simulator.path()), Path::new("/proc")).expect("the simulator opens");
    let sample = |at: u32| {
        simulator.hold_clock(at.into());
        gpus.sample(0, at.into()).expect("a GPU")
    };
    [1_000, 2_000].map(sample).into()
}

#[test]
fn each_metric_is_produced_by_the_boards_that_have_it_and_unsupported_by_the_others() {
    assert!(wanted().count() > 60, "the registry names them");
    for board in BOARDS {
        for (number, sample) in samples(board).into_iter().enumerate() {
            assert_eq!(sample.rejected, 0, "{board}");
            for (metric, variant) in wanted() {
                let context = format!("{board}: {} {:?}", metric.name, variant.attributes);
                let found = of(&sample, metric, variant);
                if number == 0 && is_of_two_samples(variant) && has(board, variant.support) {
                    assert!(found.is_empty(), "{context} is of nothing");
                    continue;
                }
                assert!(!found.is_empty(), "{context} is missing");
                for measure in found {
                    match &measure.reading {
                        Reading::Value(_) => assert!(has(board, variant.support), "{context}: {:?}", measure.reading),
                        Reading::Unsupported(_) => assert!(!has(board, variant.support), "{context} is unsupported"),
                        Reading::Failed(reason) => panic!("{context} failed: {reason}"),
                    }
                }
            }
        }
    }
}

#[test]
fn each_value_is_one_of_the_registry_and_comes_once() {
    for board in BOARDS {
        for sample in samples(board) {
            let mut seen = Vec::new();
            for measure in &sample.measures {
                let metric = names::metric(measure.metric).expect("a registered metric");
                let known = metric.variants.iter().any(|variant| variant.attributes == measure.fixed);
                assert!(known, "{board}: {} {:?}", measure.metric, measure.fixed);
                let identity = (measure.metric, measure.fixed, &measure.varying);
                assert!(!seen.contains(&identity), "{board}: {identity:?} twice");
                seen.push(identity);
            }
        }
    }
}

#[test]
fn each_link_is_a_series_of_its_own() {
    for (board, links) in [("a100-80gb", 12), ("b200-180gb", 18), ("h100-80gb", 18), ("l4", 0)] {
        let sample = samples(board).remove(1);
        let up = sample.measures.iter().filter(|measure| measure.metric == names::NVLINK_LINK_UP);
        let numbers: Vec<String> = up.flat_map(|measure| measure.varying.iter().map(|(_, n)| n.to_string())).collect();
        assert_eq!(numbers, (0..links).map(|link: u32| link.to_string()).collect::<Vec<_>>(), "{board}");
    }
}

/// The same of a board that is split by MIG, and of an instance of it.
#[test]
fn each_metric_is_told_of_a_split_board_or_of_its_instance_or_is_unsupported() {
    for (board, profile) in
        [("a100-80gb", "3g.40gb"), ("h100-80gb", "3g.40gb"), ("h200-141gb", "3g.71gb"), ("b200-180gb", "3g.90gb")]
    {
        let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"{board}\"\nmig = [\"{profile}\"]"));
        let mut gpus = Gpus::open(&NvmlLibrary::at(simulator.path()), Path::new("/proc")).expect("the simulator opens");
        gpus.sample_all(1_000);
        simulator.hold_clock(2_000);
        let samples = gpus.sample_all(2_000);
        let [parent, instance] = &samples[..] else { panic!("{samples:?}") };
        for (metric, variant) in wanted() {
            let of_parent = match variant.support {
                Support::Whole | Support::Gpm => false,
                Support::Mig => true,
                support => has(board, support),
            };
            let of_instance = matches!(variant.support, Support::Always | Support::Gpm) && has(board, variant.support);
            let series = metric.group == Group::Series;
            for (sample, expected) in [(parent, of_parent), (instance, of_instance)] {
                let context = format!("{board} {:?}: {} {:?}", sample.parent, metric.name, variant.attributes);
                let found = of(sample, metric, variant);
                assert!(!found.is_empty() || (series && sample.parent.is_some()), "{context} is missing");
                for measure in found {
                    let told = matches!(measure.reading, Reading::Value(_));
                    assert!(told == expected && !measure.reading.is_failed(), "{context}: {:?}", measure.reading);
                }
            }
        }
    }
}
