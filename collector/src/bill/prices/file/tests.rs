use contador_schemas::owner::Owner;
use proptest::prelude::*;

use super::*;
use crate::bill::decimal::{self, ONE};
use crate::bill::facts::Device;
use crate::bill::prices::{Basis, Consumption, Rate, Spread};

const BOOK: &str = r#"
currency = "EUR"
time_zone = "Europe/Berlin"

[[rate]]
gpu_model = "NVIDIA H100 80GB HBM3"
hourly = "2.50"
valid_from = 2026-10-01

[[rate]]
gpu_model = "*"
hourly = "1"
"#;

/// The book in the documentation.
fn documented() -> &'static str {
    let page = include_str!("../../../../../docs/price-book.md");
    page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap()
}

/// The faults of a text, a line each.
fn faults(text: &str) -> String {
    parse("p.toml", text).unwrap_err().to_string()
}

#[test]
fn a_book_is_read() {
    let book = parse("p.toml", BOOK).unwrap();
    let of = |rate: &Rate| (rate.gpu_model.clone(), rate.valid_from, rate.hourly);
    let rates: Vec<_> = book.rates.iter().map(of).collect();
    // Midnight of Berlin is 22:00 of the day before in UTC.
    assert_eq!(rates, [("*".into(), 0, ONE), ("NVIDIA H100 80GB HBM3".into(), 1_790_805_600, ONE * 5 / 2)]);
    assert_eq!((book.currency.as_str(), book.time_zone.as_str(), book.decimals), ("EUR", "Europe/Berlin", 6));
}

#[test]
fn the_documented_book_says_what_its_page_says() {
    let book = parse("price-book.md", documented()).unwrap();
    assert_eq!((book.time_zone.as_str(), book.issuer.as_str(), book.decimals), ("Europe/Madrid", "GPU platform", 2));
    let device = |model: &str, profile: &str| Device {
        gpu_model: model.to_owned(),
        mig_profile: profile.to_owned(),
        ..Device::default()
    };
    let (h100, reserved) = ("NVIDIA H100 80GB HBM3", Owner { environment: "reserved".into(), ..Owner::default() });
    let nobody = Owner::default();
    // Midnight of Madrid in July is 22:00 of the day before in UTC.
    let july = 1_782_856_800_000;
    for (model, profile, owner, at, hourly) in [
        (h100, "", &nobody, july - 1, "2.95"),
        (h100, "", &nobody, july, "2.70"),
        (h100, "", &reserved, july, "2.866747"),
        (h100, "3g.40gb", &nobody, july, "1.50"),
        (h100, "1g.10gb", &reserved, july, "2.95"),
        ("NVIDIA L4", "", &nobody, july, "1.00"),
    ] {
        let consumption = book.consumption_of(owner, model, !profile.is_empty());
        let rate = book.rate(&device(model, profile), owner, Some(consumption), at).unwrap();
        assert_eq!(decimal::format(rate.hourly), hourly, "{model} {profile} at {at}");
    }
    assert_eq!(book.consumption_of(&reserved, h100, false), Consumption::Exclusive);
    let first = &book.rate(&device(h100, ""), &nobody, None, 0).unwrap();
    assert_eq!((first.basis, first.increment_ms, first.minimum_ms), (Basis::Greater, 900_000, 3_600_000));
    let policy = &book.policy;
    assert_eq!(
        (policy.idle, policy.stranded, policy.unmetered),
        (Spread::Proportional, Spread::Platform, Spread::Show)
    );
    assert!(policy.gaps_to_last_owner && policy.split_over_allocation && policy.platform == "operations");
    assert!(book.energy_is_a_line);
    assert_eq!(book.energy("par-1", july).unwrap().carbon_g_per_kwh, Some(ONE * 442 / 10));
    assert_eq!(book.energy("ber-1", july).unwrap().carbon_g_per_kwh, Some(ONE * 3_441 / 10));
    assert_eq!((book.storage.len(), book.network.len(), book.markups.len(), book.taxes.len()), (1, 1, 1, 1));
    assert_eq!(book.taxes[0].percent, 21 * ONE);
}

