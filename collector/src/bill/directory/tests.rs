//! What a file may say, and what holds on which day.

use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::file::{parse, read_day};
use super::*;
use crate::bill::facts::Fact;

const FILE: &str = "\u{feff}valid_from,project,department,cost_centre,valid_to\r\n\
    2026-10-16,vision,search,4712,\r\n\r\n\
    2026-01-01,vision,\"research, basic\",4711,\r\n\
    2026-01-01,ranking,search,,2027-01-01\r\n\
    2027-02-01,ranking,search,,\n";

fn read(text: &str) -> Result<Directory, String> {
    parse("d.csv", text.as_bytes()).map_err(|error| error.to_string())
}

fn on(directory: &Directory, project: &str, date: &str) -> Option<(String, String)> {
    let entry = directory.at(project, read_day(date).unwrap())?;
    Some((entry.department.to_string(), entry.cost_centre.to_string()))
}

#[test]
fn an_entry_holds_from_its_first_day_until_its_last_or_the_next_one() {
    let directory = read(FILE).unwrap();
    for (project, date, expected) in [
        ("vision", "2025-12-31", None),
        ("vision", "2026-01-01", Some(("research, basic", "4711"))),
        ("vision", "2026-10-15", Some(("research, basic", "4711"))),
        ("vision", "2026-10-16", Some(("search", "4712"))),
        ("vision", "2099-12-31", Some(("search", "4712"))),
        ("ranking", "2026-12-31", Some(("search", ""))),
        ("ranking", "2027-01-01", None),
        ("ranking", "2027-02-01", Some(("search", ""))),
        ("other", "2026-10-16", None),
    ] {
        let expected = expected.map(|(department, centre)| (department.to_owned(), centre.to_owned()));
        assert_eq!(on(&directory, project, date), expected, "{project} on {date}");
    }
    let shown: Vec<_> =
        directory.entries().map(|(project, from, _, until)| (project, date(from), until.map(date))).collect();
    let day = |text: &str| text.parse::<Date>().unwrap();
    assert_eq!(
        shown,
        [
            ("ranking", day("2026-01-01"), Some(day("2027-01-01"))),
            ("ranking", day("2027-02-01"), None),
            ("vision", day("2026-01-01"), Some(day("2026-10-16"))),
            ("vision", day("2026-10-16"), None),
        ]
    );
    // Half a day's GPU time does not change hands because the file was sorted.
    let mut lines: Vec<&str> = FILE.trim_start_matches('\u{feff}').lines().filter(|line| !line.is_empty()).collect();
    lines[1..].reverse();
    assert_eq!(read(&lines.join("\n")).unwrap().id(), directory.id());
    assert_ne!(read(&lines.join("\n").replace("4712", "4713")).unwrap().id(), directory.id());
}

#[test]
fn faults_name_the_line_the_column_the_value_and_what_was_expected() {
    let head = "project,department,cost_centre,valid_from,valid_to\n";
    for (text, expected) in [
        ("", "d.csv:1: header: empty, expected project,department,cost_centre,valid_from,valid_to"),
        (head, "d.csv:1: \"no entries\", expected at least one"),
        (
            "project,department,valid_from\nx",
            "d.csv:1: header: \"project,department,valid_from\", expected the column cost_centre too",
        ),
        (
            "project,project,department,cost_centre,valid_from,colour",
            "d.csv:1: header: \"project\", expected each column once\n\
          d.csv:1: header: \"colour\", expected only the columns project,department,cost_centre,valid_from,valid_to",
        ),
        ("{}a,b,c\n", "d.csv:2: \"a,b,c\", expected 5 fields, found 3"),
        ("{},b,,2026-01-01,\n", "d.csv:2: project: empty, expected a project"),
        ("{}a,,,2026-01-01,\n", "d.csv:2: department: empty, expected a department"),
        ("{}a, b,,2026-01-01,\n", "d.csv:2: department: \" b\", expected no space at either end"),
        ("{}a,b,\u{7},2026-01-01,\n", "d.csv:2: cost_centre: \"\\u{7}\", expected no control characters"),
        (
            "{}a,b,,2026-13-01,\n",
            "d.csv:2: valid_from: \"2026-13-01\", expected a date such as 2026-01-01, from 1970-01-01 to 2099-12-31",
        ),
        ("{}a,b,,,\n", "d.csv:2: valid_from: empty, expected a date such as 2026-01-01, from 1970-01-01 to 2099-12-31"),
        (
            "{}a,b,,2100-01-01,\n",
            "d.csv:2: valid_from: \"2100-01-01\", expected a date such as 2026-01-01, from 1970-01-01 to 2099-12-31",
        ),
        (
            "{}a,b,,2026-01-01,soon\n",
            "d.csv:2: valid_to: \"soon\", expected a date such as 2026-01-01, from 1970-01-01 to 2099-12-31, or nothing",
        ),
        ("{}a,b,,2026-01-02,2026-01-02\n", "d.csv:2: valid_to: \"2026-01-02\", expected a day after 2026-01-02"),
        (
            "{}a,b,,2026-01-02,\nc,b,,2026-01-02,\na,c,,2026-01-02,\n",
            "d.csv:4: valid_from: \"2026-01-02\", expected one entry of project \"a\" from that day; the first is on line 2",
        ),
        (
            "{}a,b,,2026-01-10,\na,c,,2026-01-02,2026-01-11\n",
            "d.csv:3: valid_to: \"2026-01-11\", expected a day up to 2026-01-10, from which the entry of project \"a\" on line 2 holds",
        ),
        ("{}\"a,b,,2026-01-10,\n", "d.csv:2: \"\\\"a,b,,2026-01-10,\", expected a closing quote on the same line"),
    ] {
        let said = read(&text.replace("{}", head)).unwrap_err();
        assert_eq!(said, format!("{expected}\nd.csv: nothing of it is stored"), "{text}");
    }
    // Up to the next one is no overlap.
    read(&format!("{head}a,b,,2026-01-10,\na,c,,2026-01-02,2026-01-10\n")).unwrap();
    let wrong = format!("{head}{}", "a,b,,x,\n".repeat(30));
    let said = read(&wrong).unwrap_err();
    assert!(said.contains("d.csv:21: valid_from") && said.contains("d.csv: 10 more faults"), "{said}");
    let long = read(&format!("{head}{}", "x".repeat(1 << 20))).unwrap_err();
    assert!(long.starts_with("d.csv:2: \"a longer line\", expected lines of up to 65536 bytes"), "{long}");
    assert!(parse("d.csv", &b"project,department,cost_centre,valid_from\n\xff\n"[..]).is_err());
}

