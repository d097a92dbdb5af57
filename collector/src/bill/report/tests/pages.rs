//! Pages, as people get them: that they are safe, whole and small, and that what is shown adds up.

use super::*;
use contador_schemas::rows::Invoice;

use crate::bill::adjust::{Claim, Kind};
use crate::bill::commitments::{Budget, Commitment, Slot};
use crate::bill::prices::{Percentage, Policy, Spread};
use crate::bill::rate::{Category, Payer};
use crate::bill::report::view::{Outlook, Scopes};
use crate::bill::settle::Line;
use crate::bill::statement::Statement;

const DAY_MS: i64 = 86_400_000;
const HOUR: i128 = 3_600_000 * ONE;

fn statement_of(facts: Vec<Fact>, book: PriceBook, agreements: Agreements, month: &str) -> Statement {
    let facts = Facts { facts, ..Facts::default() };
    statement::of_facts(&facts, &Period::month(month, &TimeZone::UTC).unwrap(), book, agreements)
}

fn page_of(statement: Statement) -> Report {
    Report::new(statement, Dimension::Department, None)
}

fn names(names: &[String], hours: i128) -> Vec<Fact> {
    let of = |name: &String| Fact {
        owner: Arc::new(Owner {
            department: name.clone(),
            project: name.clone(),
            job: name.clone(),
            ..Owner::default()
        }),
        ..fact((0, 1, 1, 0, 0))
    };
    names.iter().map(|name| Fact { allocated: hours * HOUR, ..of(name) }).collect()
}

fn percentage(name: &str, percent: i128) -> Percentage {
    Percentage { name: name.into(), percent: percent * ONE, departments: [].into(), valid_from: 0, valid_to: None }
}

/// The cells of a row that are numbers.
type Row = Vec<Option<BigInt>>;

/// The cells of the rows of a table's body and of its foot.
fn numbers(table: &str) -> (Vec<Row>, Option<Row>) {
    let cell = |cell: &str| {
        let text = cell.split_once('>').unwrap().1.split("</td>").next().unwrap();
        let text = text.split('<').next().unwrap().replace([',', '.'], "").replace('−', "-");
        text.parse::<BigInt>().ok()
    };
    let row = |row: &str| -> Row { row.split("<td").skip(1).map(cell).collect() };
    let (body, foot) = table.split_once("<tfoot>").unwrap_or((table, ""));
    // Of rows in rows, the outer ones alone.
    let is_outer = |row: &&str| !row.contains("class=\"l1") && !row.contains("class=\"l2");
    let body = body.split_once("<tbody>").unwrap().1;
    let rows = body.split("<tr").skip(1).filter(is_outer).map(row).collect();
    (rows, (!foot.is_empty()).then(|| row(foot)))
}

/// That each column of amounts of each table sums to its foot.
fn adds_up(html: &str) -> usize {
    let mut tables = 0;
    for table in html.split("<table").skip(1).map(|table| table.split("</table>").next().unwrap()) {
        let (rows, Some(foot)) = numbers(table) else { continue };
        tables += 1;
        for (column, sum) in foot.iter().enumerate() {
            let Some(sum) = sum else { continue };
            let of_rows: BigInt = rows.iter().filter_map(|row| row[column].as_ref()).sum();
            assert_eq!(&of_rows, sum, "column {column} of {table}");
        }
    }
    tables
}

/// The amount that a row of a page has in its first cell.
fn amount<'a>(html: &'a str, row: &str) -> &'a str {
    let cells = html.split_once(&format!(">{row}</th>")).unwrap_or_else(|| panic!("no row {row}")).1;
    cells.split_once("<td").unwrap().1.split_once('>').unwrap().1.split('<').next().unwrap()
}

#[test]
fn what_labels_say_is_text_and_nothing_else() {
    let evil = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "</style><script>",
        "&lt;b&gt;",
        "' onload='x",
    ];
    let facts = names(&evil.map(str::to_owned), 3);
    let book = PriceBook { issuer: "<script>issuer</script>".into(), ..PriceBook::flat(ONE, "EUR") };
    let statement = statement_of(facts, book, Agreements::default(), "2026-10");
    for department in [None, Some(evil[0].to_owned()), Some("<i>nobody</i>".to_owned())] {
        let report = Report::new(statement.clone(), Dimension::Department, department);
        for html in [report.to_html(Lang::En, false), report.to_html(Lang::Es, true)] {
            for tag in ["<script", "<img", "<i>", "onerror=alert(1)>", "onload='x"] {
                let in_text = html.replace("&lt;img src=x onerror=alert(1)&gt;", "").replace("' onload='x", "");
                assert!(!in_text.contains(tag), "{tag}");
            }
            assert_eq!(html.matches("</style>").count(), 1);
            assert!(html.contains("&lt;script&gt;issuer&lt;/script&gt;"));
        }
    }
}

