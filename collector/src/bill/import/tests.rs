use contador_schemas::owner::Owner;
use proptest::prelude::*;
use uuid::Uuid;

use super::lines::LINE_MAX;
use super::parse::OWNER_COLUMNS;
use super::{HEADER, ImportError, Parsed, parse};
use crate::bill::decimal::ONE;

const GOOD: &str = "2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,n1,,H100,2,0.5,prod,research,vision,seg,ana,,job-1";

fn read(text: &str) -> Result<Parsed, String> {
    parse("a.csv", text.as_bytes(), false).map_err(|error| match error {
        ImportError::Refused(refused) => refused.to_string(),
        other => panic!("{other}"),
    })
}

fn file(lines: &[&str]) -> String {
    format!("{}\n{}\n", HEADER.join(","), lines.join("\n"))
}

fn id(parsed: &Parsed, at: usize) -> Uuid {
    parsed.allocations().nth(at).unwrap().id
}

/// A good line with one column changed.
fn with(column: &str, value: &str) -> String {
    let at = HEADER.iter().position(|name| *name == column).unwrap();
    let mut fields: Vec<&str> = GOOD.split(',').collect();
    fields[at] = value;
    fields.join(",")
}

#[test]
fn a_line_becomes_an_allocation_and_its_owner() {
    let parsed = read(&file(&[GOOD])).unwrap();
    let rows: Vec<_> = parsed.allocations().collect();
    let [row] = rows.as_slice() else { panic!() };
    assert_eq!((row.start, row.end), (1_790_812_800_000, 1_790_816_400_000));
    assert_eq!((row.gpus, i128::from(row.fraction), row.line, row.source.as_str()), (2, ONE / 2, 2, "a.csv"));
    let owner = Owner {
        environment: "prod".into(),
        department: "research".into(),
        project: "vision".into(),
        experiment: "seg".into(),
        user: "ana".into(),
        job: "job-1".into(),
        ..Owner::default()
    };
    assert_eq!(row.owner, owner.id());
    assert_eq!(parsed.owners().collect::<Vec<_>>(), [(&owner).into()]);
}

#[test]
fn the_owner_is_what_the_last_columns_say() {
    assert!(HEADER.ends_with(&OWNER_COLUMNS));
}

#[test]
fn the_same_content_has_the_same_id_however_it_is_written() {
    let plain = read(&file(&[GOOD])).unwrap();
    let epoch = with("start", "1790812800").replace("0.5", "0.500");
    let reversed: Vec<&str> = HEADER.into_iter().rev().collect();
    let turned: Vec<&str> = GOOD.split(',').rev().collect();
    for text in [
        file(&[&epoch]),
        format!("\u{feff}{}", file(&[GOOD])),
        file(&["", GOOD, ""]).replace('\n', "\r\n"),
        file(&[&GOOD.replace("research", "\"research\"")]),
        file(&[GOOD]).trim_end().to_owned(),
        format!("{}\n{}\n", reversed.join(","), turned.join(",")),
    ] {
        let other = read(&text).unwrap();
        assert_eq!(id(&other, 0), id(&plain, 0), "{text}");
        assert!(other.owners().eq(plain.owners()));
    }
    let simulated = parse("a.csv", file(&[GOOD]).as_bytes(), true).unwrap();
    assert_ne!(id(&simulated, 0), id(&plain, 0));
}

#[test]
fn equal_lines_are_as_many_allocations_and_the_same_in_every_file() {
    let two = read(&file(&[GOOD, GOOD])).unwrap();
    assert_eq!(two.allocations().len(), 2);
    assert_eq!(two.owners().len(), 1);
    assert_ne!(id(&two, 0), id(&two, 1));
    let again = read(&file(&[GOOD, &with("job", "other"), GOOD])).unwrap();
    assert_eq!(id(&again, 0), id(&two, 0));
    assert_eq!(id(&again, 2), id(&two, 1));
}

#[test]
fn a_file_without_lines_is_nothing_and_an_empty_one_is_a_fault() {
    assert!(read(&file(&[])).unwrap().allocations().len() == 0);
    for empty in ["", "\n", "\u{feff}", "\r\n\r\n"] {
        let text = read(empty).unwrap_err();
        assert!(text.starts_with("a.csv:1: header: empty, expected start,end,node,"), "{text}");
    }
}

