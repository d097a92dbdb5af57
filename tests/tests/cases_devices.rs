//! What others' users have reported about devices, on the simulator: each case by its id.

use std::collections::HashSet;
use std::path::Path;

use contador_agent::sensors::{GpuSample, Gpus, Number, NvmlLibrary, Reading};
use contador_schemas::names::{self, Fixed};

mod nvml_support;
use nvml_support::Simulator;

const MIB: u64 = 1024 * 1024;
const TRANSMIT: Fixed = &[(names::IO_DIRECTION, "transmit")];
const RECEIVE: Fixed = &[(names::IO_DIRECTION, "receive")];

fn open(simulator: &Simulator) -> Gpus {
    Gpus::open(&NvmlLibrary::at(simulator.path()), Path::new("/proc")).expect("the simulator opens")
}

fn sample(settings: &str) -> GpuSample {
    sample_of("h100-80gb", settings)
}

fn sample_of(model: &str, settings: &str) -> GpuSample {
    let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"{model}\"\n{settings}"));
    open(&simulator).sample(0, 1_000).expect("a GPU")
}

/// The readings of a metric whose attributes are these, and others that vary.
fn readings<'s>(sample: &'s GpuSample, metric: &str, fixed: Fixed) -> Vec<&'s Reading<Number>> {
    let found = sample.measures.iter().filter(|measure| measure.metric == metric && measure.fixed == fixed);
    found.map(|measure| &measure.reading).collect()
}

fn count(sample: &GpuSample, metric: &str, fixed: Fixed) -> u64 {
    sample.measures.reading_as(metric, fixed).and_then(Reading::get).and_then(Number::count).expect("a count")
}

/// Which of the three states is said to be the device's.
fn status(sample: &GpuSample) -> &'static str {
    let states = sample.measures.iter().filter(|measure| measure.metric == names::STATUS);
    let held: Vec<_> = states.filter(|measure| measure.reading == Reading::Value(Number::Whole(1))).collect();
    assert_eq!(held.len(), 1, "one state at a time");
    held[0].fixed[0].1
}

/// A share above 100 percent cannot be: it is dropped, and counted as rejected.
#[test]
fn d1_a_utilisation_above_100_percent_is_dropped_and_counted() {
    let engine = |name| -> Fixed {
        if name == "encoder" { &[(names::GPU_TASK, "encoder")] } else { &[(names::GPU_TASK, "decoder")] }
    };
    for percent in [101, 2_619, 4_294_967_295_u32] {
        for (answer, metric, fixed) in [
            ("utilization_gpu", names::GPU_UTILIZATION, &[] as Fixed),
            ("utilization_memory", names::GPU_MEMORY_UTILIZATION, &[]),
            ("encoder", names::GPU_UTILIZATION, engine("encoder")),
            ("decoder", names::GPU_UTILIZATION, engine("decoder")),
        ] {
            let s = sample(&format!("utilization = 30\nanswers = {{ {answer} = {percent} }}"));
            let reading = s.measures.reading_as(metric, fixed).expect("asked");
            assert!(reading.is_failed(), "{answer} {percent}: {reading:?}");
            assert_eq!(s.rejected, 1, "{answer} {percent}");
        }
        // Of the driver's samples each one counts. At the start of the clock there is one.
        for (answer, metric) in
            [("sample_gpu", names::GPU_UTILIZATION_INTERVAL), ("sample_memory", names::GPU_MEMORY_UTILIZATION_INTERVAL)]
        {
            let s = sample(&format!("utilization = 30\nanswers = {{ {answer} = {percent} }}"));
            let all = s.measures.iter().filter(|measure| measure.metric == metric);
            assert_eq!(all.filter(|measure| measure.reading.is_failed()).count(), 3, "{answer} {percent}");
            assert_eq!(s.rejected, 1, "{answer} {percent}");
        }
    }
    let s = sample_of("rtx-4090", "answers = { fan_speed = 201 }");
    assert!(s.measures.reading(names::FAN_SPEED).expect("asked").is_failed());
    assert_eq!(s.rejected, 1);
    let s = sample("utilization = 30\nanswers = { bar1_used = 999999999999999 }");
    assert!(s.measures.reading(names::GPU_BAR1_USAGE).expect("asked").is_failed());
    assert_eq!(s.rejected, 1);
}