#[test]
fn facts_are_cut_at_the_midnights_of_the_zone_at_which_a_department_or_a_cost_centre_changes() {
    let directory = read(
        "project,department,cost_centre,valid_from,valid_to\n\
         a,x,1,2026-01-01,\na,x,2,2026-10-10,\na,y,2,2026-10-16,2026-10-20\na,z,,2026-11-01,\nb,x,,2026-10-02,2026-10-03\n",
    )
    .unwrap();
    let dates = |zone: &str| {
        let period = Period::month("2026-10", &period::zone(zone).unwrap()).unwrap();
        directory.changes(&period).into_iter().map(|change| period.local(change)).collect::<Vec<_>>()
    };
    // On the 10th only the cost centre changes. Not where the period begins or ends.
    let days = ["02", "03", "10", "16", "20"];
    assert_eq!(dates("UTC"), days.map(|day| format!("2026-10-{day}T00:00:00+00:00")));
    assert_eq!(dates("Europe/Berlin"), days.map(|day| format!("2026-10-{day}T00:00:00+02:00")));
}

#[test]
fn what_an_owner_says_itself_and_what_is_nobodys_stays() {
    let directory = read("project,department,cost_centre,valid_from\na,x,,2026-10-16\n").unwrap();
    let period = Period::month("2026-10", &TimeZone::UTC).unwrap();
    let cut = directory.changes(&period)[0];
    let fact = |kind, department: &str, project: &str, since| Fact {
        kind,
        owner: Arc::new(Owner { department: department.into(), project: project.into(), ..Owner::of_kind(kind) }),
        from: since,
        allocated: 1,
        ..Fact::default()
    };
    let work = OwnerKind::Workload;
    let all = vec![
        fact(work, "", "a", period.from),
        fact(work, "", "a", cut),
        fact(work, "own", "a", cut),
        fact(work, "", "b", cut),
        fact(work, "", "", cut),
        fact(OwnerKind::Idle, "", "a", cut),
    ];
    let mut facts = Facts { facts: all, ..Facts::default() };
    directory.apply(&mut facts, &period);
    let departments: Vec<&str> = facts.facts.iter().map(|fact| fact.owner.department.as_str()).collect();
    assert_eq!(departments, ["", "x", "own", "", "", ""]);
    assert_eq!(facts.directory, Some(directory.id()));
}

/// Entries of one project that do not overlap: how long after the end of the one before each begins, for how long it holds,
/// whether that is said, and its department.
fn entries() -> impl Strategy<Value = Vec<(u16, u16, bool, usize)>> {
    prop::collection::vec((0u16..4, 1u16..6, any::<bool>(), 0usize..3), 1..8)
}

proptest! {
    #[test]
    fn what_holds_is_what_the_file_says_and_changes_are_where_that_changes(entries in entries()) {
        const DEPARTMENTS: [&str; 3] = ["x", "y", "z"];
        let first = read_day("2026-10-01").unwrap();
        let (mut day, mut model) = (first, vec![None; 40]);
        let mut lines = vec!["project,department,cost_centre,valid_from,valid_to".to_owned()];
        let mut open: Option<&str> = None;
        for (gap, length, told, department) in entries {
            // What has no end goes on through a gap.
            for _ in 0..gap {
                if let Some(slot) = model.get_mut(usize::from(day - first)) { *slot = open; }
                day += 1;
            }
            let until = if told { date(day + length).to_string() } else { String::new() };
            lines.push(format!("p,{},,{},{until}", DEPARTMENTS[department], date(day)));
            for _ in 0..length {
                if let Some(slot) = model.get_mut(usize::from(day - first)) { *slot = Some(DEPARTMENTS[department]); }
                day += 1;
            }
            open = (!told).then_some(DEPARTMENTS[department]);
        }
        for slot in model.iter_mut().skip(usize::from(day - first)) { *slot = open; }
        lines[1..].reverse();
        let directory = read(&lines.join("\n")).unwrap();
        let at = |day: u16| directory.at("p", day).map(|entry| entry.department.to_string());
        let period = Period::month("2026-10", &TimeZone::UTC).unwrap();
        let changes = directory.changes(&period);
        for (offset, expected) in (0..).zip(&model) {
            let found = at(first + offset);
            prop_assert_eq!(found.as_deref(), *expected, "day {}", offset);
            let midnight = period.from + i64::from(offset) * 86_400_000;
            let changed = offset > 0 && offset < 31 && model[usize::from(offset)] != model[usize::from(offset) - 1];
            prop_assert_eq!(changes.contains(&midnight), changed, "day {}", offset);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in ".{0,60}") {
        let _ = parse("d.csv", bytes.as_slice());
        let _ = read(&format!("project,department,cost_centre,valid_from,valid_to\n{text}\na,b,{text},2026-01-01,{text}"));
    }
}
