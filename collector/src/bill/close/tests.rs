//! What is kept reads back exactly, and corrections make up for every difference.

use std::collections::BTreeMap;
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};
use contador_schemas::rows::InvoiceInput;
use jiff::tz::TimeZone;
use num_bigint::BigInt;
use proptest::prelude::*;

use super::closing::adds_up;
use super::{Inputs, corrections, rows};
use crate::bill::commitments::{Agreements, Budget, Commitment, Slot};
use crate::bill::decimal::{Millionths, ONE};
use crate::bill::directory::{Directory, Entry};
use crate::bill::facts::{Device, Fact, Facts, Item, OtherFact, Session};
use crate::bill::period::Period;
use crate::bill::prices::{Consumption, Percentage, Policy, PriceBook, Spread};
use crate::bill::rate::{Category, Key, Payer};
use crate::bill::settle::{Amounts, Line};
use crate::bill::statement::{self, Statement};

/// 2026-10-01T00:00:00Z, Unix milliseconds.
const OCTOBER: i64 = 1_790_812_800_000;
const HOUR: i64 = 3_600_000;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z]{1,8}", "\\PC{1,6}", Just("a: \"b\"\n,;é".to_owned())]
}

fn owner() -> impl Strategy<Value = Arc<Owner>> {
    (0usize..OwnerKind::ALL.len(), prop::collection::vec(text(), 13)).prop_map(|(kind, values)| {
        let mut owner = Owner::of_kind(OwnerKind::ALL[kind]);
        let names: Vec<&str> = Owner::default().attributes().map(|(name, _)| name).to_vec();
        for (name, value) in names.into_iter().zip(&values) {
            assert!(owner.set(name, value), "{name}");
        }
        Arc::new(owner)
    })
}

prop_compose! {
    fn fact()(
        owner in owner(), kind in 0usize..5, texts in prop::collection::vec(text(), 5), flags in any::<[bool; 3]>(),
        from in any::<i64>(), held in any::<i64>(), whole in any::<[i128; 7]>(), session in any::<Option<(i64, i64)>>(), rows in any::<u64>(),
    ) -> Fact {
        let [cost_centre, id, node, gpu_model, mig_profile] = texts.try_into().unwrap();
        let [allocated, unknown, busy, greater, instance, memory_mib_ms, energy_mj] = whole;
        let [imported, simulated, fraction] = flags;
        Fact {
            kind: OwnerKind::ALL[kind],
            owner,
            cost_centre: cost_centre.into(),
            device: Arc::new(Device { id, node, gpu_model, mig_profile }),
            from,
            to: from.saturating_add(HOUR),
            imported,
            simulated,
            fraction,
            held,
            allocated,
            unknown,
            busy,
            greater,
            instance,
            memory_mib_ms,
            energy_mj,
            session: session.map(|(start, before)| Session { start, before }),
            rows,
        }
    }
}

prop_compose! {
    fn other()(owner in owner(), texts in prop::collection::vec(text(), 2), from in any::<i64>(), quantity in any::<i128>(), is_network in any::<bool>())
    -> OtherFact {
        let item = if is_network { Item::Network } else { Item::Storage };
        let [class, cost_centre] = [0, 1].map(|at: usize| texts[at].as_str().into());
        OtherFact { item, class, owner, cost_centre, from, to: from, quantity, simulated: is_network }
    }
}