#[test]
fn every_fault_names_its_line_its_column_its_value_and_what_was_expected() {
    let long = "x".repeat(1_025);
    for (column, value, message) in [
        ("start", "", "start: empty, expected RFC 3339 such as 2026-10-01T00:00:00Z, or whole epoch seconds"),
        ("start", "1.5", "start: \"1.5\", expected RFC 3339 such as 2026-10-01T00:00:00Z, or whole epoch seconds"),
        (
            "start",
            "2026-10-01",
            "start: \"2026-10-01\", expected RFC 3339 such as 2026-10-01T00:00:00Z, or whole epoch seconds",
        ),
        ("start", "1790812800000", "start: \"1790812800000\", expected a time from 1970 to 2100"),
        (
            "end",
            "2026-10-01T00:00:00Z",
            "end: \"2026-10-01T00:00:00Z\", expected a time after the start 2026-10-01T00:00:00Z",
        ),
        (
            "end",
            "2026-09-30T00:00:00Z",
            "end: \"2026-09-30T00:00:00Z\", expected a time after the start 2026-10-01T00:00:00Z",
        ),
        (
            "end",
            "2026-10-01T00:00:00.0001Z",
            "end: \"2026-10-01T00:00:00.0001Z\", expected at most 3 digits of a second",
        ),
        ("gpus", "0", "gpus: \"0\", expected a whole number from 1 to 1000000"),
        ("gpus", "-1", "gpus: \"-1\", expected a whole number from 1 to 1000000"),
        ("gpus", "1.5", "gpus: \"1.5\", expected a whole number from 1 to 1000000"),
        ("gpus", "4294967297", "gpus: \"4294967297\", expected a whole number from 1 to 1000000"),
        ("fraction", "0", "fraction: \"0\", expected a decimal above 0 and up to 1"),
        ("fraction", "0.000", "fraction: \"0.000\", expected a decimal above 0 and up to 1"),
        ("fraction", "1.000000000001", "fraction: \"1.000000000001\", expected a decimal above 0 and up to 1"),
        ("fraction", "0.1234567890123", "fraction: \"0.1234567890123\", expected at most 12 digits after the point"),
        ("fraction", "5e-1", "fraction: \"5e-1\", expected a decimal such as 0.25, without sign or exponent"),
        ("fraction", "", "fraction: empty, expected a decimal such as 0.25, without sign or exponent"),
        ("department", " research", "department: \" research\", expected no space at either end"),
        ("user", "a\tb", "user: \"a\\tb\", expected no control characters"),
        ("job", &long, &format!("job: {:?}, expected up to 1024 bytes", "x".repeat(80))),
    ] {
        let text = read(&file(&[GOOD, &with(column, value)])).unwrap_err();
        assert_eq!(text, format!("a.csv:3: {message}\na.csv: nothing of it is stored"));
    }
}

#[test]
fn lines_that_are_no_csv_are_faults_too() {
    for (line, message) in [
        ("a,b", "a.csv:2: \"a,b\", expected 14 fields, found 2"),
        ("\"a", "a.csv:2: \"\\\"a\", expected a closing quote on the same line"),
    ] {
        let text = read(&file(&[line])).unwrap_err();
        assert!(text.starts_with(message), "{text}");
    }
    let mut bytes = file(&[GOOD]).into_bytes();
    bytes.extend_from_slice(b"\xff\xfe\n");
    let error = parse("a.csv", bytes.as_slice(), false).unwrap_err().to_string();
    assert!(error.starts_with("a.csv:3: \"\u{fffd}\u{fffd}\", expected UTF-8"), "{error}");
    let endless = file(&[&"x".repeat(LINE_MAX + 1)]);
    let error = read(&endless).unwrap_err();
    assert!(error.starts_with("a.csv:2: \"a longer line\", expected lines of up to 65536 bytes"), "{error}");
}

#[test]
fn a_wrong_header_is_told_by_its_columns() {
    let text = read(&file(&[GOOD]).replacen("gpu_model", "gpu_modle", 1)).unwrap_err();
    assert!(text.contains("a.csv:1: header: \"gpu_modle\", expected only the columns start,end,"), "{text}");
    assert!(text.contains("did you mean gpu_model?"), "{text}");
    assert!(text.contains("expected the column gpu_model too"), "{text}");
    let text = read(&file(&[GOOD]).replacen("end", "start", 1)).unwrap_err();
    assert!(text.contains("a.csv:1: header: \"start\", expected each column once"), "{text}");
    let text = read(&format!("{}\n", HEADER[..13].join(","))).unwrap_err();
    assert!(text.contains("expected the column job too"), "{text}");
}

#[test]
fn faults_are_told_in_order_and_the_rest_counted() {
    let bad = with("gpus", "none");
    let lines: Vec<&str> = std::iter::repeat_n(bad.as_str(), 30).collect();
    let text = read(&file(&lines)).unwrap_err();
    assert!(text.contains("a.csv:2: gpus") && text.contains("a.csv:21: gpus") && !text.contains("a.csv:22:"), "{text}");
    assert!(text.ends_with("a.csv: 10 more faults\na.csv: nothing of it is stored"), "{text}");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse("a.csv", bytes.as_slice(), false);
        let mut after = file(&[]).into_bytes();
        after.extend(bytes);
        let _ = parse("a.csv", after.as_slice(), false);
    }
}
