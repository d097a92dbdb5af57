//! What clients send, and what is made of it.

use proptest::prelude::*;

use super::*;

fn cells(values: &[f64], unit: Unit) -> Vec<(f64, f64, u64)> {
    let recorded = record(values, unit).unwrap();
    recorded.cells.as_slice().iter().map(|cell| (cell.lo, cell.hi, cell.n)).collect()
}

#[test]
fn whole_microseconds_have_the_cells_of_three_digits_and_parts_of_one_are_inside() {
    assert_eq!(
        cells(&[0.0, 1.0, 1.0, 250_000.0], Unit::Microseconds),
        [(0.0, 0.0, 1), (1.0, 1.0, 2), (249_984.0, 250_111.0, 1)]
    );
    let below = |value: f64| value.next_down();
    assert_eq!(
        cells(&[0.25, 1.0, 1.5, 2.0], Unit::Microseconds),
        [(0.0, below(1.0), 1), (1.0, below(2.0), 2), (2.0, 2.0, 1)]
    );
    assert_eq!(cells(&[300.0, 1_000.0, 1_999.0], Unit::Nanoseconds), [(0.0, below(1.0), 1), (1.0, below(2.0), 2)]);
}

#[test]
fn a_decimal_fraction_of_a_unit_is_the_whole_microseconds_that_it_says() {
    // As floats, 1.005 × 1000 is 1004.9999999999999 and 0.000003 × 1000000 is 3.0000000000000004 or so.
    for (value, unit, us) in [
        (1.005, Unit::Milliseconds, 1_005.0),
        (0.000_003, Unit::Seconds, 3.0),
        (2.303, Unit::Seconds, 2_303_000.0),
        (4.35, Unit::Milliseconds, 4_350.0),
    ] {
        let recorded = record(&[value], unit).unwrap();
        assert_eq!(recorded.sum_us, us);
        let cell = recorded.cells.as_slice()[0];
        assert!(cell.lo <= us && us <= cell.hi && cell.hi == cell.hi.trunc(), "{cell:?}");
        assert_eq!(aborted(&[value], unit).unwrap().as_slice()[0].lo, us);
    }
    for us in 1_u32..20_000 {
        let recorded = record(&[f64::from(us) / 1e3], Unit::Milliseconds).unwrap();
        assert_eq!(recorded.sum_us, f64::from(us));
    }
}

#[test]
fn what_is_no_latency_is_named_and_nothing_is_kept() {
    for (value, unit) in [
        (-1.0, Unit::Microseconds),
        (f64::NAN, Unit::Microseconds),
        (f64::INFINITY, Unit::Seconds),
        (9_007_199_254_740_994.0, Unit::Microseconds),
        (9_007_199_255.0, Unit::Seconds),
        (-1e-9, Unit::Milliseconds),
    ] {
        let error = record(&[5.0, value], unit).unwrap_err().to_string();
        assert_eq!(error, format!("values[1] is {value}, expected a number from 0 to 9007199254740992 microseconds"));
        assert!(aborted(&[5.0, 6.0, value], unit).unwrap_err().to_string().starts_with("aborted[2] is"));
    }
    assert_eq!(cells(&[9_007_199_254_740_992.0, -0.0], Unit::Microseconds).len(), 2);
    assert!(cells(&[], Unit::Microseconds).is_empty());
}

#[test]
fn aborted_requests_keep_their_times_exactly() {
    let open = |cells: &Cells| cells.as_slice().iter().map(|cell| (cell.lo, cell.hi, cell.n)).collect::<Vec<_>>();
    let kept = aborted(&[12.5, 3.0, 12.5], Unit::Microseconds).unwrap();
    assert_eq!(open(&kept), [(3.0, f64::INFINITY, 1), (12.5, f64::INFINITY, 2)]);
    // Many requests that were all cut off by one timeout are one cell; 0 has one edge, whatever its sign.
    let kept = aborted(&[vec![30e6; 100_000], vec![0.0, -0.0]].concat(), Unit::Microseconds).unwrap();
    assert_eq!(open(&kept), [(0.0, f64::INFINITY, 2), (30e6, f64::INFINITY, 100_000)]);
    // Too many different ones: each is at or above its edge, and nearer than a thousandth.
    let many: Vec<f64> = (0..5_000).map(|index| 1e6 + f64::from(index)).collect();
    let kept = aborted(&many, Unit::Microseconds).unwrap();
    assert!(kept.as_slice().len() < 30 && kept.count() == 5_000);
    assert!(kept.as_slice().iter().all(|cell| cell.lo > 999_000.0 && cell.lo <= 1_005_000.0));
}