#[test]
fn a_page_has_everything_in_it() {
    let html =
        page_of(statement_of(names(&["a".into()], 1), PriceBook::flat(ONE, "EUR"), Agreements::default(), "2026-10"))
            .to_html(Lang::Es, false);
    for reference in ["http://", "https://", " src=", "url(", "@import", "<link", "<script"] {
        assert!(!html.contains(reference), "{reference}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(html.starts_with("<!DOCTYPE html><html lang=\"es\">"));
    assert!(html.contains("octubre de 2026"));
}

#[test]
fn what_is_shown_adds_up_with_everything_that_a_bill_can_have() {
    let mut book = PriceBook::flat(7 * ONE / 3, "EUR");
    book.decimals = 2;
    book.markups = vec![percentage("operations", 7)];
    book.taxes = vec![percentage("VAT", 21)];
    book.policy = Policy { idle: Spread::Even, ..Policy::default() };
    let commitment = Commitment {
        id: "c".into(),
        department: "research".into(),
        gpu_model: "H100".into(),
        mig_profile: None,
        gpus: 1,
        hourly: ONE / 3,
        from: 0,
        to: None,
        slot: Slot::Hour,
    };
    let budgets = vec![Budget { department: "research".into(), from_month: "2026-01".into(), monthly: 100 * ONE }];
    let agreements = Agreements { currency: "EUR".into(), commitments: vec![commitment], budgets };
    let mut facts: Vec<Fact> = (0..40).map(|at| fact((at % 8, at % 4, at % 3, at % 3, 0))).collect();
    for (at, fact) in (1_i128..).zip(&mut facts) {
        fact.allocated = at * HOUR / 7;
        fact.busy = at * HOUR / 11;
        fact.to = fact.from + 3_600_000;
    }
    let mut statement = statement_of(facts, book, agreements, "2026-10");
    let owner = Arc::new(Owner { department: "support".into(), ..Owner::default() });
    let payer = Payer { kind: OwnerKind::Workload, department: "support".into() };
    let credit = Millionths(BigInt::from(-5_555_555));
    let key = Key { payer, category: Category::Credit, owner, item: "an outage".into(), ..Key::default() };
    statement
        .lines
        .push(Line { key, amounts: Amounts { cost: credit.clone(), effective: credit, ..Amounts::default() } });
    statement.lines.sort_by(|one, other| one.key.cmp(&other.key));
    let report = page_of(statement);
    let html = report.to_html(Lang::En, false);
    // Departments, categories, models and efficiency; each of four departments has a summary and its charges.
    assert!(adds_up(&html) >= 8, "{}", adds_up(&html));
    assert_eq!(amount(&html, "Difference"), "0.00");
    assert_eq!(amount(&html, "an outage"), "");
    assert!(html.contains("Credits") && html.contains("−5.5"), "a credit is shown as less than nothing");
    // What is billed and what it costs effectively are the same in sum.
    let of_commitments: BigInt = report.statement.lines.iter().map(|line| &line.amounts.effective.0).sum();
    assert_eq!(of_commitments, report.total.cost.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_table_of_any_bill_adds_up_as_it_is_shown(facts in facts(), prices in prices(), decimals in 0u8..=6) {
        let report = report(&facts, &PriceBook { decimals, ..prices }, Dimension::Department, None);
        adds_up(&report.to_html(Lang::En, false));
        adds_up(&report.to_html(Lang::En, true));
    }
}

#[test]
fn a_thousand_departments_make_a_page_that_a_browser_opens() {
    let thousand: Vec<String> = (0..1_000).map(|number| format!("department-{number:04}")).collect();
    let statement = statement_of(names(&thousand, 1), PriceBook::flat(ONE, "EUR"), Agreements::default(), "2026-10");
    let report = page_of(statement);
    let html = report.to_html(Lang::En, false);
    assert!(html.len() < 400_000, "{}", html.len());
    assert!(html.contains("… and 970 more"));
    adds_up(&html);
    let whole = report.to_html(Lang::En, true);
    assert!(!whole.contains(" more</th>"));
    assert_eq!(whole.matches("<section class=\"department\"").count(), 1_000);
    adds_up(&whole);
}

#[test]
fn nothing_and_one_line_are_pages_too() {
    let empty = page_of(statement_of(Vec::new(), PriceBook::flat(ONE, "EUR"), Agreements::default(), "2026-10"));
    let html = empty.to_html(Lang::En, false);
    assert!(html.contains("nothing was metered or imported in this period") && !html.contains("<table"));
    let only = Report::new(empty.statement.clone(), Dimension::Department, Some("a".into()));
    assert!(only.to_html(Lang::Es, false).contains("En este periodo no se cargó nada."));
    let one =
        page_of(statement_of(names(&["a".into()], 2), PriceBook::flat(ONE, "XXX"), Agreements::default(), "2026-10"));
    let html = one.to_html(Lang::Es, false);
    assert_eq!(amount(&html, "Total de la factura"), "2,000000");
    // What has no name is said once, and not at each level.
    assert!(!html.contains("XXX</small>"));
}

#[test]
fn what_has_no_price_is_not_shown_as_free() {
    let statement = statement_of(
        names(&["a".into()], 2),
        PriceBook::new("EUR").with("L4", 0, ONE),
        Agreements::default(),
        "2026-10",
    );
    let html = page_of(statement).to_html(Lang::En, false);
    assert!(html.contains("<span class=\"badge warn\">unpriced</span>"));
    assert!(html.contains("unpriced: 2.000000 GPU-hours of H100 have no price"));
}

#[test]
fn a_month_in_progress_is_forecast_with_its_taxes_and_a_closed_one_is_not() {
    // 24 GPU-hours a day at 1.00 and 10 % on top, in all of September and until the 15th of October.
    let days = |from: i64, count: i64| -> Vec<Fact> {
        let day = |at: i64| Fact {
            from: from + at * DAY_MS,
            to: from + (at + 1) * DAY_MS,
            allocated: 24 * HOUR,
            ..fact((0, 1, 1, 0, 0))
        };
        (0..count).map(day).collect()
    };
    let mut book = PriceBook::flat(ONE, "EUR");
    book.decimals = 2;
    book.taxes = vec![percentage("VAT", 10)];
    let budgets = vec![
        Budget { department: String::new(), from_month: "2026-01".into(), monthly: 700 * ONE },
        Budget { department: "idle-one".into(), from_month: "2026-01".into(), monthly: 5 * ONE },
    ];
    let agreements = Agreements { currency: "EUR".into(), commitments: Vec::new(), budgets };
    let last = statement_of(days(OCTOBER - 30 * DAY_MS, 30), book.clone(), agreements.clone(), "2026-09");
    let statement = statement_of(days(OCTOBER, 15), book, agreements, "2026-10");
    let beside = Beside { last: Some(last), now: Some(OCTOBER + 15 * DAY_MS), ..Beside::default() };
    let report = page_of(statement.clone()).beside(beside.clone());
    let scopes = Scopes::of(&report);
    let Outlook::Expected { forecast, path } = &scopes.fleet.outlook else { panic!("{:?}", scopes.fleet.outlook) };
    // 31 days of 26.40.
    let text = [&forecast.low, &forecast.point, &forecast.high].map(ToString::to_string);
    assert_eq!(text, ["818.400000", "818.400000", "818.400000"]);
    assert_eq!(path.last().unwrap().to_string(), "396.000000");
    assert_eq!(scopes.fleet.last.as_ref().unwrap().to_string(), "792.000000");
    assert_eq!(scopes.fleet.budget.as_ref().unwrap().to_string(), "700.000000");
    // One that has a budget and no use is there, with nothing.
    let idle = scopes.departments().find(|scope| scope.department() == "idle-one").unwrap();
    assert!(idle.total.cost.is_zero() && idle.budget.is_some());
    let html = report.to_html(Lang::En, false);
    assert!(html.contains("Draft, month in progress") && html.contains("818.40"));
    let table = report.to_table(80);
    assert!(table.contains("forecast 818.400000, from 818.400000 to 818.400000 with 80 %, by 45 days"), "{table}");
    let json = report.to_json();
    assert_eq!(json["overview"]["forecast"]["cost"], "818.400000");
    // Once it is over, nothing is expected of it, and it does not say when it was asked for.
    let mut closed = statement;
    closed.standing.invoice = Some(Invoice { number: 7, hash: "ab".repeat(32), ..Invoice::default() });
    let claim = |kind| Claim { kind, reason: "job 4711".into(), at: 0, who: "ana@x".into() };
    closed.standing.claims = [("research".into(), claim(Kind::Dispute)), ("search".into(), claim(Kind::Accept))].into();
    let of = |department: &str| {
        let html = Report::new(closed.clone(), Dimension::Department, Some(department.into())).to_html(Lang::Es, false);
        (
            html.contains("En disputa</span> n.º 7"),
            html.contains("en disputa por research (1970-01-01T00:00:00Z, ana@x): job 4711"),
        )
    };
    assert_eq!((of("research"), of("search"), of("support")), ((true, true), (false, false), (false, false)));
    let over = page_of(closed).beside(Beside { now: None, ..beside });
    assert_eq!(
        over.to_json()["status"],
        serde_json::json!({ "state": "closed", "number": 7, "hash": "ab".repeat(32) })
    );
    assert_eq!(over.to_json()["overview"]["forecast"]["state"], "over");
    let html = over.to_html(Lang::En, false);
    assert!(
        html.contains("Total charged")
            && html.contains("Closed</span> No. 7")
            && html.contains(&"ab".repeat(32))
            && !html.contains("Forecast")
    );
    // 396.00 against 792.00.
    assert!(html.contains("−50.0%"));
}

#[test]
fn groups_in_groups_sum_to_their_group() {
    let facts: Vec<Fact> =
        (0..8).flat_map(|kind| (0..3).map(move |project| fact((kind, 1 + kind % 2, project, 0, 0)))).collect();
    let facts = facts.into_iter().map(|fact| Fact { allocated: HOUR, ..fact }).collect();
    let statement = statement_of(facts, PriceBook::flat(ONE, "EUR"), Agreements::default(), "2026-10");
    let by = |then: &[Dimension]| Report::of(statement.clone(), Dimension::Department, then.to_vec(), None);
    let report = by(&[Dimension::Project, Dimension::GpuModel]);
    let id = &report.statement.book.id()[..12];
    insta::assert_snapshot!("nested_table", report.to_table(80).replace(id, "123456789abc"));
    insta::assert_snapshot!("nested_csv", report.to_csv().unwrap());
    assert_eq!(report.key(&report.groups[0]), "research / (none) / H100");
    assert_eq!(report.to_json()["groups"][1]["values"]["project"], "ranking");
    let one = by(&[]);
    assert_eq!(one.total, report.total);
    let sum: Amounts = report.groups.iter().filter(|group| group.value == "search").map(|group| &group.amounts).sum();
    assert_eq!(sum, one.groups.iter().find(|group| group.value == "search").unwrap().amounts);
}

#[test]
fn lines_in_full_sum_to_the_total() {
    let facts = names(&["a,\"b\"".into(), "c".into()], 5);
    let report = page_of(statement_of(facts, PriceBook::flat(ONE / 3, "EUR"), Agreements::default(), "2026-10"));
    let text = report.to_csv_of_lines().unwrap();
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let column = headers.iter().position(|name| name == "cost").unwrap();
    let costs: Vec<String> = reader.records().map(|record| record.unwrap()[column].to_owned()).collect();
    assert_eq!(costs, ["1.666667", "1.666666"]);
    assert_eq!(report.total.cost.to_string(), "3.333333");
    let json = report.to_json_with_lines();
    assert_eq!(json["lines"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&json["lines"][0]["department"], &json["lines"][0]["unit_price"]),
        (&"a,\"b\"".into(), &"0.333333333333".into())
    );
    assert!(json["lines"][0]["experiment"].is_null());
}

/// Relative luminance of a colour such as `#1b2430`, by the Web Content Accessibility Guidelines.
fn luminance(colour: &str) -> f64 {
    let digits: String = match colour.len() {
        4 => colour.chars().skip(1).flat_map(|digit| [digit, digit]).collect(),
        _ => colour[1..].to_owned(),
    };
    let part = |at: usize| {
        let part = f64::from(u8::from_str_radix(&digits[at..at + 2], 16).unwrap()) / 255.0;
        if part <= 0.03928 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
}

#[test]
fn text_and_charts_stand_out_from_the_paper_by_day_and_night() {
    let style = include_str!("../html/style.css");
    let palettes: Vec<&str> = style.split(":root{").skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
    for palette in &palettes[..2] {
        let of = |name: &str| palette.split_once(&format!("--{name}:")).unwrap().1.split([';', '}']).next().unwrap();
        let contrast = |one: &str, other: &str| {
            let (one, other) = (luminance(of(one)), luminance(of(other)));
            (one.max(other) + 0.05) / (one.min(other) + 0.05)
        };
        // Level AA: 4.5 for text, 3 for what a chart is made of.
        for name in ["ink", "soft", "link", "bad"] {
            assert!(contrast(name, "paper") >= 4.5 && contrast(name, "faint") >= 4.5, "{name}");
        }
        assert!(contrast("good", "good-back") >= 4.5 && contrast("warn", "warn-back") >= 4.5);
        for name in ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "rest", "band"] {
            assert!(contrast(name, "paper") >= 3.0, "{name}: {}", contrast(name, "paper"));
        }
    }
}
