use proptest::prelude::*;

use super::*;

fn page(text: &str) -> Page<'_> {
    parse(text, Format::Prometheus).unwrap()
}

#[test]
fn a_page_is_families_and_samples() {
    let text = "# HELP a_seconds what it is\n# TYPE a_seconds histogram\n\
        a_seconds_bucket{model=\"m\",le=\"0.1\"} 3.0\na_seconds_bucket{le=\"+Inf\",model=\"m\",} 4 1700000000123\n\
        a_seconds_sum{model=\"m\"} 1.5e0\na_seconds_count{model=\"m\"} 4\n\n# a comment\n#\nb 7\n";
    let page = page(text);
    assert_eq!((page.faulty_lines, page.families.len(), page.samples.len()), (0, 2, 5));
    assert_eq!((&*page.families[0].name, page.families[0].kind), ("a_seconds", Kind::Histogram));
    assert_eq!((&*page.families[1].name, page.families[1].kind), ("b", Kind::Unknown));
    let last = &page.samples[1];
    assert_eq!((last.value, last.time_s, last.line), (4.0, Some(1_700_000_000.123), 4));
    assert_eq!(
        (page.label(last, "le"), page.label(last, "model"), page.label(last, "x")),
        (Some("+Inf"), Some("m"), None)
    );
    assert!(page.samples[..4].iter().all(|sample| sample.family == 0));
}

#[test]
fn labels_have_escapes_and_names_may_be_quoted() {
    let text = "# TYPE \"my.name\" counter\n{\"my.name\",\"a.b\"=\"1\"} 5\nx{p=\"C:\\\\d\\\"\\n\\q{,}\"} NaN\ny\t{ a = \"b\" , }\t-Inf\n";
    let page = page(text);
    assert_eq!(page.faults, []);
    assert_eq!((&*page.samples[0].name, page.label(&page.samples[0], "a.b")), ("my.name", Some("1")));
    assert_eq!(page.families[0].kind, Kind::Counter);
    assert_eq!(page.label(&page.samples[1], "p"), Some("C:\\d\"\n\\q{,}"));
    assert!(page.samples[1].value.is_nan());
    assert_eq!((page.samples[2].value, page.label(&page.samples[2], "a")), (f64::NEG_INFINITY, Some("b")));
}

