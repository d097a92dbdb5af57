//! Facts, a price book, agreements and policies to charges, exactly.
//!
//! A pure function, [`rate`]: facts of one span are put together and in order ([`merge`], in places that [`rank`] gives), so that neither their order nor their
//! batching matters;
//! [`cover`] finds what commitments cover; [`price`] finds each fact's rate and quantity; [`spread`] moves what nobody held to
//! whom the policy names; [`percentages`] adds mark-ups and taxes. Nothing is rounded and nothing is divided: sums are whole
//! numbers over few denominators, and then fractions ([`exact`]). What a charge is for is its [`key`].

pub mod cover;
pub mod exact;
pub mod key;
mod merge;
mod other;
pub mod percentages;
pub mod price;
mod rank;
pub mod spread;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use contador_schemas::owner::{Owner, OwnerKind};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use num_bigint::BigInt;

use super::commitments::Agreements;
use super::decimal::ONE;
use super::directory;
use super::facts::{Fact, Facts};
use super::period::Period;
use super::prices::{Energy, PriceBook};
use cover::Coverage;
use exact::{Amount, Exact, cost_denominator, hour, kwh};
pub use key::{Category, Key, Payer};
use rank::Ranks;

/// What facts are rated with.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The period that they are of.
    pub period: &'a Period,
    /// The price book, with its policies.
    pub book: &'a PriceBook,
    /// Commitments and budgets.
    pub agreements: &'a Agreements,
}

/// Everything of a period, rated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rated {
    /// The exact charges.
    pub charges: BTreeMap<Key, Exact>,
    /// What has no price: GPU-hours by model (with its profile), and GiB or GiB-months by class.
    pub unpriced: BTreeMap<String, Amount>,
}

/// Whole numbers that become an [`Exact`]: GPU-milliseconds times `10^12`, and millijoules. What an import can claim, 10^6 GPUs from 1970 to 2100, is 4.2 × 10^30 of the first; 40 million times that is less than an `i128` can be.
#[derive(Clone, Debug, Default)]
struct Sums {
    held: i128,
    quantity: i128,
    unpriced: i128,
    busy: i128,
    unknown: i128,
    energy: i128,
    /// Times `10^12`.
    site_energy: BigInt,
    /// Times `10^24`.
    carbon: BigInt,
}

/// Rates the facts of a period. Their owners have the departments that pay, and they are cut as
/// [`super::facts::Grain`] says. What has no price costs nothing here, and is told apart as unpriced.
pub fn rate(facts: &Facts, terms: &Terms<'_>) -> Rated {
    let mut rater = Rater { terms, days: BTreeMap::new(), sums: HashMap::new(), rated: Rated::default() };
    let merged = merge::merged(&facts.facts);
    let coverage = cover::cover(&merged, &terms.agreements.commitments, terms.period);
    for (number, fact) in merged.iter().enumerate() {
        rater.fact(fact, coverage.of_fact.get(&number).map_or(&[], Vec::as_slice));
    }
    rater.commitments(&coverage);
    let mut rated = rater.finish();
    other::rate(&facts.other, terms, &mut rated);
    spread::spread(&mut rated.charges, &terms.book.policy);
    percentages::add(&mut rated.charges, terms);
    rated
}

/// What of a fact is told in one line or another, as whole numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    held: i128,
    busy: i128,
    unknown: i128,
    energy: i128,
}

impl Parts {
    fn of(fact: &Fact) -> Self {
        Self { held: fact.allocated, busy: fact.busy, unknown: fact.unknown, energy: fact.energy_mj }
    }

    /// The part `until / whole` of it.
    fn until(fact: &Fact, until: i128, whole: i128) -> Self {
        let part = |amount| price::proportion(amount, until, whole);
        let all = Self::of(fact);
        Self { held: part(all.held), busy: part(all.busy), unknown: part(all.unknown), energy: part(all.energy) }
    }
}