#[test]
fn an_hour_of_a_node_is_derived_as_a_fraction_and_rounded_once() {
    // (300000 / 4 + 10.2 x .8 x 8760 x 1.3 x .12 + 12 x 10.2 x 200 + 30000) = 140631.1296 a year, calculated by hand.
    let at_70 = parse("p.toml", documented()).unwrap();
    let derived = |book: &PriceBook| book.rates.iter().find(|rate| rate.environment.is_some()).unwrap().clone();
    let rate = derived(&at_70);
    assert_eq!(rate.hourly, 2_866_747 * ONE / 1_000_000);
    assert_eq!(
        rate.derivation,
        "[300000 / 4 years + 10.2 kW x 0.8 x 8760 h x PUE 1.3 x 0.12 a kWh + 12 months x 10.2 kW x 200 of colocation \
         + 30000 of staff] a year / (8 GPUs x 8760 h x 0.7) = 140631.1296 / 49056 = 2.866747"
    );
    let full = documented().replace("utilisation = \"0.7\"", "utilisation = \"1\"");
    assert_eq!(derived(&parse("p.toml", &full).unwrap()).hourly, 2_006_723 * ONE / 1_000_000);
    let sold = full.replace("residual = \"0\" ", "residual = \"100000\" ");
    // 25,000 a year less: 115631.1296 / 70080.
    assert_eq!(derived(&parse("p.toml", &sold).unwrap()).hourly, 1_649_988 * ONE / 1_000_000);
}

#[test]
fn faults_name_the_line_the_value_and_what_was_expected() {
    for (from, to, message) in [
        (
            "\"2.50\"",
            "2.50",
            "p.toml:7: hourly: 2.50, expected a decimal in quotes such as \"2.50\", since a TOML number is not exact",
        ),
        ("\"2.50\"", "\"-2\"", "p.toml:7: hourly: \"-2\", expected a decimal such as 0.25, without sign or exponent"),
        (
            "hourly = \"1\"",
            "",
            "p.toml:10: rate: without hourly, expected hourly, monthly with month_hours, or [rate.tco]",
        ),
        ("\"EUR\"", "\"Euro\"", "p.toml:2: currency: \"Euro\", expected three capitals of ISO 4217 such as EUR"),
        ("currency = \"EUR\"", "", "p.toml:1: currency: missing, expected a code of ISO 4217 such as \"EUR\""),
        (
            "Europe/Berlin",
            "Berlin",
            "p.toml:3: time_zone: \"Berlin\", expected a name of the IANA database such as \"Europe/Berlin\"",
        ),
        (
            "2026-10-01",
            "\"2026-10-01\"",
            "p.toml:8: valid_from: \"2026-10-01\", expected a date such as 2026-01-01 or a time such as 2026-01-01T00:00:00Z, from 1970 to 2100, without quotes",
        ),
        (
            "gpu_model = \"*\"",
            "gpu_model = \"NVIDIA H100 80GB HBM3\"\nvalid_from = 2026-10-01T00:00:00+02:00",
            "p.toml:10: rate: a second one of NVIDIA H100 80GB HBM3 from the same instant; the first is on line 5",
        ),
        (
            "gpu_model = \"*\"",
            "gpu_model = \"NVIDIA H*\"",
            "p.toml:11: gpu_model: \"NVIDIA H*\", expected the driver's whole name of a model, or \"*\"",
        ),
        (
            "gpu_model = \"*\"",
            "gpu_model = \"A MIG 3g.40gb\"\nmig_profile = \"1g.10gb\"",
            "p.toml:12: mig_profile: \"1g.10gb\", expected \"3g.40gb\", which gpu_model names, or nothing",
        ),
        (
            "gpu_model = \"*\"",
            "gpu_model = \"A\"\nmig_profile = \"MIG 1g.10gb\"",
            "p.toml:12: mig_profile: \"MIG 1g.10gb\", expected a profile such as \"3g.40gb\", or \"*\"",
        ),
        (
            "hourly = \"1\"",
            "hourly = \"1\"\nincrement = \"hour\"\nminimum = \"90 minutes\"",
            "p.toml:14: minimum: \"90 minutes\", expected a multiple of increment",
        ),
        (
            "hourly = \"1\"",
            "monthly = \"999999999999999999.9999999\"\nmonth_hours = 1",
            "p.toml:12: monthly: \"999999999999999999.9999999\", expected an hour of less than 10^18",
        ),
        (
            "hourly = \"1\"",
            "monthly = \"1\"",
            "p.toml:10: rate: without month_hours, expected a whole number from 1 to 745",
        ),
        (
            "hourly = \"1\"",
            "hourly = \"1\"\nmonthly = \"1\"\nmonth_hours = 730",
            "p.toml:13: monthly: \"1\", expected nothing beside hourly",
        ),
        (
            "hourly = \"1\"",
            "hourly = \"1\"\nconsumption = \"exlusive\"",
            "p.toml:13: consumption: \"exlusive\", expected \"exclusive\", \"time-sharing\", \"fraction\"; did you mean exclusive?",
        ),
        ("time_zone", "decimals = 7\ntime_zone", "p.toml:3: decimals: 7, expected a whole number from 0 to 6"),
    ] {
        let text = BOOK.replacen(from, to, 1);
        assert_ne!(text, BOOK, "{from}");
        assert_eq!(faults(&text), message);
    }
    let nearest = faults(&BOOK.replacen("hourly = \"1\"", "hourly = \"1\"\nsorce = \"a\"", 1));
    assert!(nearest.starts_with("p.toml:13: sorce: unknown key, expected gpu_model, "), "{nearest}");
    assert!(nearest.ends_with("; did you mean source?"), "{nearest}");
    assert_eq!(faults("currency = \"EUR\"\nrate = []\n"), "p.toml:2: rate: expected tables, each under [[rate]]");
    assert!(faults("currency =\n").starts_with("p.toml:1: "));
}

