use contador_schemas::rows::{Allocation, OwnerRow};
use proptest::prelude::*;

use super::super::figures::{Figures, Skip};
use super::*;
use crate::bill::period;

const HEADER: &str =
    "JobIDRaw|JobID|Cluster|Account|User|State|Submit|Start|End|ElapsedRaw|Suspended|AllocTRES|NodeList";

/// An hour of four GPUs.
const HOUR: &str = "7|7|kiel|bio|ana|COMPLETED|2026-09-30T23:00:00|2026-10-01T00:00:00|2026-10-01T01:00:00|3600|00:00:00|cpu=8,gres/gpu:h100=4,gres/gpu=4|n1";

/// 2026-10-01T00:00:00Z, as `date -u -d 2026-10-01 +%s` has it.
const OCTOBER: i64 = 1_790_812_800_000;

/// Values that may stand in any column; most often the usual one.
const ODD: [&str; 40] = [
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "usual",
    "",
    "0",
    "7",
    "7.0",
    "3600",
    "4102444800",
    "99999999999999999999",
    "-1",
    "Unknown",
    "None",
    "RUNNING",
    "SUSPENDED",
    "2026-10-25T02:30:00",
    "2026-11-01T01:30:00",
    "2011-12-30T12:00:00",
    "2099-12-31T23:59:59",
    "47481-23:59:59",
    "00:00:01",
    "gres/gpu=1000000,gres/shard:a=2",
    "gres/gpu:b=1",
];

fn options() -> Options {
    Options {
        zone: TimeZone::UTC,
        suspended: Suspended::Free,
        account: AccountIs::Project,
        experiment: None,
        models: BTreeMap::new(),
        shard: None,
    }
}

fn read_as(options: &Options, header: &str, lines: &[&str]) -> Result<Parsed, String> {
    let text = format!("{header}\n{}\n", lines.join("\n"));
    parse("jobs", text.as_bytes(), options, false).map_err(|error| match error {
        ImportError::Refused(refused) => refused.to_string(),
        other => panic!("{other}"),
    })
}

fn read(lines: &[&str]) -> Result<Parsed, String> {
    read_as(&options(), HEADER, lines)
}

fn rows(parsed: &Parsed) -> Vec<Allocation> {
    parsed.allocations().collect()
}

/// [`HOUR`] with some columns changed.
fn with(changes: &[(&str, &str)]) -> String {
    let mut fields: Vec<&str> = HOUR.split('|').collect();
    for (column, value) in changes {
        fields[HEADER.split('|').position(|name| name == *column).unwrap()] = value;
    }
    fields.join("|")
}

#[test]
fn a_job_becomes_an_allocation_and_its_owner() {
    let parsed = read(&[HOUR]).unwrap();
    let [row] = &rows(&parsed)[..] else { panic!() };
    assert_eq!((row.start, row.end), (OCTOBER, OCTOBER + 3_600_000));
    assert_eq!((row.gpus, row.fraction, row.line), (4, 1_000_000_000_000, 2));
    assert_eq!((row.node.as_str(), row.gpu_model.as_str(), row.device.as_str()), ("n1", "h100", ""));
    let [owner] = &parsed.owners().collect::<Vec<OwnerRow>>()[..] else { panic!() };
    assert_eq!(owner.id, row.owner);
    let told = [&owner.cluster, &owner.job, &owner.user, &owner.project, &owner.department, &owner.experiment];
    assert_eq!(told, ["kiel", "7", "ana", "bio", "", ""]);
    let figures = Figures::of(&parsed);
    assert_eq!((figures.gpu_hours.to_string(), figures.disputed), ("4.000000".to_owned(), None));
}

#[test]
fn options_say_who_pays_and_what_a_gpu_is_called() {
    let options = Options {
        account: AccountIs::Department,
        experiment: Some(ExperimentIs::Wckey),
        models: [("h100", "NVIDIA H100 80GB HBM3")].map(|(from, to)| (from.to_owned(), to.to_owned())).into(),
        ..options()
    };
    let line = format!("{}|*sweep", with(&[("JobID", "6_4"), ("AllocTRES", "gres/gpu:H100=1,gres/gpu=3")]));
    let parsed = read_as(&options, &format!("{HEADER}|WCKey"), &[&line]).unwrap();
    let [h100, other] = &rows(&parsed)[..] else { panic!() };
    assert_eq!((h100.gpus, h100.gpu_model.as_str()), (1, "NVIDIA H100 80GB HBM3"));
    assert_eq!((other.gpus, other.gpu_model.as_str()), (2, "gpu"));
    assert_ne!(h100.id, other.id);
    let [owner] = &parsed.owners().collect::<Vec<OwnerRow>>()[..] else { panic!() };
    let told = [&owner.job, &owner.department, &owner.project, &owner.experiment];
    assert_eq!(told, ["6_4", "bio", "", "sweep"]);
}