/// The numbers that drivers use for *blank* are no values: what they stand for is absent, with the reason.
#[test]
fn d2_a_blank_sentinel_is_absent() {
    let ecc: Fixed = &[(names::ERROR_TYPE, "ecc_corrected_volatile")];
    let replay: Fixed = &[(names::ERROR_TYPE, "replay")];
    let pcie_replay: Fixed = &[(names::ERROR_TYPE, "pcie_replay")];
    for (answer, metric, fixed) in [
        ("power_usage", names::POWER, &[] as Fixed),
        ("power_average", names::GPU_POWER_AVERAGE, &[]),
        ("power_instant", names::GPU_POWER_INSTANT, &[]),
        ("power_limit", names::GPU_POWER_LIMIT, &[]),
        ("total_energy_consumption", names::ENERGY, &[]),
        ("temperature", names::TEMPERATURE, &[]),
        ("memory_temperature", names::GPU_MEMORY_TEMPERATURE, &[]),
        ("clock", names::GPU_CLOCK_SM, &[]),
        ("clock", names::GPU_CLOCK_VIDEO, &[]),
        ("bar1_used", names::GPU_BAR1_USAGE, &[]),
        ("throttle_reasons", names::GPU_THROTTLE_REASONS, &[]),
        ("violation", names::GPU_THROTTLE_TIME, &[(names::THROTTLE_REASON, "thermal")]),
        ("pcie_generation", names::GPU_PCIE_GENERATION, &[]),
        ("pcie_width", names::GPU_PCIE_WIDTH, &[]),
        ("pcie_replays", names::ERRORS, pcie_replay),
        ("pcie_bytes", names::GPU_IO, TRANSMIT),
        ("nvlink_bytes", names::NVLINK_IO, RECEIVE),
        ("nvlink_bytes", names::NVLINK_LINK_IO, RECEIVE),
        ("nvlink_errors", names::NVLINK_LINK_ERRORS, replay),
        ("ecc_errors", names::ERRORS, ecc),
        ("remapped_rows", names::GPU_REMAPPED_ROWS, &[(names::ERROR_TYPE, "uncorrected")]),
        ("remapped_rows", names::GPU_REMAP_FAILED, &[]),
    ] {
        // -1 is the greatest number of either width; the others are blank for numbers of 64 and of 32 bits.
        for blank in ["-1", "9223372036854775794", "2147483632"] {
            let s = sample(&format!("utilization = 30\nanswers = {{ {answer} = {blank} }}"));
            let found = readings(&s, metric, fixed);
            assert!(!found.is_empty(), "{answer}");
            let wide = matches!(
                answer,
                "total_energy_consumption"
                    | "bar1_used"
                    | "throttle_reasons"
                    | "violation"
                    | "pcie_bytes"
                    | "nvlink_bytes"
                    | "nvlink_errors"
                    | "ecc_errors"
            );
            let is_blank = match blank {
                "2147483632" => !wide,
                // Its low 32 bits are the number 4294967282, which is no blank one.
                "9223372036854775794" => wide,
                _ => true,
            };
            if is_blank {
                let absent = found.iter().all(|reading| matches!(reading, Reading::Unsupported(_)));
                assert!(absent, "{answer} = {blank}: {found:?}");
                assert_eq!(s.rejected, 0, "{answer} = {blank}");
            }
        }
    }
    let s = sample("answers = { performance_state = 32 }");
    assert!(matches!(s.measures.reading(names::GPU_PERFORMANCE_STATE), Some(Reading::Unsupported(_))));
    // A blank sample counts for nothing: what remains is the plain reading.
    let s = sample("utilization = 30\nanswers = { sample_power = -1 }");
    let mean = readings(&s, names::GPU_POWER_INTERVAL, &[(names::STATISTIC, "mean")]);
    assert_eq!((mean, s.rejected), (vec![&Reading::Value(Number::Thousandths(259_000))], 0));
}