prop_compose! {
    fn line()(
        owner in owner(), texts in prop::collection::vec(text(), 6), category in 0usize..18, price in any::<Option<i64>>(),
        day in any::<Option<u16>>(), consumption in 0usize..4, amounts in any::<[i64; 10]>(), flags in any::<[bool; 2]>(),
    ) -> Line {
        const NAMES: [&str; 18] = [
            "usage", "covered", "commitment", "unused", "share", "idle-share", "stranded-share", "unattributed-share",
            "unmetered-share", "energy", "storage", "network", "mark-up", "tax", "credit", "adjustment", "correction", "usage",
        ];
        let [department, cost_centre, gpu_model, mig_profile, item, origin] = texts.try_into().unwrap();
        let mut told = Amounts::default();
        for (place, amount) in told.all_mut().into_iter().zip(amounts) {
            *place = Millionths(BigInt::from(amount));
        }
        let key = Key {
            payer: Payer { kind: owner.kind, department: department.into() },
            category: Category::parse(NAMES[category]).unwrap(),
            owner,
            cost_centre: cost_centre.into(),
            gpu_model: gpu_model.into(),
            mig_profile: mig_profile.into(),
            consumption: Consumption::ALL.get(consumption).copied(),
            item: item.into(),
            unit_price: price.map(i128::from),
            day,
            origin_month: (!origin.is_empty()).then(|| origin.into()),
            imported: flags[0],
            simulated: flags[1],
        };
        Line { key, amounts: told }
    }
}

fn decimal() -> impl Strategy<Value = i128> {
    0..1_000_000 * ONE
}

fn percentages() -> impl Strategy<Value = Vec<Percentage>> {
    let one = (text(), decimal(), prop::collection::btree_set(text(), 0..3), any::<u32>(), any::<Option<u32>>());
    let one = one.prop_map(|(name, percent, departments, valid_from, valid_to)| Percentage {
        name,
        percent,
        departments,
        valid_from,
        valid_to,
    });
    prop::collection::vec(one, 0..3)
}

fn policy() -> impl Strategy<Value = Policy> {
    let spread = || prop::sample::select(vec![Spread::Show, Spread::Proportional, Spread::Even, Spread::Platform]);
    (spread(), spread(), spread(), spread(), any::<[bool; 2]>(), text()).prop_map(
        |(idle, stranded, unattributed, unmetered, flags, platform)| Policy {
            idle,
            stranded,
            unattributed,
            unmetered,
            gaps_to_last_owner: flags[0],
            split_over_allocation: flags[1],
            platform,
        },
    )
}

/// Books and agreements as they are read from files; their own tests have every field of them.
fn book() -> impl Strategy<Value = PriceBook> {
    (0u8..7, decimal(), decimal()).prop_map(|(decimals, one, other)| {
        let book = PriceBook::new("EUR").with("H100", 0, one).with("A100", 0, other);
        let mut book = PriceBook { decimals, issuer: "a \"b\" é".into(), time_zone: "Europe/Berlin".into(), ..book };
        book.rates.sort_by(|a, b| a.key().cmp(&b.key()));
        book
    })
}

fn agreements() -> impl Strategy<Value = Agreements> {
    let some =
        (1u32..100, decimal(), any::<bool>(), decimal()).prop_map(|(gpus, hourly, by_hour, monthly)| Agreements {
            currency: "EUR".into(),
            commitments: vec![committed(gpus, hourly, if by_hour { Slot::Hour } else { Slot::Minute })],
            budgets: vec![Budget { department: "research".into(), from_month: "2026-10".into(), monthly }],
        });
    prop_oneof![Just(Agreements::default()), some]
}

fn committed(gpus: u32, hourly: i128, slot: Slot) -> Commitment {
    Commitment {
        id: "c".into(),
        department: "research".into(),
        gpu_model: "H100".into(),
        mig_profile: None,
        gpus,
        hourly,
        from: 0,
        to: None,
        slot,
    }
}

fn directory() -> impl Strategy<Value = Option<Directory>> {
    // Not longer than until the next one, as in a file.
    let entry = ("[a-zé,\"]{1,6}", 0u16..47_000, prop::option::of(1u16..400), "[a-z ,\"]{0,4}z", "[0-9,\"]{0,4}");
    prop::option::of(prop::collection::vec(entry, 1..6).prop_map(|entries| {
        let mut directory = Directory::default();
        let mut known = std::collections::HashSet::new();
        for (project, from, until, department, cost_centre) in entries {
            if known.insert(project.clone()) {
                let department = department.trim_start().into();
                let entry = Entry { until: until.map(|days| from + days), department, cost_centre: cost_centre.into() };
                assert!(directory.add(project.into(), from, entry));
            }
        }
        directory
    }))
}

