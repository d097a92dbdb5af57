//! A price book as the one text that all equal books have: TOML that reads back to an equal book.
//!
//! Rates come in the order of their keys. Everything else keeps the book's order, which has a meaning: the first consumption rule, storage
//! class or network class that matches counts. What is as it would be without is left out, so that a book keeps its text, and its id,
//! when more can be said in books.

use contador_schemas::mapping::Glob;

use super::file::words;
use super::{Basis, PriceBook, Rate};
use crate::bill::document::duration;
use crate::bill::document::write::{Writer, quoted};

impl PriceBook {
    /// The canonical form.
    pub fn canonical(&self) -> String {
        let mut out = Writer::new("Price book of contador, canonical form 1.");
        out.text("currency", &self.currency);
        out.text("time_zone", &self.time_zone);
        out.known("issuer", &self.issuer);
        out.plain("decimals", self.decimals);
        self.write_policy(&mut out);
        for rule in &self.consumption {
            out.header("[[consumption]]");
            out.text("model", rule.model.as_str());
            let mut matches: Vec<_> = rule.matches.iter().collect();
            matches.sort_by_key(|(name, _)| name);
            let matches: Vec<_> =
                matches.into_iter().map(|(name, glob)| format!("{name} = {}", quoted(glob.as_str()))).collect();
            if !matches.is_empty() {
                out.plain("match", format!("{{ {} }}", matches.join(", ")));
            }
        }
        let mut rates: Vec<&Rate> = self.rates.iter().collect();
        rates.sort_by(|a, b| a.key().cmp(&b.key()));
        for rate in rates {
            rate.write(&mut out);
        }
        self.write_energy(&mut out);
        self.write_storage_and_network(&mut out);
        self.write_percentages(&mut out);
        out.finish()
    }

    fn write_policy(&self, out: &mut Writer) {
        let policy = &self.policy;
        out.header("[policy]");
        for (key, spread) in [
            ("idle", policy.idle),
            ("stranded", policy.stranded),
            ("unattributed", policy.unattributed),
            ("unmetered", policy.unmetered),
        ] {
            out.text(key, words::name(&words::SPREADS, spread));
        }
        out.text("gaps", words::name(&words::GAPS, policy.gaps_to_last_owner));
        out.text("over_allocation", words::name(&words::OVER_ALLOCATION, policy.split_over_allocation));
        out.known("platform", &policy.platform);
    }

    fn write_energy(&self, out: &mut Writer) {
        for energy in &self.energy {
            out.header("[[energy]]");
            out.valid_from(energy.valid_from);
            out.texts("nodes", energy.nodes.iter().map(Glob::as_str));
            out.decimal("tariff", energy.tariff);
            out.decimal("pue", energy.pue);
            if let Some(carbon) = energy.carbon_g_per_kwh {
                out.decimal("carbon_g_per_kwh", carbon);
            }
            out.text("billing", words::name(&words::BILLING, self.energy_is_a_line));
            out.known("source", &energy.source);
        }
    }

    fn write_storage_and_network(&self, out: &mut Writer) {
        for rate in &self.storage {
            out.header("[[storage]]");
            out.text("class", rate.class.as_str());
            out.known("department", &rate.department);
            out.known("project", &rate.project);
            out.valid_from(rate.valid_from);
            out.decimal("per_gib_month", rate.per_gib_month);
            out.plain("month_hours", rate.month_hours);
        }
        for rate in &self.network {
            out.header("[[network]]");
            out.text("class", rate.class.as_str());
            out.known("department", &rate.department);
            out.known("project", &rate.project);
            out.valid_from(rate.valid_from);
            out.decimal("per_gib", rate.per_gib);
        }
    }

    fn write_percentages(&self, out: &mut Writer) {
        for (header, percentages) in [("[[markup]]", &self.markups), ("[[tax]]", &self.taxes)] {
            for percentage in percentages {
                out.header(header);
                out.text("name", &percentage.name);
                out.decimal("percent", percentage.percent);
                out.texts("departments", percentage.departments.iter().map(String::as_str));
                out.valid_from(percentage.valid_from);
                if let Some(to) = percentage.valid_to {
                    out.instant("valid_to", to);
                }
            }
        }
    }
}