#[test]
fn what_makes_no_sense_is_a_fault() {
    for (more, message) in [
        ("[policy]\nidle = \"platform\"", "14: policy: without platform, expected the department that pays"),
        (
            "[policy]\nidle = \"share\"",
            "15: idle: \"share\", expected \"show\", \"proportional\", \"even\", \"platform\"",
        ),
        ("[energy]\ntariff = \"1\"\npue = \"0.9\"", "16: pue: \"0.9\", expected at least 1"),
        ("[energy]\npue = \"1.2\"", "14: energy: without tariff, expected a decimal in quotes"),
        (
            "[[energy]]\ntariff = \"1\"\nbilling = \"line\"\n[[energy]]\nnodes = [\"a\"]\ntariff = \"1\"\nbilling = \"included\"",
            "20: billing: \"included\", expected the same in each [[energy]]",
        ),
        (
            "[[energy]]\ntariff = \"1\"\n[[energy]]\ntariff = \"2\"",
            "16: energy: a second one of \"the nodes that no other names\" from the same instant; the first is on line 14",
        ),
        (
            "[[storage]]\nclass = \"a*\"\nper_gib_month = \"1\"\nmonth_hours = 800",
            "17: month_hours: 800, expected a whole number from 1 to 745",
        ),
        (
            "[[network]]\nclass = \"a\"\nper_gib = \"1\"\n[[network]]\nclass = \"a\"\nper_gib = \"2\"",
            "17: network: a second one of \"a\" from the same instant; the first is on line 14",
        ),
        ("[[tax]]\nname = \"a\"\npercent = \"1000.1\"", "16: percent: \"1000.1\", expected at most 1000"),
        (
            "[[tax]]\nname = \"a\"\npercent = \"1\"\nvalid_from = 2026-02-01\nvalid_to = 2026-01-01",
            "18: valid_to: 2026-01-01, expected a time after valid_from",
        ),
        (
            "[[tax]]\nname = \"a\"\npercent = \"1\"\n[[tax]]\nname = \"a\"\npercent = \"2\"\ndepartments = [\"x\"]",
            "17: tax: \"a\" applies twice to the same department; the first is on line 14",
        ),
        (
            "[[consumption]]\nmodel = \"exclusive\"\nmatch = { departement = \"a\" }",
            "16: departement: unknown key, expected environment, ",
        ),
        (
            "[[consumption]]\nmodel = \"exclusive\"\nmatch = { department = 'a\\' }",
            "16: department: \"a\\\\\", expected a character",
        ),
        (
            "[[rate]]\ngpu_model = \"A\"\n[rate.tco]\ncapex = \"1\"\nyears = \"0\"\nkw = \"1\"\nload = \"1.1\"\npue = \"1\"\n\
             tariff = \"0\"\ngpus = 0\nutilisation = \"1\"",
            "18: years: \"0\", expected more than 0\np.toml:20: load: \"1.1\", expected a share above 0 and up to 1\n\
             p.toml:23: gpus: 0, expected a whole number from 1 to 1000000",
        ),
    ] {
        let told = faults(&format!("{BOOK}\n{more}\n"));
        assert!(told.starts_with(&format!("p.toml:{message}")), "{more}: {told}");
    }
    // Each from the one's end on is no overlap.
    let after = "[[tax]]\nname = \"a\"\npercent = \"1\"\nvalid_to = 2026-01-01\n[[tax]]\nname = \"a\"\npercent = \"2\"\nvalid_from = 2026-01-01";
    assert_eq!(parse("p.toml", &format!("{BOOK}\n{after}\n")).unwrap().taxes.len(), 2);
}