#[test]
fn what_is_no_allocation_is_counted() {
    let parsed = read(&[
        HOUR,
        &with(&[("JobIDRaw", "7.batch"), ("JobID", "7.batch"), ("User", "")]),
        &with(&[("JobIDRaw", "7.0")]),
        &with(&[
            ("JobIDRaw", "8"),
            ("JobID", "8_[2-5%2]"),
            ("State", "PENDING"),
            ("Start", "Unknown"),
            ("End", "Unknown"),
            ("ElapsedRaw", "0"),
            ("AllocTRES", ""),
            ("NodeList", "None assigned"),
        ]),
        // Cancelled before it started: Slurm says that it started when it ended, or None.
        &with(&[
            ("JobIDRaw", "9"),
            ("State", "CANCELLED by 0"),
            ("End", "2026-10-01T00:00:00"),
            ("ElapsedRaw", "0"),
            ("AllocTRES", ""),
        ]),
        &with(&[
            ("JobIDRaw", "10"),
            ("State", "CANCELLED by 0"),
            ("Start", "None"),
            ("ElapsedRaw", "0"),
            ("AllocTRES", ""),
        ]),
        &with(&[("JobIDRaw", "11"), ("AllocTRES", "billing=1,cpu=1,node=1")]),
        HEADER,
    ])
    .unwrap();
    assert_eq!(rows(&parsed).len(), 1);
    let expected = [(Skip::Step, 2), (Skip::NotStarted, 3), (Skip::WithoutGpus, 1)];
    assert_eq!(parsed.skipped, expected.into());
}

#[test]
fn b17_a_failed_launch_costs_nothing() {
    let failed = with(&[("State", "NODE_FAIL"), ("End", "2026-10-01T00:00:00"), ("ElapsedRaw", "0")]);
    let figures = Figures::of(&read(&[&failed]).unwrap());
    assert_eq!((figures.allocations, figures.owners, figures.gpu_hours.to_string()), (0, 0, "0.000000".to_owned()));
    assert_eq!(figures.skipped, [(Skip::NoTime, 1)].into());
    // It is stored only if the store has heard otherwise.
    let mut parsed = read(&[&failed]).unwrap();
    let [row] = &rows(&parsed)[..] else { panic!() };
    assert_eq!(row.start, row.end);
    parsed.settle(&[(row.id, (row.start, row.start + 5_000))].into());
    assert_eq!(rows(&parsed).len(), 1);
    parsed.settle(&HashMap::new());
    assert_eq!(rows(&parsed).len(), 0);
}

#[test]
fn b12_a_job_that_runs_is_counted_and_later_replaced() {
    let runs = with(&[("State", "RUNNING"), ("End", "Unknown"), ("ElapsedRaw", "600")]);
    let [early, late] = [&read(&[&runs]).unwrap(), &read(&[HOUR]).unwrap()].map(|parsed| rows(parsed).remove(0));
    assert_eq!((early.id, early.start, early.end), (late.id, late.start, late.start + 600_000));
    for both in [[HOUR, &runs], [&runs, HOUR]] {
        let parsed = read(&both).unwrap();
        assert_eq!(rows(&parsed)[0].end, late.end, "{both:?}");
        let figures = Figures::of(&parsed);
        assert_eq!((figures.allocations, figures.open), (1, 0));
        assert_eq!(figures.skipped, [(Skip::Repeated, 1)].into());
    }
    // What the store knows is newer, is as new, and is older.
    for (ends, is_kept) in [(late.end, false), (late.start, false), (early.end, true), (early.end - 1, true)] {
        let mut parsed = read(&[&runs]).unwrap();
        parsed.settle(&[(early.id, (early.start, ends))].into());
        assert_eq!(rows(&parsed).len(), usize::from(is_kept), "{ends}");
    }
}