fn of(facts: Vec<Fact>, book: &PriceBook) -> Statement {
    let facts = Facts { facts, ..Facts::default() };
    let period = Period::month("2026-10", &TimeZone::UTC).unwrap();
    statement::of_facts(&facts, &period, book.clone(), Agreements::default())
}

/// Facts of a few departments and models, and a book that has no price for one of them.
fn plain() -> impl Strategy<Value = Vec<Fact>> {
    let one = (0usize..5, 0usize..3, 0usize..4, 0i64..31, 1i128..i128::from(HOUR));
    let one = one.prop_map(|(kind, department, model, day, units)| {
        let kind = OwnerKind::ALL[kind];
        let named = Owner { department: ["", "research", "search"][department].to_owned(), ..Owner::default() };
        let owner = if kind == OwnerKind::Workload { named } else { Owner::of_kind(kind) };
        let device = Device { gpu_model: ["H100", "A100", "L4", "new"][model].to_owned(), ..Device::default() };
        let from = OCTOBER + day * 24 * HOUR;
        Fact {
            kind,
            owner: owner.into(),
            device: device.into(),
            from,
            to: from + HOUR,
            allocated: units * ONE,
            ..Fact::default()
        }
    });
    prop::collection::vec(one, 0..12)
}

fn terms() -> impl Strategy<Value = PriceBook> {
    (0u8..7, prop::collection::vec(1i128..9 * ONE, 3), policy(), percentages()).prop_map(
        |(decimals, rates, policy, taxes)| {
            let mut book = PriceBook::new("EUR");
            for (model, rate) in ["H100", "A100", "L4"].into_iter().zip(rates) {
                book = book.with(model, 0, rate);
            }
            let taxes = taxes.into_iter().map(|tax| Percentage { valid_from: 0, ..tax }).collect();
            PriceBook { decimals, policy, taxes, ..book }
        },
    )
}

fn summed<'a>(lines: impl IntoIterator<Item = &'a Line>) -> BTreeMap<Key, Amounts> {
    let mut sums: BTreeMap<Key, Amounts> = BTreeMap::new();
    for line in lines {
        let is_correction = line.key.category == Category::Correction;
        let key = if is_correction { line.key.clone() } else { corrections::key("2026-10", &line.key) };
        *sums.entry(key).or_default() += &line.amounts;
    }
    sums.retain(|_, amounts| !amounts.is_zero());
    sums
}