#[test]
fn all_faults_are_told_up_to_twenty() {
    let text = BOOK.replace("\"EUR\"", "\"Euro\"").replace("2026-10-01", "2026-13-01");
    assert!(faults(&text).starts_with("p.toml:8: "), "a text that is not TOML has no other faults");
    let text = BOOK.replace("\"EUR\"", "\"Euro\"").replace("\"2.50\"", "2.5").replace("\"1\"", "\"one\"");
    assert_eq!(
        faults(&text),
        "p.toml:2: currency: \"Euro\", expected three capitals of ISO 4217 such as EUR\n\
         p.toml:7: hourly: 2.5, expected a decimal in quotes such as \"2.50\", since a TOML number is not exact\n\
         p.toml:12: hourly: \"one\", expected a decimal such as 0.25, without sign or exponent"
    );
    let many = format!("{BOOK}{}", "\n[[rate]]\ngpu_model = \"\"\n".repeat(13));
    let told = faults(&many);
    assert_eq!(told.lines().count(), 21, "{told}");
    assert!(told.ends_with("\np.toml: 6 more faults"), "{told}");
}

#[test]
fn faults_of_a_book_in_hostile_text_are_no_panic() {
    for text in [
        "\u{feff}currency = \"EUR\"",
        "currency = \"\\u0000\"",
        "[[rate]]\n[rate.tco.x]",
        "rate = 1\nenergy = 2",
        "[a",
        "policy = []",
    ] {
        assert!(parse("p.toml", text).is_err(), "{text:?}");
    }
}

proptest! {
    /// A book out of which something was torn, and into which something was put, is read or refused.
    #[test]
    fn no_text_makes_it_panic(from in 0usize..3_000, length in 0usize..40, put in "[a-z0-9\"\\[\\]{}=.\n-]{0,6}") {
        let book = documented();
        let from = (0..=from.min(book.len())).rev().find(|at| book.is_char_boundary(*at)).unwrap();
        let to = (from + length..=book.len()).find(|at| book.is_char_boundary(*at)).unwrap_or(book.len());
        let torn = format!("{}{put}{}", &book[..from], &book[to..]);
        if let Err(refused) = parse("torn", &torn) {
            let lines = torn.lines().count() + 1;
            prop_assert!(!refused.faults.is_empty() && refused.faults.iter().all(|(line, _)| (1..=lines).contains(line)));
        }
    }
}