/// Free, used and reserved add up to all there is, and nothing is used while no process is there.
#[test]
fn d3_memory_adds_up_and_an_unused_gpu_uses_none() {
    for (model, total, reserved) in
        [("a100-80gb", 81_920, 767), ("b200-180gb", 183_359, 717), ("l4", 23_034, 466), ("rtx-4090", 24_564, 347)]
    {
        for (settings, used) in [("", 0), ("memory_mib = 1000", 1_000)] {
            let s = sample_of(model, settings);
            let part = |metric: &str| s.measures.count(metric).expect("a value") / MIB;
            assert_eq!(part(names::GPU_MEMORY_LIMIT), total, "{model}");
            assert_eq!(part(names::GPU_MEMORY_USAGE), used, "{model}");
            assert_eq!(part(names::GPU_MEMORY_RESERVED), reserved, "{model}");
            assert_eq!(part(names::GPU_MEMORY_FREE), total - reserved - used, "{model}");
        }
    }
}

/// Bytes over NVLink only rise, and are the driver's KiB times 1024, over all links and not only the first.
#[test]
fn d13_nvlink_bytes_are_a_counter() {
    // Half of 10 GB/s over each of 18 links, sent, and half of 9 received; each link's KiB are rounded down.
    let h100 = |seconds: u64| [5_000_000_000, 4_500_000_000_u64].map(|rate| rate * seconds / 1_024 * 1_024);
    // Half of 20 and of 18 GB/s, in bytes.
    let b200 = |seconds: u64| [10_000_000_000, 9_000_000_000_u64].map(|rate| rate * seconds);
    for driver in ["570.133.20", "580.95.05"] {
        for model in ["h100-80gb", "b200-180gb"] {
            let simulator = Simulator::new(&format!(
                "driver_version = \"{driver}\"\n[[gpu]]\nmodel = \"{model}\"\nutilization = 50"
            ));
            let mut gpus = open(&simulator);
            let mut before = [0; 2];
            for second in [0u32, 1, 2, 2, 7, 60, 86_400] {
                simulator.hold_clock(u64::from(second) * 1_000);
                let s = gpus.sample(0, i64::from(second) * 1_000).expect("a GPU");
                let bytes = |seconds| if model == "h100-80gb" { h100(seconds) } else { b200(seconds) };
                let expected = bytes(second.into());
                // Each link by itself is read every ten seconds.
                let held = bytes(if second < 10 { 0 } else { second.into() });
                for (direction, fixed) in [TRANSMIT, RECEIVE].into_iter().enumerate() {
                    let links = readings(&s, names::NVLINK_LINK_IO, fixed);
                    assert_eq!(links, vec![&Reading::Value(Number::Whole(held[direction])); 18], "{model} {second} s");
                    let total = count(&s, names::NVLINK_IO, fixed);
                    assert_eq!(total, 18 * expected[direction], "{model} {second} s");
                    assert!(total >= before[direction]);
                    before[direction] = total;
                }
            }
        }
    }
}