impl Rate {
    fn write(&self, out: &mut Writer) {
        out.header("[[rate]]");
        out.text("gpu_model", &self.gpu_model);
        out.known("mig_profile", self.mig_profile.as_deref().unwrap_or_default());
        out.known("environment", self.environment.as_deref().unwrap_or_default());
        out.known("consumption", self.consumption.map_or("", super::Consumption::as_str));
        out.valid_from(self.valid_from);
        out.decimal("hourly", self.hourly);
        if self.basis != Basis::Allocated {
            out.text("basis", words::name(&words::BASES, self.basis));
        }
        for (key, ms) in [("increment", self.increment_ms), ("minimum", self.minimum_ms)] {
            if ms > 0 {
                out.text(key, &duration::format(ms));
            }
        }
        out.known("derivation", &self.derivation);
        out.known("source", &self.source);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    use super::*;
    use crate::bill::decimal::ONE;
    use crate::bill::prices::file::parse;
    use crate::bill::prices::{
        ANY, Consumption, ConsumptionRule, Energy, NetworkRate, Percentage, Policy, Spread, StorageRate,
    };

    /// Texts that a book may have, some of which look like TOML.
    fn text() -> impl Strategy<Value = String> {
        "[a-zA-Z0-9\"'\\\\#=é]([a-zA-Z0-9 \"'\\\\#=\\[\\]é]{0,8}[a-zA-Z0-9\"'\\\\#=é])?"
    }

    fn maybe() -> impl Strategy<Value = String> {
        prop_oneof![Just(String::new()), text()]
    }

    fn glob() -> impl Strategy<Value = Glob> {
        "[a-z\"/*? ]{0,6}(\\\\[*])?".prop_map(|text| Glob::parse(&text).unwrap())
    }

    fn amount() -> impl Strategy<Value = i128> {
        prop_oneof![Just(0), 0..100 * ONE, 0..ONE * ONE * 1_000_000]
    }

    fn instant() -> impl Strategy<Value = u32> {
        prop_oneof![Just(0), 1..4_102_444_800u32]
    }

    fn rate() -> impl Strategy<Value = Rate> {
        let model = prop_oneof![Just(ANY.to_owned()), select(vec!["A", "B \"c\""]).prop_map(str::to_owned)];
        let profile = prop::option::of(select(vec![ANY, "1g.10gb", "1g.10gb+me", "1c.3g.20gb"]));
        let consumption = prop::option::of(select(Consumption::ALL.to_vec()));
        let key = (model, profile, prop::option::of(text()), consumption, instant());
        let basis = select(vec![Basis::Allocated, Basis::Used, Basis::Greater]);
        let increments = (select(vec![0u32, 1, 1_000, 1_500, 60_000, 3_600_000]), 0u32..4);
        (key, amount(), basis, increments, maybe(), maybe()).prop_map(
            |(
                (gpu_model, mig_profile, environment, consumption, valid_from),
                hourly,
                basis,
                increments,
                derivation,
                source,
            )| Rate {
                gpu_model,
                mig_profile: mig_profile.map(str::to_owned),
                environment,
                consumption,
                valid_from,
                hourly,
                basis,
                increment_ms: increments.0,
                minimum_ms: if increments.0 == 0 { increments.1 * 90_000 } else { increments.0 * increments.1 },
                derivation,
                source,
            },
        )
    }

    fn rates() -> impl Strategy<Value = Vec<Rate>> {
        prop::collection::vec(rate(), 1..8).prop_map(|mut rates| {
            let key = |rate: &Rate| format!("{:?}", rate.key());
            let mut seen = BTreeSet::new();
            rates.retain(|rate| seen.insert(key(rate)));
            rates.sort_by(|a, b| a.key().cmp(&b.key()));
            rates
        })
    }

    fn rule() -> impl Strategy<Value = ConsumptionRule> {
        let names = subsequence(vec!["department", "gpu_model", "model", "user"], 0..=4);
        (select(Consumption::ALL.to_vec()), names, prop::collection::vec(glob(), 4)).prop_map(
            |(model, names, globs)| {
                let matches = names.into_iter().map(str::to_owned).zip(globs).collect();
                ConsumptionRule { model, matches }
            },
        )
    }

    fn energy() -> impl Strategy<Value = Energy> {
        (instant(), prop::collection::vec(glob(), 0..3), amount(), 0..ONE, prop::option::of(amount()), maybe())
            .prop_map(|(valid_from, nodes, tariff, over, carbon_g_per_kwh, source)| Energy {
                valid_from,
                nodes,
                tariff,
                pue: ONE + over,
                carbon_g_per_kwh,
                source,
            })
    }

    fn storage() -> impl Strategy<Value = StorageRate> {
        (glob(), maybe(), maybe(), instant(), amount(), 1u32..=745).prop_map(
            |(class, department, project, valid_from, per_gib_month, month_hours)| StorageRate {
                class,
                department,
                project,
                valid_from,
                per_gib_month,
                month_hours,
            },
        )
    }

    fn network() -> impl Strategy<Value = NetworkRate> {
        (glob(), maybe(), maybe(), instant(), amount()).prop_map(|(class, department, project, valid_from, per_gib)| {
            NetworkRate { class, department, project, valid_from, per_gib }
        })
    }

    /// Names of their own, so that none applies twice.
    fn percentages() -> impl Strategy<Value = Vec<Percentage>> {
        let one = (
            text(),
            0..=1_000 * ONE,
            prop::collection::btree_set(text(), 0..3),
            instant(),
            prop::option::of(1u32..1_000),
        );
        prop::collection::vec(one, 0..3).prop_map(|all| {
            let one =
                |(at, (name, percent, departments, valid_from, holds)): (usize, (String, _, _, u32, Option<u32>))| {
                    Percentage {
                        name: format!("{name}{at}"),
                        percent,
                        departments,
                        valid_from,
                        valid_to: holds.map(|holds| (valid_from + holds).min(4_102_444_800)),
                    }
                };
            all.into_iter().enumerate().map(one).collect()
        })
    }

    fn policy() -> impl Strategy<Value = Policy> {
        let spread = || select(vec![Spread::Show, Spread::Proportional, Spread::Even, Spread::Platform]);
        (spread(), spread(), spread(), spread(), any::<(bool, bool)>(), text()).prop_map(
            |(idle, stranded, unattributed, unmetered, (gaps_to_last_owner, split_over_allocation), platform)| Policy {
                idle,
                stranded,
                unattributed,
                unmetered,
                gaps_to_last_owner,
                split_over_allocation,
                platform,
            },
        )
    }

    /// Any book that a file can say.
    fn book() -> impl Strategy<Value = PriceBook> {
        let zone = select(vec!["UTC", "Europe/Madrid", "America/New_York"]);
        let whole = (zone, maybe(), 0u8..=6, any::<bool>(), policy());
        let rules = prop::collection::vec(rule(), 0..3);
        let energy = prop::collection::vec(energy(), 0..3);
        let others = (prop::collection::vec(storage(), 0..3), prop::collection::vec(network(), 0..3));
        (whole, rates(), rules, energy, others, percentages(), percentages()).prop_filter_map(
            "a class twice from one instant",
            |(
                (zone, issuer, decimals, line, policy),
                rates,
                consumption,
                energy,
                (storage, network),
                markups,
                taxes,
            )| {
                let once = |keys: Vec<(String, u32)>| keys.iter().collect::<BTreeSet<_>>().len() == keys.len();
                let names = |globs: &[Glob]| globs.iter().map(Glob::as_str).collect::<Vec<_>>().join(", ");
                let is_once =
                    once(storage.iter().map(|rate| (rate.class.as_str().to_owned(), rate.valid_from)).collect())
                        && once(network.iter().map(|rate| (rate.class.as_str().to_owned(), rate.valid_from)).collect())
                        && once(energy.iter().map(|energy| (names(&energy.nodes), energy.valid_from)).collect());
                is_once.then(|| PriceBook {
                    time_zone: zone.to_owned(),
                    issuer,
                    decimals,
                    rates,
                    consumption,
                    energy_is_a_line: line && !energy.is_empty(),
                    energy,
                    storage,
                    network,
                    markups,
                    taxes,
                    policy,
                    ..PriceBook::new("EUR")
                })
            },
        )
    }

    proptest! {
        #[test]
        fn it_reads_back_to_an_equal_book_whatever_the_order_of_rates(book in book(), turn in 0usize..8) {
            let canonical = book.canonical();
            let read = parse("canonical", &canonical).map_err(|refused| TestCaseError::fail(format!("{refused}\n{canonical}")))?;
            prop_assert_eq!(&read, &book);
            prop_assert_eq!(read.id(), book.id());
            let mut other = book.clone();
            let turn = turn % other.rates.len();
            other.rates.rotate_left(turn);
            prop_assert_eq!(other.canonical(), canonical);
        }

        #[test]
        fn another_book_has_another_id(one in book(), two in book()) {
            prop_assert_eq!(one == two, one.id() == two.id());
        }
    }

    #[test]
    fn the_form_and_so_the_id_of_a_book_stay_as_they_are() {
        let mut book = PriceBook::new("EUR").with("A", 1_767_225_600, 5 * ONE / 2);
        book.rates[0].increment_ms = 60_000;
        let expected = "# Price book of contador, canonical form 1.\ncurrency = \"EUR\"\ntime_zone = \"UTC\"\ndecimals = 6\n\
                        \n[policy]\nidle = \"show\"\nstranded = \"show\"\nunattributed = \"show\"\nunmetered = \"show\"\n\
                        gaps = \"nobody\"\nover_allocation = \"show\"\n\
                        \n[[rate]]\ngpu_model = \"A\"\nvalid_from = 2026-01-01T00:00:00Z\nhourly = \"2.50\"\nincrement = \"minute\"\n";
        assert_eq!(book.canonical(), expected);
        // Calculated by another program: sha256sum.
        assert_eq!(book.id(), "853753d53365f08f451adf4989360f7ac835b20a5d26bac39922eb1cfb32dac6");
    }
}