impl Sums {
    /// Adds what lies between two parts of a fact.
    fn add(&mut self, until: &Parts, from: &Parts, price: Option<&Energy>) {
        self.held += until.held - from.held;
        self.busy += until.busy - from.busy;
        self.unknown += until.unknown - from.unknown;
        let energy = until.energy - from.energy;
        self.energy += energy;
        if let Some(price) = price.filter(|_| energy != 0) {
            let site = BigInt::from(energy) * price.pue;
            self.carbon += &site * price.carbon_g_per_kwh.unwrap_or(0);
            self.site_energy += site;
        }
    }
}

struct Rater<'a> {
    terms: &'a Terms<'a>,
    /// The local day of an instant.
    days: BTreeMap<i64, Option<u16>>,
    sums: HashMap<Key, Sums>,
    rated: Rated,
}

impl Rater<'_> {
    fn day(&mut self, at: i64) -> Option<u16> {
        let period = self.terms.period;
        *self.days.entry(at).or_insert_with(|| local_day(at, &period.zone).filter(|_| period.tells_days()))
    }

    fn fact(&mut self, fact: &Fact, covered: &[(usize, i128)]) {
        let book = self.terms.book;
        let price = price::price(book, fact);
        let workload = fact.kind == OwnerKind::Workload;
        let department: Arc<str> = if workload { fact.owner.department.as_str().into() } else { "".into() };
        let key = Key {
            payer: Payer { kind: fact.kind, department },
            owner: if workload { Arc::clone(&fact.owner) } else { Arc::new(Owner::of_kind(fact.kind)) },
            cost_centre: Arc::clone(&fact.cost_centre),
            gpu_model: fact.device.gpu_model.as_str().into(),
            mig_profile: fact.device.mig_profile.as_str().into(),
            consumption: price.consumption,
            day: self.day(fact.from),
            imported: fact.imported,
            simulated: fact.simulated,
            ..Key::default()
        };
        let energy = book.energy(&fact.device.node, fact.from);
        let whole =
            covered.first().map_or(0, |(at, _)| cover::covered_of(&self.terms.agreements.commitments[*at], fact));
        // What is covered is laid end to end, and what is left comes after it, so that whole numbers sum up.
        let (mut until, mut told) = (0, Parts::default());
        for (at, part) in covered {
            until += part;
            let commitment = &self.terms.agreements.commitments[*at];
            let key = Key {
                category: Category::Covered,
                item: commitment.id.as_str().into(),
                unit_price: Some(commitment.hourly),
                ..key.clone()
            };
            let parts = Parts::until(fact, until, whole);
            let sums = self.sums.entry(key).or_default();
            sums.add(&parts, &told, energy);
            sums.quantity += part;
            told = parts;
        }
        if covered.is_empty() || until < whole {
            let usage = Key { unit_price: price.rate.map(|rate| rate.hourly), ..key.clone() };
            let left = price.quantity - price::proportion(price.quantity, until, whole);
            let parts = Parts::of(fact);
            let sums = self.sums.entry(usage).or_default();
            sums.add(&parts, &told, energy);
            if price.rate.is_some() {
                sums.quantity += left;
            } else {
                let unpriced = parts.held - told.held;
                sums.unpriced += unpriced;
                if unpriced != 0 {
                    let sum = self.rated.unpriced.entry(named(fact)).or_default();
                    *sum += &Amount::new(unpriced.into(), &hour());
                }
            }
        }
        if let Some(energy) = energy.filter(|_| book.energy_is_a_line && fact.energy_mj > 0) {
            let key = Key { category: Category::Energy, unit_price: Some(energy.tariff), ..key };
            self.sums.entry(key).or_default().site_energy += BigInt::from(fact.energy_mj) * energy.pue;
        }
    }

    /// The commitments themselves, and what of them was not used.
    fn commitments(&mut self, coverage: &Coverage) {
        for (at, commitment) in self.terms.agreements.commitments.iter().enumerate() {
            let owner = Owner { department: commitment.department.clone(), ..Owner::default() };
            let key = Key {
                payer: Payer { kind: OwnerKind::Workload, department: commitment.department.as_str().into() },
                owner: Arc::new(owner),
                gpu_model: commitment.gpu_model.as_str().into(),
                mig_profile: commitment.mig_profile.as_deref().unwrap_or_default().into(),
                item: commitment.id.as_str().into(),
                unit_price: Some(commitment.hourly),
                ..Key::default()
            };
            let bought = coverage.bought[at];
            if bought == 0 {
                continue;
            }
            let sums = self.sums.entry(Key { category: Category::Commitment, ..key.clone() }).or_default();
            sums.quantity += bought;
            let unused = coverage.unused.range((at, i64::MIN)..=(at, i64::MAX));
            for ((_, begins), unused) in unused.filter(|(_, unused)| **unused > 0) {
                let key = Key { category: Category::Unused, day: self.day(*begins), ..key.clone() };
                self.sums.entry(key).or_default().quantity += unused;
            }
        }
    }

    fn finish(mut self) -> Rated {
        let denominators = [hour(), kwh(), kwh() * ONE, kwh() * ONE * ONE, cost_denominator()];
        let ranks = Ranks::of(self.sums.keys().map(|key| &key.owner));
        let mut sums: Vec<(u32, Key, Sums)> =
            self.sums.into_iter().map(|(key, sums)| (ranks.place(&key.owner), key, sums)).collect();
        sums.sort_unstable_by(|(place_of_a, a, _), (place_of_b, b, _)| {
            let owners = || place_of_a.cmp(place_of_b);
            a.payer.cmp(&b.payer).then_with(|| a.category.cmp(&b.category)).then_with(owners).then_with(|| a.cmp(b))
        });
        let charges = sums.into_iter().map(|(_, key, sums)| {
            let exact = sums.exact(&key, &denominators);
            (key, exact)
        });
        self.rated.charges = charges.collect();
        self.rated
    }
}