/// A counter of 32 bits starts again at 0: it is handed on as the driver has it.
#[test]
fn d13_a_counter_that_wraps_is_handed_on_as_it_is() {
    let wraps = "utilization = 100\nnvlink = { start = 4294967295, counter_bits = 32 }\n\
                 pcie = { start = 4294967296, counter_bits = 33 }";
    let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"h100-80gb\"\n{wraps}"));
    let mut gpus = open(&simulator);
    let first = gpus.sample(0, 0).expect("a GPU");
    assert_eq!(count(&first, names::NVLINK_IO, TRANSMIT), 4_294_967_295 * 1_024);
    assert_eq!(count(&first, names::GPU_IO, TRANSMIT), 4_294_967_296);
    // 18 links with 10,240,000 bytes, which are 10,000 KiB, in 1.024 ms; so in 128 ms 1,250,000 KiB each.
    simulator.hold_clock(128);
    let second = gpus.sample(0, 1_000).expect("a GPU");
    assert_eq!(count(&second, names::NVLINK_IO, TRANSMIT), (18 * 1_250_000 - 1) * 1_024);
    // 2 MB a millisecond.
    assert_eq!(count(&second, names::GPU_IO, TRANSMIT), 4_294_967_296 + 256_000_000);
    simulator.hold_clock(3_000);
    let third = gpus.sample(0, 2_000).expect("a GPU");
    assert_eq!(count(&third, names::GPU_IO, TRANSMIT), 6_000_000_000 - 4_294_967_296);
}

/// A board whose links are down is degraded, and says which, one or all of them.
#[test]
fn d14_links_that_are_down_degrade_the_device() {
    let all = (0..18).map(|link| link.to_string()).collect::<Vec<_>>().join(", ");
    for (settings, active, expected, faults) in [
        (String::new(), 18, "ok", vec![]),
        ("nvlink = { down = [3] }".to_owned(), 17, "degraded", vec!["NVLink 3 is down"]),
        ("nvlink = { down = [3, 11] }".to_owned(), 16, "degraded", vec!["NVLinks 3, 11 are down"]),
        (format!("nvlink = {{ down = [{all}] }}"), 0, "degraded", vec!["all 18 NVLinks are down"]),
    ] {
        for model in ["h100-80gb", "b200-180gb"] {
            let s = sample_of(model, &settings);
            assert_eq!(count(&s, names::NVLINK_LINKS, &[]), 18, "{settings}");
            assert_eq!(count(&s, names::NVLINK_LINKS_ACTIVE, &[]), active, "{settings}");
            assert_eq!(
                (status(&s), &s.faults[..]),
                (expected, &faults.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>()[..])
            );
        }
    }
    assert_eq!(status(&sample_of("l4", "")), "ok", "no links is not all links down");
}

/// Memory that is failing degrades the device too, and one that answers nothing has failed.
#[test]
fn d14_a_device_with_broken_memory_is_degraded_and_a_silent_one_failed() {
    for (settings, fault) in [
        ("ecc = { uncorrected_volatile = 2 }", "2 memory errors could not be corrected since the driver was loaded"),
        ("remapped_rows = { pending = true }", "a row of memory waits for a reset to be remapped"),
        ("remapped_rows = { failed = true }", "a row of memory could not be remapped"),
    ] {
        let s = sample(settings);
        assert_eq!((status(&s), &s.faults[..]), ("degraded", &[fault.to_owned()][..]));
    }
    let harmless = "ecc = { corrected_volatile = 5, corrected_aggregate = 9, uncorrected_aggregate = 1 }\n\
                    remapped_rows = { corrected = 1, uncorrected = 1 }";
    let s = sample(harmless);
    assert_eq!((status(&s), s.faults.len()), ("ok", 0));
    let errors = |kind: Fixed| count(&s, names::ERRORS, kind);
    assert_eq!(errors(&[(names::ERROR_TYPE, "ecc_corrected_volatile")]), 5);
    assert_eq!(errors(&[(names::ERROR_TYPE, "ecc_uncorrected_volatile")]), 0);
    assert_eq!(errors(&[(names::ERROR_TYPE, "ecc_corrected_aggregate")]), 9);
    assert_eq!(errors(&[(names::ERROR_TYPE, "ecc_uncorrected_aggregate")]), 1);
    assert_eq!(count(&s, names::GPU_REMAPPED_ROWS, &[(names::ERROR_TYPE, "corrected")]), 1);
    let lost =
        ["memory_info", "utilization_rates", "power_usage", "temperature", "clock_info", "total_energy_consumption"]
            .map(|call| format!("{call} = \"gpu_is_lost\""));
    let s = sample(&format!("errors = {{ {} }}", lost.join(", ")));
    assert_eq!(status(&s), "failed");
    assert_eq!(s.faults, ["does not answer: device fell off the bus or has otherwise become inacessible"]);
}