#[test]
fn each_run_of_a_job_and_each_type_counts() {
    let parsed = read(&[
        &with(&[("State", "REQUEUED"), ("End", "2026-10-01T00:10:00"), ("ElapsedRaw", "600")]),
        &with(&[("Start", "2026-10-01T00:20:00"), ("ElapsedRaw", "2400")]),
        &with(&[("JobIDRaw", "8"), ("AllocTRES", "gres/gpu:h100=1,gres/gpu:a100=1,gres/gpu=2")]),
        // The number of a job of another cluster.
        &with(&[("Cluster", "hamburg")]),
    ])
    .unwrap();
    let ids: HashSet<Uuid> = rows(&parsed).iter().map(|row| row.id).collect();
    assert_eq!(ids.len(), 5);
    // 4 × 600 s + 4 × 2,400 s + 2 × 3,600 s + 4 × 3,600 s = 33,600 s.
    assert_eq!(Figures::of(&parsed).gpu_hours.to_string(), "9.333333");
}

/// After `scontrol update NumNodes=1`, Slurm begins a record whose Submit is that instant, and whose Start and Elapsed are those of
/// the whole job.
#[test]
fn a_job_that_was_resized_has_each_size_for_its_time() {
    let first = with(&[
        ("State", "RESIZING"),
        ("End", "2026-10-01T00:20:00"),
        ("ElapsedRaw", "1140"),
        ("Suspended", "00:01:00"),
    ]);
    let rest = with(&[
        ("Submit", "2026-10-01T00:20:00"),
        ("ElapsedRaw", "3480"),
        ("Suspended", "00:02:00"),
        ("AllocTRES", "gres/gpu=1"),
    ]);
    let open = rest.replace("COMPLETED", "RUNNING").replace("2026-10-01T01:00:00", "Unknown").replace("3480", "1320");
    for (suspended, lines, seconds) in [
        (Suspended::Free, [&first, &rest], 4 * 1_140 + 2_280),
        (Suspended::Held, [&first, &rest], 4 * 1_200 + 2_400),
        (Suspended::Free, [&first, &open], 4 * 1_140 + 120),
    ] {
        let lines = lines.map(|line| line.replace("gres/gpu:h100=4,", ""));
        let parsed =
            read_as(&Options { suspended, ..options() }, HEADER, &lines.each_ref().map(String::as_str)).unwrap();
        let [first, rest] = &rows(&parsed)[..] else { panic!() };
        assert_eq!((first.start - OCTOBER, rest.start - OCTOBER), (0, 1_200_000));
        assert_ne!(first.id, rest.id);
        let sum: i64 = [first, rest].iter().map(|row| i64::from(row.gpus) * (row.end - row.start)).sum();
        assert_eq!((sum, parsed.disputed), (seconds * 1_000, None));
    }
    let text = read(&[&rest.replace("3480", "1199")]).unwrap_err();
    assert!(text.contains("ElapsedRaw: \"1199\", expected at least the 1200 seconds from Start to Submit"), "{text}");
}

#[test]
fn suspended_time_is_free_or_held() {
    let line = with(&[("ElapsedRaw", "600"), ("Suspended", "00:50:00")]);
    for (suspended, ends) in [(Suspended::Free, 600_000), (Suspended::Held, 3_600_000)] {
        let parsed = read_as(&Options { suspended, ..options() }, HEADER, &[&line]).unwrap();
        assert_eq!(rows(&parsed)[0].end - OCTOBER, ends);
        assert_eq!(parsed.disputed, None);
    }
}

#[test]
fn shards_are_parts_of_a_gpu_if_it_is_said_of_how_many() {
    let line = with(&[("AllocTRES", "gres/shard=3")]);
    let text = read(&[&line]).unwrap_err();
    assert!(text.contains("AllocTRES: \"gres/shard=3\", expected no shards, or --shards-per-gpu"), "{text}");
    let eighth = 125_000_000_000;
    let parsed = read_as(&Options { shard: Some(eighth), ..options() }, HEADER, &[&line]).unwrap();
    assert_eq!((rows(&parsed)[0].gpus, rows(&parsed)[0].fraction), (3, eighth));
    assert_eq!(Figures::of(&parsed).gpu_hours.to_string(), "0.375000");
}