impl Sums {
    /// As fractions over those of an hour, a kWh, a kWh of the site, its price, and that of an hour. All of a key's facts have one price.
    fn exact(self, key: &Key, [hour, kwh, site, of_site, of_hour]: &[BigInt; 5]) -> Exact {
        let price = key.unit_price.unwrap_or_default();
        let site_energy = Amount::new(self.site_energy, site);
        let is_energy = key.category == Category::Energy;
        let worth = if is_energy {
            Amount::new(&site_energy.numerator * price, of_site)
        } else {
            Amount::new(BigInt::from(self.quantity) * price, of_hour)
        };
        let nobodys = key.payer.kind != OwnerKind::Workload;
        // What a commitment covers is paid for by its purchase.
        let (cost, effective) = match key.category {
            Category::Covered if nobodys => (Amount::default(), Amount::default()),
            Category::Covered | Category::Unused => (Amount::default(), worth),
            Category::Commitment => (worth, Amount::default()),
            _ => (worth.clone(), worth),
        };
        Exact {
            gpu_hours: Amount::new(self.held.into(), hour),
            quantity: if is_energy { site_energy.clone() } else { Amount::new(self.quantity.into(), hour) },
            unpriced: Amount::new(self.unpriced.into(), hour),
            busy: Amount::new(self.busy.into(), hour),
            unknown: Amount::new(self.unknown.into(), hour),
            energy: Amount::new(self.energy.into(), kwh),
            site_energy: if is_energy { Amount::default() } else { site_energy },
            carbon: Amount::new(self.carbon, of_site),
            cost,
            effective,
        }
    }
}

/// What a price would have to be for.
fn named(fact: &Fact) -> String {
    let device = &fact.device;
    if fact.is_partition() {
        format!("{} MIG {}", device.gpu_model, device.mig_profile)
    } else {
        device.gpu_model.clone()
    }
}

/// The local day of a Unix millisecond, in days since 1970.
pub fn local_day(at: i64, zone: &TimeZone) -> Option<u16> {
    let instant = Timestamp::from_millisecond(at).ok()?;
    directory::day(instant.to_zoned_datetime(zone.clone()).date())
}