/// The interval between two samples has the least, the mean and the greatest of what the driver has seen in it.
#[test]
fn an_interval_is_made_of_the_drivers_own_samples() {
    let simulator = Simulator::new(
        "[[gpu]]\nmodel = \"h100-80gb\"\nutilization = [{ at = \"0s\", value = 20 }, { at = \"10s\", value = 80 }]\n\
         [[gpu]]\nmodel = \"h100-80gb\"",
    );
    let mut gpus = open(&simulator);
    let mut interval = |at: u32, gpu, metric: &str| {
        simulator.hold_clock(at.into());
        let s = gpus.sample(gpu, at.into()).expect("a GPU");
        ["min", "mean", "max"].map(|statistic| {
            let reading = s.measures.reading_as(metric, &[(names::STATISTIC, statistic)]).expect("asked");
            reading.get().expect("a value").f64()
        })
    };
    let metric = names::GPU_UTILIZATION_INTERVAL;
    assert_eq!(interval(0, 0, metric), [0.2; 3]);
    // Six samples a second, of 20.996, 21.998, 23, 23.996, 24.998 and 26 percent, which are told in whole percent.
    assert_eq!(interval(1_000, 0, metric), [0.21, 0.235, 0.26]);
    assert_eq!(interval(1_000, 0, metric), [0.26; 3], "none since: what the plain call reads");
    // Three fifths of 26.996, 28, 29, 29.996, 30.998 and 32 percent: 16, 17, 17, 18, 19 and 19.
    assert_eq!(interval(2_000, 0, names::GPU_MEMORY_UTILIZATION_INTERVAL), [0.16, 106.0 / 6.0 / 100.0, 0.19]);
    assert_eq!(interval(2_000, 1, metric), [0.0; 3], "an idle GPU has no samples, and is at 0");
    assert_eq!(interval(2_000, 1, names::GPU_POWER_INTERVAL), [70.0; 3]);
}

/// At least 16 GPUs, and as many as a simulated machine has, each with values of its own.
#[test]
fn sixteen_and_sixty_four_gpus_are_all_seen() {
    for (gpus_of_machine, model) in [(16, "h200-141gb"), (64, "a100-80gb")] {
        let simulator =
            Simulator::new(&format!("[[gpu]]\nmodel = \"{model}\"\ncount = {gpus_of_machine}\nutilization = 70"));
        let mut gpus = open(&simulator);
        simulator.hold_clock(1_000);
        let samples = gpus.sample_all(1_000);
        assert_eq!(samples.len(), gpus_of_machine);
        assert_eq!(samples.iter().map(|sample| &sample.uuid).collect::<HashSet<_>>().len(), gpus_of_machine);
        for s in &samples {
            assert_eq!((s.measures.f64(names::GPU_UTILIZATION), status(s)), (Some(0.7), "ok"));
            assert!(count(s, names::NVLINK_IO, TRANSMIT) > 0);
        }
    }
}