/// Berlin sets its clocks back from 03:00 to 02:00 at 2026-10-25T01:00:00Z.
#[test]
fn an_hour_that_comes_twice_is_told_by_the_time_that_the_job_took() {
    const FIRST: i64 = 1_792_888_200_000; // 02:30 for the first time, 2026-10-25T00:30:00Z
    let berlin = Options { zone: period::zone("Europe/Berlin").unwrap(), ..options() };
    let job = |end: &str, elapsed: &str| {
        with(&[
            ("Submit", "2026-10-25T02:29:00"),
            ("Start", "2026-10-25T02:30:00"),
            ("End", end),
            ("ElapsedRaw", elapsed),
        ])
    };
    let spans = |line: &str| -> Vec<(i64, i64)> {
        let parsed = read_as(&berlin, HEADER, &[line]).unwrap();
        assert_eq!(parsed.disputed, None, "{line}");
        rows(&parsed).iter().map(|row| (row.start - FIRST, row.end - FIRST)).collect()
    };
    let hour = 3_600_000;
    assert_eq!(spans(&job("2026-10-25T04:00:00", "9000")), [(0, 5 * hour / 2)]);
    assert_eq!(spans(&job("2026-10-25T02:45:00", "4500")), [(0, 5 * hour / 4)]);
    // Both agree: the earlier one.
    assert_eq!(spans(&job("2026-10-25T02:45:00", "900")), [(0, hour / 4)]);
    // The later one, and nothing at the earlier one, for which it was taken as long as it ran.
    assert_eq!(spans(&job("2026-10-25T04:00:00", "5400")), [(0, 0), (hour, 5 * hour / 2)]);
    let open = job("Unknown", "60").replace("COMPLETED", "RUNNING");
    assert_eq!(spans(&open), [(0, 60_000)]);
    // It was submitted after the earlier one.
    assert_eq!(spans(&open.replace("02:29:00", "02:40:00")), [(0, 0), (hour, hour + 60_000)]);
    let parsed = read_as(&berlin, HEADER, &[&open, &job("2026-10-25T04:00:00", "5400")]).unwrap();
    assert_eq!(Figures::of(&parsed).gpu_hours.to_string(), "6.000000");
}

#[test]
fn times_that_contradict_each_other_are_told_and_elapsed_counts() {
    let lines = [
        HOUR.to_owned(),
        with(&[("JobIDRaw", "8"), ("ElapsedRaw", "1800")]),
        with(&[("JobIDRaw", "9"), ("ElapsedRaw", "1")]),
    ];
    let parsed = read(&lines.each_ref().map(String::as_str)).unwrap();
    assert_eq!(parsed.disputed, Some((2, 3)));
    let text = Figures::of(&parsed).to_string();
    assert!(text.contains("2 jobs, the first in line 3, whose End is not Start + Elapsed + Suspended"), "{text}");
}

#[test]
fn every_fault_names_its_line_its_column_its_value_and_what_was_expected() {
    for (changes, message) in [
        ([("JobIDRaw", "x")], "JobIDRaw: \"x\", expected a job's number, or one with its step such as 12.batch"),
        ([("JobIDRaw", "7.")], "JobIDRaw: \"7.\", expected a job's number, or one with its step such as 12.batch"),
        (
            [("Start", "soon")],
            "Start: \"soon\", expected a time such as 2026-10-01T00:00:00, whole epoch seconds, or Unknown",
        ),
        ([("Submit", "Unknown")], "Submit: \"Unknown\", expected a time"),
        ([("Start", "Unknown")], "Start: \"Unknown\", expected a time, as the job ran"),
        ([("End", "1969-01-01T00:00:00")], "End: \"1969-01-01T00:00:00\", expected a time from 1970 to 2100"),
        ([("End", "Unknown")], "End: \"Unknown\", expected a time, as the job is COMPLETED"),
        (
            [("State", "RUNNING")],
            "End: \"2026-10-01T01:00:00\", expected Unknown, as the job is RUNNING; sacct must be called without -T",
        ),
        ([("ElapsedRaw", "-1")], "ElapsedRaw: \"-1\", expected whole seconds"),
        ([("Suspended", "x")], "Suspended: \"x\", expected a duration such as 1-02:03:04, 02:03:04 or 03:04"),
        ([("ElapsedRaw", "4000000000")], "Start: \"2026-10-01T00:00:00\", expected a job that ends before 2100"),
        (
            [("AllocTRES", "gres/gpu=many")],
            "AllocTRES: \"gres/gpu=many\", expected gres/gpu to be a whole number up to 1000000",
        ),
        ([("Account", "a\tb")], "Account: \"a\\tb\", expected no control characters"),
        ([("User", " ana")], "User: \" ana\", expected no space at either end"),
    ] {
        assert_eq!(
            read(&[HOUR, &with(&changes)]).unwrap_err(),
            format!("jobs:3: {message}\njobs: nothing of it is stored")
        );
    }
    let text = read(&[HOUR, "a|b"]).unwrap_err();
    assert!(text.starts_with("jobs:3: \"a|b\", expected 13 fields, found 2"), "{text}");
    let text = parse("jobs", &b""[..], &options(), false).unwrap_err().to_string();
    assert!(text.starts_with("jobs:1: header: empty, expected the header that sacct -P prints without -n"), "{text}");
}

