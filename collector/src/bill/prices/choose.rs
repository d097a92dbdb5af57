//! Which rate of a book applies.

use contador_schemas::owner::Owner;

use super::book::{Energy, PriceBook, Rate};
use super::{ANY, Consumption};
use crate::bill::facts::Device;

impl PriceBook {
    /// The most specific rate for the device, of which the latest is valid at a Unix millisecond; nothing if it is unpriced.
    ///
    /// An own model goes before `*`, then an own MIG profile before `*`, then a rate with an environment before one without, and
    /// then one with a consumption model before one without.
    pub fn rate(&self, device: &Device, owner: &Owner, consumption: Option<Consumption>, at_ms: i64) -> Option<&Rate> {
        let second = at_ms.div_euclid(1_000);
        let applies = |rate: &&Rate| {
            (rate.gpu_model == ANY || rate.gpu_model == device.gpu_model)
                && match rate.mig_profile.as_deref() {
                    None => device.mig_profile.is_empty(),
                    Some(profile) => {
                        !device.mig_profile.is_empty() && (profile == ANY || profile == device.mig_profile)
                    }
                }
                && rate.environment.as_ref().is_none_or(|environment| *environment == owner.environment)
                && (rate.consumption.is_none() || rate.consumption == consumption)
                && i64::from(rate.valid_from) <= second
        };
        self.rates.iter().filter(applies).max_by_key(|rate| (rate.specificity(), rate.valid_from))
    }

    /// What energy costs on the node at a Unix millisecond: an entry that names the node goes before one that names none.
    pub fn energy(&self, node: &str, at_ms: i64) -> Option<&Energy> {
        let second = at_ms.div_euclid(1_000);
        let applies = |energy: &&Energy| {
            let here = energy.nodes.is_empty() || energy.nodes.iter().any(|glob| glob.matches(node));
            here && i64::from(energy.valid_from) <= second
        };
        self.energy.iter().filter(applies).max_by_key(|energy| (!energy.nodes.is_empty(), energy.valid_from))
    }

    /// The Unix milliseconds inside a period at which some price changes, in order.
    pub fn changes(&self, from: i64, to: i64) -> Vec<i64> {
        let rates = self.rates.iter().map(|rate| rate.valid_from);
        let energy = self.energy.iter().map(|energy| energy.valid_from);
        let storage = self.storage.iter().map(|rate| rate.valid_from);
        let seconds = rates.chain(energy).chain(storage).chain(self.network.iter().map(|rate| rate.valid_from));
        let mut changes: Vec<i64> = seconds.map(|second| i64::from(second) * 1_000).collect();
        changes.retain(|change| from < *change && *change < to);
        changes.sort_unstable();
        changes.dedup();
        changes
    }
}

impl Rate {
    fn specificity(&self) -> (bool, bool, bool, bool) {
        let own_profile = self.mig_profile.as_deref().is_some_and(|profile| profile != ANY);
        (self.gpu_model != ANY, own_profile, self.environment.is_some(), self.consumption.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(gpu_model: &str, mig_profile: &str) -> Device {
        Device { gpu_model: gpu_model.to_owned(), mig_profile: mig_profile.to_owned(), ..Device::default() }
    }

    #[test]
    fn a_rate_is_valid_until_the_next_and_any_model_has_that_of_the_star() {
        let book = PriceBook::new("EUR").with("A", 100, 5).with("A", 200, 7);
        let nobody = Owner::default();
        assert_eq!(book.rate(&device("A", ""), &nobody, None, 99_999), None);
        let book = book.with("*", 0, 1);
        for (model, at, rate) in
            [("A", 99_999, 1), ("A", 100_000, 5), ("A", 199_999, 5), ("A", 200_000, 7), ("B", 0, 1)]
        {
            assert_eq!(book.rate(&device(model, ""), &nobody, None, at).unwrap().hourly, rate, "{model} at {at}");
        }
        assert_eq!(book.changes(0, 200_000), [100_000]);
        assert_eq!(book.changes(0, 200_001), [100_000, 200_000]);
        assert_eq!(book.rate(&device("B", "1g.5gb"), &nobody, None, 0), None);
    }

    #[test]
    fn the_most_specific_rate_goes_first() {
        let of = |model: &str, profile: Option<&str>, environment: Option<&str>, consumption, hourly| Rate {
            mig_profile: profile.map(str::to_owned),
            environment: environment.map(str::to_owned),
            consumption,
            ..Rate::of(model, hourly)
        };
        let mut book = PriceBook::new("EUR");
        book.rates = vec![
            of("*", None, Some("production"), Some(Consumption::Exclusive), 1),
            of("A", None, None, None, 2),
            of("A", None, None, Some(Consumption::Exclusive), 3),
            of("A", None, Some("production"), None, 4),
            of("A", Some("*"), Some("production"), None, 5),
            of("A", Some("1g.5gb"), None, None, 6),
        ];
        let production = Owner { environment: "production".into(), ..Owner::default() };
        let test = Owner::default();
        for (owner, profile, consumption, hourly) in [
            (&test, "", Consumption::TimeSharing, 2),
            (&test, "", Consumption::Exclusive, 3),
            (&production, "", Consumption::Exclusive, 4),
            (&production, "2g.10gb", Consumption::Fraction, 5),
            (&production, "1g.5gb", Consumption::Fraction, 6),
        ] {
            assert_eq!(book.rate(&device("A", profile), owner, Some(consumption), 0).unwrap().hourly, hourly);
        }
        assert_eq!(book.rate(&device("A", "2g.10gb"), &test, None, 0), None);
        assert_eq!(book.rate(&device("B", ""), &production, Some(Consumption::Exclusive), 0).unwrap().hourly, 1);
    }
}