/// Clocks that are held down are said to be so: why, as a set, and for how long, in seconds.
#[test]
fn throttling_has_reasons_and_a_time() {
    let simulator = Simulator::new(
        "[[gpu]]\nmodel = \"l4\"\nutilization = 90\nthrottle = [\"sw_power_cap\", \"hw_thermal\"]\nencoder = 25",
    );
    let mut gpus = open(&simulator);
    simulator.hold_clock(2_500);
    let s = gpus.sample(0, 0).expect("a GPU");
    let bits = s.measures.count(names::GPU_THROTTLE_REASONS).expect("bits");
    assert_eq!(contador_agent::sensors::throttle_reasons(bits), ["sw_power_cap", "hw_thermal"]);
    for reason in [&[(names::THROTTLE_REASON, "power")] as Fixed, &[(names::THROTTLE_REASON, "thermal")]] {
        let held = s.measures.reading_as(names::GPU_THROTTLE_TIME, reason).expect("asked");
        assert_eq!(held.get().map(Number::f64), Some(2.5));
    }
    let encoder = s.measures.reading_as(names::GPU_UTILIZATION, &[(names::GPU_TASK, "encoder")]).expect("asked");
    assert_eq!(encoder.get().map(Number::f64), Some(0.25));
}

/// Reasons that this agent has no name for are kept, as a newer driver's are.
#[test]
fn unknown_throttle_reasons_are_kept() {
    let s = sample("answers = { throttle_reasons = 4097 }");
    assert_eq!(s.measures.count(names::GPU_THROTTLE_REASONS), Some(4_097));
    assert_eq!(contador_agent::sensors::throttle_reasons(4_097), ["idle", "other"]);
}

/// Errors of links are counted for each link and kind, and over all links.
#[test]
fn link_errors_are_of_a_link_and_of_all() {
    let errors = "nvlink = { errors = [{ link = 2, replay = 7, recovery = 1 }, { link = 9, replay = 3, crc_flit = 4, crc_data = 5 }] }";
    let s = sample(errors);
    let of = |kind: &'static str| {
        let fixed = [(names::ERROR_TYPE, kind)];
        s.measures.reading_as(names::ERRORS, &fixed).and_then(Reading::get).and_then(Number::count)
    };
    assert_eq!(
        ["nvlink_replay", "nvlink_recovery", "nvlink_crc_flit", "nvlink_crc_data"].map(of),
        [Some(10), Some(1), Some(4), Some(5)]
    );
    let link = |number| [(names::ERROR_TYPE, "replay"), (names::NVLINK_LINK, number)];
    let replays = |number| s.measures.reading_as(names::NVLINK_LINK_ERRORS, &link(number)).cloned();
    assert_eq!(replays("2"), Some(Reading::Value(Number::Whole(7))));
    assert_eq!(replays("3"), Some(Reading::Value(Number::Whole(0))));
    let b200 = sample_of("b200-180gb", "nvlink = { errors = [{ link = 2, recovery = 6 }] }");
    assert_eq!(count(&b200, names::ERRORS, &[(names::ERROR_TYPE, "nvlink_recovery")]), 6, "by field 215");
}

/// What a device lacks is not asked for each second, and what seldom changes is not asked as often as the rest.
#[test]
fn a_sample_costs_few_calls() {
    for (model, first_most, later_most) in
        [("h100-80gb", 130, 55), ("b200-180gb", 130, 55), ("l4", 56, 35), ("rtx-4090", 56, 32)]
    {
        let simulator = Simulator::new(&format!("[[gpu]]\nmodel = \"{model}\"\nutilization = 40"));
        let mut gpus = open(&simulator);
        let mut calls = |at: i64| {
            simulator.hold_clock(u64::try_from(at).expect("a time"));
            let before = simulator.calls();
            gpus.sample(0, at).expect("a GPU");
            simulator.calls() - before
        };
        let (first, second, ninth) = (calls(1_000), calls(2_000), calls(9_000));
        assert!(first <= first_most, "{model}: {first} calls");
        assert!(second <= later_most && second == ninth, "{model}: {second} and {ninth} calls");
        let (links, minute_later) = (calls(11_000), calls(61_000));
        assert_eq!(links > second, model == "h100-80gb", "{model}: error counters, each ten seconds: {links} calls");
        assert!(minute_later > second, "{model}: all is asked again each minute: {minute_later} calls");
    }
}