#[test]
fn openmetrics_has_exemplars_seconds_created_and_an_end() {
    let text = "# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
        a_seconds_bucket{le=\"0.1\"} 3 # {trace_id=\"abc\"} 0.05 1700000000.5\na_seconds_bucket{le=\"+Inf\"} 4 1700000001.25\n\
        a_seconds_created 1.7e9\n# TYPE b counter\nb_total 5 # {} 1\n# EOF\n";
    let page = parse(text, Format::OpenMetrics).unwrap();
    assert_eq!(page.faults, []);
    assert_eq!(page.samples[1].time_s, Some(1_700_000_001.25));
    assert_eq!((page.samples[2].family, page.samples[3].family), (0, 1));
    // Without its end, or with something after it, a page is none.
    let cut = text.strip_suffix("# EOF\n").unwrap();
    assert_eq!(parse(cut, Format::OpenMetrics), Err(PageError::Cut(7)));
    assert_eq!(parse(&format!("{text}b_total 6\n"), Format::OpenMetrics), Err(PageError::AfterEnd(9)));
    // In the other format this is a comment.
    assert_eq!(parse("# EOF\na 1\n", Format::Prometheus).unwrap().samples.len(), 1);
}

#[test]
fn a_line_that_cannot_be_read_spoils_its_own_family_and_is_named() {
    let good = "# TYPE a histogram\na_bucket{le=\"1\"} 1\n# TYPE b histogram\nb_bucket{le=\"1\"} 1\n";
    for (bad, message) in [
        ("b_bucket{le=\"2\"} x\n", "line 5: the value is \"x\", expected a number, NaN, +Inf or -Inf"),
        ("b_bucket{le=\"2\" 1\n", "line 5: what follows a label is \"1\", expected a comma or a closing brace"),
        ("b_bucket{le=\"2} 1\n", "line 5: a quoted text is \"\\\"2} 1\", expected quotes around it"),
        ("b_bucket{le=2} 1\n", "line 5: a quoted text is \"2} 1\", expected quotes around it"),
        ("b_bucket{le=\"2\",le=\"3\"} 1\n", "line 5: a label is \"le\", expected each name once"),
        ("b_bucket{le=\"2\"} 1 1.5\n", "line 5: the time is \"1.5\", expected milliseconds, or seconds in OpenMetrics"),
        (
            "b_bucket{le=\"2\"} 1 1 1\n",
            "line 5: what follows the value is \"1\", expected a time, an exemplar or the end of the line",
        ),
        (
            "b_bucket{le=\"2\"} 1",
            "line 5: the last line is \"b_bucket{le=\\\"2\\\"} 1\", expected a line feed at its end: it may have been cut",
        ),
        (
            "{le=\"2\"} 1\n",
            "line 5: the name is \"{le=\\\"2\\\"} 1\", expected letters, digits, _ and :, not beginning with a digit",
        ),
        (
            "# TYPE b histogramm\n",
            "line 5: the type is \"histogramm\", expected counter, gauge, histogram, summary, untyped, unknown, info, stateset or gaugehistogram after the family's name",
        ),
        ("b_buck", "line 5: the last line is \"b_buck\", expected a line feed at its end: it may have been cut"),
    ] {
        let text = format!("{good}{bad}");
        let page = page(&text);
        assert_eq!(page.faults.iter().map(ToString::to_string).collect::<Vec<_>>(), [message], "{bad}");
        let spoiled = |name: &str| page.families.iter().find(|family| family.name == name).unwrap().spoiled;
        assert!(spoiled("b") && !spoiled("a"), "{bad}");
    }
}

#[test]
fn faults_are_bounded() {
    let text = "a x\n".repeat(1_000);
    let page = page(&text);
    assert_eq!((page.faults.len(), page.faulty_lines, page.samples.len()), (8, 1_000, 0));
}

#[test]
fn the_format_is_told_by_the_content_type() {
    assert_eq!(Format::of("application/openmetrics-text; version=1.0.0; charset=utf-8"), Format::OpenMetrics);
    assert_eq!(Format::of("text/plain; version=0.0.4"), Format::Prometheus);
    assert_eq!(Format::of(""), Format::Prometheus);
}

type Line = (String, Vec<(String, String)>, f64, Option<i64>);

fn rendered(lines: &[Line], format: Format) -> String {
    let mut text = String::new();
    for (name, labels, value, time) in lines {
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let time = match (time, format) {
            (None, _) => String::new(),
            (Some(time), Format::Prometheus) => format!(" {time}"),
            #[expect(clippy::cast_precision_loss)]
            (Some(time), Format::OpenMetrics) => format!(" {}", *time as f64 / 1e3),
        };
        text += &format!("{name}{labels} {value}{time}\n");
    }
    if format == Format::OpenMetrics {
        text += "# EOF\n";
    }
    text
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let labels = prop::collection::btree_map("[a-zA-Z_][a-zA-Z0-9_]{0,6}", any::<String>(), 0..4);
    let labels = labels.prop_map(|labels| labels.into_iter().collect::<Vec<_>>());
    let value = prop_oneof![any::<f64>().prop_filter("equal to itself", |value| !value.is_nan()), Just(f64::INFINITY)];
    let time = prop::option::of(0..4_000_000_000_000_i64);
    prop::collection::vec(("[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", labels, value, time), 0..12)
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(lines in lines(), openmetrics: bool) {
        let format = if openmetrics { Format::OpenMetrics } else { Format::Prometheus };
        let text = rendered(&lines, format);
        let page = parse(&text, format).unwrap();
        prop_assert_eq!(&page.faults, &[]);
        let read: Vec<Line> = page.samples.iter().map(|sample| {
            let labels = page.labels(sample).iter().map(|label| (label.name.to_string(), label.value.to_string()));
            #[expect(clippy::cast_possible_truncation)]
            let time = sample.time_s.map(|time| (time * 1e3).round() as i64);
            (sample.name.to_string(), labels.collect(), sample.value, time)
        }).collect();
        prop_assert_eq!(read, lines);
    }

    #[test]
    fn no_text_is_too_odd(text in any::<String>(), printable in "[a-z_#{}=\",\\\\ \n0-9.]{0,200}", openmetrics: bool) {
        let format = if openmetrics { Format::OpenMetrics } else { Format::Prometheus };
        let _ = parse(&text, format);
        let _ = parse(&printable, format);
    }
}