proptest! {
    #[test]
    fn facts_read_back_whatever_their_order(facts in prop::collection::vec(fact(), 0..8), other in prop::collection::vec(other(), 0..4)) {
        let whole = Facts { facts, other, ..Facts::default() };
        let (hash, stored) = rows::of_facts(&whole).unwrap();
        prop_assert_eq!(&rows::hash_of_facts(&stored).unwrap(), &hash);
        let back = rows::to_facts(stored).unwrap();
        prop_assert_eq!(rows::of_facts(&back).unwrap().0, hash.clone());
        for fact in &whole.facts {
            prop_assert!(back.facts.contains(fact));
        }
        for fact in &whole.other {
            prop_assert!(back.other.contains(fact));
        }
        let mut reversed = whole;
        reversed.facts.reverse();
        reversed.other.reverse();
        prop_assert_eq!(rows::of_facts(&reversed).unwrap().0, hash);
    }

    #[test]
    fn lines_read_back(lines in prop::collection::vec(line(), 0..8)) {
        let (hash, stored) = rows::of_lines(&lines).unwrap();
        prop_assert_eq!(rows::hash_of_lines(&stored).unwrap(), hash);
        prop_assert_eq!(rows::to_lines(stored).unwrap(), lines);
    }

    #[test]
    fn inputs_read_back(book in book(), agreements in agreements(), directory in directory()) {
        let inputs = Inputs { book, agreements, directory };
        let documents = inputs.documents().unwrap();
        let ids = [0, 1, 2].map(|at: usize| documents[at].id.clone());
        let back = Inputs::read(&documents, ids.clone()).unwrap();
        prop_assert_eq!(&back.book, &inputs.book);
        prop_assert_eq!(&back.agreements, &inputs.agreements);
        prop_assert_eq!(&back.directory, &inputs.directory);
        let changed = documents.map(|input| InvoiceInput { document: input.document.replacen('"', "'", 1), ..input });
        prop_assert!(Inputs::read(&changed, ids).unwrap_err().contains("in the store has the hash"));
    }

    #[test]
    fn a_bill_adds_up_and_one_that_does_not_is_told(facts in plain(), book in terms(), gpus in 0u32..3, changed in any::<prop::sample::Index>(), measure in 0usize..9) {
        let agreements = Agreements { commitments: vec![committed(gpus, ONE, Slot::Hour)], ..Agreements::default() };
        let period = Period::month("2026-10", &TimeZone::UTC).unwrap();
        let mut made = statement::of_facts(&Facts { facts, ..Facts::default() }, &period, book, agreements);
        prop_assert_eq!(adds_up(&made), Ok(()));
        if !made.lines.is_empty() {
            let at = changed.index(made.lines.len());
            made.lines[at].amounts.all_mut()[measure].0 += 1;
            prop_assert!(adds_up(&made).unwrap_err().contains("its lines do not add up: "));
        }
    }

    #[test]
    fn an_invoice_and_its_corrections_are_what_all_facts_make_now(
        facts in prop::collection::vec(plain(), 3),
        book in terms(),
    ) {
        let made: Vec<Statement> = facts.into_iter().map(|facts| of(facts, &book)).collect();
        let [billed, later, now] = [0, 1, 2].map(|at: usize| &made[at].lines);
        let first = corrections::of("2026-10", later, billed, []);
        let second = corrections::of("2026-10", now, billed, &first);
        prop_assert_eq!(summed(billed.iter().chain(&first).chain(&second)), summed(now));
        let total: Millionths = billed.iter().chain(&first).chain(&second).map(|line| &line.amounts.cost).sum();
        prop_assert_eq!(total, made[2].total().cost);
        // What is corrected is not corrected again, and nothing is a line of nothing.
        let corrected: Vec<Line> = first.iter().chain(&second).cloned().collect();
        prop_assert_eq!(corrections::of("2026-10", now, billed, &corrected), []);
        prop_assert!(corrected.iter().all(|line| !line.amounts.is_zero()));
        prop_assert!(corrected.iter().all(|line| line.key.origin_month.as_deref() == Some("2026-10")));
    }
}

#[test]
fn what_was_given_by_hand_is_corrected_by_nobody() {
    let line = |category, item: &str, cost: i64| Line {
        key: Key { category, item: item.into(), ..Key::default() },
        amounts: Amounts { cost: Millionths(cost.into()), ..Amounts::default() },
    };
    let billed =
        [line(Category::Usage, "", 10), line(Category::Credit, "outage", -3), line(Category::Adjustment, "x", 5)];
    let corrected = corrections::of("2026-10", &[line(Category::Usage, "", 12)], &billed, []);
    let told: Vec<_> = corrected.iter().map(|line| (&*line.key.item, line.amounts.cost.to_string())).collect();
    assert_eq!(told, [("usage", "0.000002".to_owned())]);
    // A correction of another month that the invoice has is not one of this month's.
    let other = Line { key: corrections::key("2026-09", &Key::default()), ..billed[0].clone() };
    assert_eq!(corrections::of("2026-10", &billed, &billed, [&other]), []);
}
