use proptest::prelude::*;

use super::file::parse;
use super::*;
use crate::bill::decimal::ONE;

const AGREED: &str = r#"
currency = "EUR"
time_zone = "Europe/Berlin"

[[commitment]]
id = "b"
department = "research"
gpu_model = "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
gpus = 4
hourly = "2.06"
from = 2026-10-01
to = 2026-11-01
slot = "minute"

[[commitment]]
id = "a"
department = "search"
gpu_model = "NVIDIA L4"
gpus = 1
hourly = "0.47"
from = 2026-10-01T00:00:00Z

[[budget]]
department = "research"
from_month = "2026-10"
monthly = "14000"

[[budget]]
from_month = "2026-01"
monthly = "25000"
"#;

#[test]
fn agreements_are_read() {
    let agreements = parse("c.toml", AGREED).unwrap();
    let [l4, h100] = agreements.commitments.as_slice() else { panic!("{agreements:?}") };
    assert_eq!((l4.id.as_str(), l4.from, l4.to, l4.slot), ("a", 1_790_812_800, None, Slot::Hour));
    // A Berlin October has 745 hours.
    assert_eq!((h100.from, h100.to), (1_790_805_600, Some(1_790_805_600 + 745 * 3_600)));
    assert_eq!((h100.gpu_model.as_str(), h100.mig_profile.as_deref()), ("NVIDIA H100 80GB HBM3", Some("3g.40gb")));
    assert_eq!((h100.gpus, h100.hourly, h100.slot), (4, 206 * ONE / 100, Slot::Minute));
    assert_eq!(agreements.budget("", "2026-12").unwrap().monthly, 25_000 * ONE);
    assert_eq!(agreements.budget("research", "2026-09"), None);
    let text = include_str!("../../../../deploy/commitments.example.toml");
    assert_eq!(parse("example", text).unwrap().commitments.len(), 2);
    assert_eq!(parse("none", "currency = \"EUR\"").unwrap().commitments, []);
}

#[test]
fn faults_name_the_line_the_value_and_what_was_expected() {
    for (from, to, message) in [
        (
            "id = \"a\"",
            "id = \"b\"",
            "c.toml:16: id: \"b\", expected an id of its own; the commitment on line 5 has it",
        ),
        ("id = \"a\"", "", "c.toml:15: commitment: without id, expected what it is called"),
        ("gpus = 4", "gpus = 0", "c.toml:9: gpus: 0, expected a whole number from 1 to 1000000"),
        (
            "to = 2026-11-01",
            "to = 2026-10-01",
            "c.toml:12: to: 2026-10-01, expected a time after from, at which it ends",
        ),
        (
            "from = 2026-10-01\n",
            "",
            "c.toml:5: commitment: without from, expected a date such as 2026-01-01, from which it holds",
        ),
        (
            "slot = \"minute\"",
            "slot = \"minutes\"",
            "c.toml:13: slot: \"minutes\", expected \"hour\", \"minute\"; did you mean minute?",
        ),
        ("\"NVIDIA L4\"", "\"*\"", "c.toml:18: gpu_model: \"*\", expected the driver's whole name of a model"),
        (
            "\"2026-10\"",
            "\"2026-13\"",
            "c.toml:25: from_month: \"2026-13\", expected a month such as \"2026-10\", from 1970-01 to 2099-12",
        ),
        (
            "\"14000\"",
            "14000",
            "c.toml:26: monthly: 14000, expected a decimal in quotes such as \"2.50\", since a TOML number is not exact",
        ),
        (
            "2026-01\"",
            "2026-10\"\ndepartment = \"research\"",
            "c.toml:28: budget: a second one of research from the same month; the first is on line 23",
        ),
    ] {
        let text = AGREED.replacen(from, to, 1);
        assert_ne!(text, AGREED, "{from}");
        assert_eq!(parse("c.toml", &text).unwrap_err().to_string(), message);
    }
}

fn agreements() -> impl Strategy<Value = Agreements> {
    let amount = 0..1_000_000 * ONE;
    let profile = prop::option::of(Just("1g.10gb".to_owned()));
    let span = (0..4_000_000_000u32, prop::option::of(1..1_000_000u32));
    let commitment = ("[a-c\"\\\\]{1,4}", "[a-c]{1,3}", profile, 1..=1_000_000u32, amount.clone(), span, any::<bool>());
    let commitments = prop::collection::btree_map("[a-z\"#]{1,5}", commitment, 0..4);
    let budgets = prop::collection::btree_map(("[a-c\"]{0,2}", 1970..2100u32, 1..=12u32), amount, 0..4);
    (commitments, budgets).prop_map(|(commitments, budgets)| {
        let commitment =
            |(id, (department, gpu_model, mig_profile, gpus, hourly, (from, holds), by_minute))| Commitment {
                id,
                department,
                gpu_model,
                mig_profile,
                gpus,
                hourly,
                from,
                to: Option::map(holds, |holds: u32| from + holds),
                slot: if by_minute { Slot::Minute } else { Slot::Hour },
            };
        let budget = |((department, year, month), monthly)| Budget {
            department,
            from_month: format!("{year}-{month:02}"),
            monthly,
        };
        Agreements {
            currency: "EUR".to_owned(),
            commitments: commitments.into_iter().map(commitment).collect(),
            budgets: budgets.into_iter().map(budget).collect(),
        }
    })
}

proptest! {
    #[test]
    fn the_canonical_form_reads_back_to_equal_agreements_whatever_their_order(agreements in agreements(), other in agreements()) {
        let canonical = agreements.canonical();
        let read = parse("canonical", &canonical).map_err(|refused| TestCaseError::fail(format!("{refused}\n{canonical}")))?;
        prop_assert_eq!(&read, &agreements);
        let mut turned = agreements.clone();
        turned.commitments.reverse();
        turned.budgets.reverse();
        prop_assert_eq!(turned.id(), agreements.id());
        prop_assert_eq!(agreements == other, agreements.id() == other.id());
    }
}