#[test]
fn json_has_its_keys_in_any_order() {
    let mut params = Params::default();
    let body =
        br#"{"aborted":[9],"service":"s","values":[1, 2.5, 0, 1e3],"unit":"ms","label.tier":"gold","end":1790000000.25,
                    "start":1789999990,"requests":4,"simulated":true}"#;
    let values = json(body, &mut params).unwrap();
    assert_eq!(values, Values { values: vec![1.0, 2.5, 0.0, 1_000.0], aborted: Some(vec![9.0]) });
    assert_eq!((params.service.as_str(), params.unit, params.requests), ("s", Unit::Milliseconds, Some(4)));
    assert_eq!((params.end.as_deref(), params.start.as_deref()), (Some("1790000000.25"), Some("1789999990")));
    assert!(params.simulated && params.labels == [("tier".to_owned(), "gold".to_owned())]);
    let mut params = Params::default();
    assert_eq!(json(br#"{"aborted": 5}"#, &mut params).unwrap(), Values::default());
    assert_eq!(params.aborted, Some(5));
}

#[test]
fn json_that_is_no_push_is_refused_with_its_place() {
    for (body, expected) in [
        (r#"{"values":[1,NaN]}"#, "values[1]: expected value at line 1 column"),
        (r#"{"values":[1,2,null]}"#, "values[2]: invalid type: null, expected f64"),
        (r#"{"values":[1,"2"]}"#, r#"values[1]: invalid type: string "2""#),
        (r#"{"values":[1e999]}"#, "values[0]: number out of range"),
        (r#"{"values":[1],"values":[2]}"#, "values is there twice"),
        (r#"{"values":7}"#, r#"values is "7", expected a list of numbers"#),
        (r#"{"aborted":[1],"aborted":2}"#, "aborted is there twice"),
        (r#"{"service":["a"]}"#, r#""service" is a list, expected text"#),
        (r#"{"service":{}}"#, "invalid type: map, expected text, a number"),
        (r#"{"colour":"red"}"#, r#"the key "colour" is not known"#),
        (r#"{"values":[1]"#, "EOF while parsing"),
        (r#"{"values":[1]} x"#, "trailing characters"),
        ("[1,2]", "expected an object with a list of numbers called values"),
        ("", "EOF while parsing"),
    ] {
        let error = json(body.as_bytes(), &mut Params::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{body}: {error}");
    }
    let mut given = Params::default();
    given.set("service", "a").unwrap();
    let error = json(br#"{"service":"b"}"#, &mut given).unwrap_err().to_string();
    assert!(error.contains(r#""service" is there twice"#), "{error}");
}

#[test]
fn a_number_a_line() {
    assert_eq!(lines(b"1\n 2.5 \r\n\n3e2\n").unwrap(), [1.0, 2.5, 300.0]);
    assert_eq!(lines(b"").unwrap(), [0.0; 0]);
    assert_eq!(lines(b"1\n\nx\n").unwrap_err().to_string(), r#"line 3 is "x", expected a number"#);
    // A number that is no latency is named by its line, too.
    let body = b"1\r\n\n-3\n";
    let error = record(&lines(body).unwrap(), Unit::Microseconds).unwrap_err().of_lines(body).to_string();
    assert_eq!(error, "line 3 is -3, expected a number from 0 to 9007199254740992 microseconds");
    let error = lines("ñ".repeat(5_000).as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("line 1 is") && error.len() < 200, "{error}");
    assert!(lines(b"1\n\xff").unwrap_err().to_string().starts_with("the body is no UTF-8 at byte 2"));
}

proptest! {
    #[test]
    fn times_of_aborted_requests_are_those_that_were_sent(us in prop::collection::vec(0_u32..200, 0..300)) {
        let values: Vec<f64> = us.iter().map(|us| f64::from(*us) / 8.0).collect();
        let each = values.iter().map(|us| Cell { lo: *us, hi: f64::INFINITY, n: 1 });
        prop_assert_eq!(aborted(&values, Unit::Microseconds).unwrap(), Cells::new(each).unwrap());
    }

    #[test]
    fn every_value_is_in_its_cell_and_the_sum_is_theirs(
        mut ns in prop::collection::vec(prop_oneof![0_u64..5_000, 0_u64..1 << 50], 0..300),
        whole: bool,
    ) {
        if whole {
            for value in &mut ns {
                *value -= *value % 1_000;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "50 bits")]
        let values: Vec<f64> = ns.iter().map(|value| *value as f64).collect();
        let recorded = record(&values, Unit::Nanoseconds).unwrap();
        ns.sort_unstable();
        let mut sorted = ns.iter();
        for cell in recorded.cells.as_slice() {
            for value in sorted.by_ref().take(usize::try_from(cell.n).unwrap()) {
                #[expect(clippy::cast_precision_loss, reason = "50 bits")]
                let us = *value as f64 / 1e3;
                prop_assert!(cell.lo <= us && us <= cell.hi, "{us} {cell:?}");
            }
            prop_assert!(cell.hi - cell.lo <= (cell.lo / 1_000.0).max(1.0));
        }
        prop_assert_eq!(sorted.next(), None);
        prop_assert!(recorded.cells.as_slice().windows(2).all(|pair| pair[0].hi < pair[1].lo));
        // The exact sum in whole nanoseconds, rounded once.
        let sum: u128 = ns.iter().map(|value| u128::from(*value)).sum();
        #[expect(clippy::cast_precision_loss, reason = "what a float can tell of it")]
        let expected = sum as f64 / 1e3;
        prop_assert!((recorded.sum_us - expected).abs() <= expected * 2.0 * f64::EPSILON + 1e-9);
    }

    #[test]
    fn any_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..80), text in "[\\[\\]{}\":,a-z0-9.eE+-]{0,60}") {
        for body in [body.as_slice(), text.as_bytes()] {
            let _ = lines(body);
            let _ = json(body, &mut Params::default());
        }
    }
}