#[test]
fn what_users_write_is_cleaned_and_never_stops_the_bill() {
    let options = Options { experiment: Some(ExperimentIs::Comment), ..options() };
    let header = format!("{HEADER}|Comment");
    for (comment, label) in [
        ("team=a|b".to_owned(), "team=a|b".to_owned()),
        (" a\tb ".to_owned(), "a\u{fffd}b".to_owned()),
        ("ñ".repeat(1_000), "ñ".repeat(512)),
        (String::new(), String::new()),
    ] {
        let parsed = read_as(&options, &header, &[&format!("{HOUR}|{comment}")]).unwrap();
        assert_eq!(parsed.owners().next().unwrap().experiment, label);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse("jobs", bytes.as_slice(), &options(), false);
        let mut after = format!("{HEADER}\r\n").into_bytes();
        after.extend(bytes);
        let _ = parse("jobs", after.as_slice(), &options(), false);
    }

    /// Whatever stands in the columns, in whatever zone: it is refused, or nothing ends before it starts.
    #[test]
    fn any_values_are_read_or_refused(
        lines in prop::collection::vec(prop::collection::vec(0usize..ODD.len(), 13), 1..6),
        zone in prop::sample::select(vec!["Europe/Berlin", "America/New_York", "Pacific/Apia", "UTC"]),
        suspended in prop::sample::select(vec![Suspended::Free, Suspended::Held]),
    ) {
        let lines: Vec<String> = lines
            .iter()
            .map(|places| {
                let fields = HOUR.split('|').zip(places);
                fields.map(|(usual, at)| if ODD[*at] == "usual" { usual } else { ODD[*at] }).collect::<Vec<_>>().join("|")
            })
            .collect();
        let options = Options { zone: period::zone(zone).unwrap(), suspended, shard: Some(1), ..options() };
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        if let Ok(parsed) = read_as(&options, HEADER, &lines) {
            prop_assert!(parsed.allocations().all(|row| row.start <= row.end && row.gpus > 0));
            let _ = Figures::of(&parsed).to_string();
        }
    }

    /// Whatever stands in the columns, there is a fault or the GPU time is Slurm's.
    #[test]
    fn gpu_time_is_elapsed_times_gpus(
        jobs in prop::collection::vec((0i64..2_000_000_000, 0i64..90_000_000, 0i64..1_000_000, 0u32..9, 0u32..3, any::<bool>()), 0..20),
        held in any::<bool>(),
    ) {
        let mut lines = Vec::new();
        let mut expected = 0;
        for (number, (start, elapsed, suspended, gpus, typed, is_open)) in jobs.iter().enumerate() {
            let end = start + elapsed + suspended;
            let gpus = gpus + typed;
            let (state, end) = if *is_open { ("RUNNING", "Unknown".to_owned()) } else { ("FAILED", end.to_string()) };
            let (days, rest) = (suspended / 86_400, suspended % 86_400);
            let suspended_text = format!("{days}-{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60);
            let tres = format!("cpu=1,gres/gpu={gpus},gres/gpu:a={typed}");
            lines.push(format!("{number}||c|a|u|{state}|{start}|{start}|{end}|{elapsed}|{suspended_text}|{tres}|"));
            expected += i64::from(gpus) * (elapsed + if held { *suspended } else { 0 });
        }
        let suspended = if held { Suspended::Held } else { Suspended::Free };
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let parsed = read_as(&Options { suspended, ..options() }, HEADER, &lines).unwrap();
        let figures = Figures::of(&parsed);
        prop_assert_eq!(figures.units, num_bigint::BigInt::from(expected) * 1_000 * crate::bill::decimal::ONE);
        prop_assert_eq!(figures.disputed, None);
        let skipped: u64 = figures.skipped.values().sum();
        prop_assert_eq!(parsed.lines().iter().filter(|line| !line.is_void()).map(|line| line.line).collect::<HashSet<_>>().len() as u64 + skipped, lines.len() as u64);
    }
}
