//! What an hour of a GPU costs on demand, reserved, and in parts, in each span of a period.

use std::collections::BTreeSet;

use contador_schemas::owner::Owner;
use num_bigint::BigInt;

use super::sql::Span;
use crate::bill::decimal::{ONE, format};
use crate::bill::facts::Device;
use crate::bill::prices::{ANY, Basis, Consumption, PriceBook};

/// What a reserved hour costs, where that was told beside the book.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reserved {
    /// So much, times `10^12` of a currency unit.
    Hourly(i128),
    /// So much less than on demand: a part of it, times `10^12`, at most one.
    Discount(i128),
}

/// Rates in one span.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rates {
    /// On demand, an hour, times `10^12` of a currency unit.
    pub on_demand: i128,
    /// Reserved, an hour, times `10^24`.
    pub reserved: BigInt,
    /// Of a whole GPU that is held in parts, an hour, times `10^12`.
    pub parts: i128,
}

/// Rates in every span of a period, and where they are from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dated {
    /// One for each span.
    pub rates: Vec<Rates>,
    /// Where the reserved rate is from, for people.
    pub reserved_from: String,
    /// Where the rate of parts is from, for people.
    pub parts_from: &'static str,
    /// What the plan does not know of the rates, for people.
    pub notes: BTreeSet<String>,
}

/// Why there is no plan for a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoRate {
    /// The book has none.
    OnDemand,
    /// The book has no exclusive one, and none was told.
    Reserved,
}

/// Finds the rates of a model. What was told of the reserved rate goes before what the book says.
///
/// # Errors
/// [`NoRate`], where one is missing in some span.
pub fn find(book: &PriceBook, gpu_model: &str, spans: &[Span], told: Option<Reserved>) -> Result<Dated, NoRate> {
    let whole = Device { gpu_model: gpu_model.to_owned(), ..Device::default() };
    let part = Device { mig_profile: ANY.to_owned(), ..whole.clone() };
    let nobody = Owner::default();
    let mut dated = Dated {
        rates: Vec::with_capacity(spans.len()),
        reserved_from: match told {
            None => "the book's exclusive rate".to_owned(),
            Some(Reserved::Hourly(hourly)) => format!("--reserved-hourly {}", format(hourly)),
            Some(Reserved::Discount(part)) => {
                let percent = format(part * 100);
                format!("--discount {}%", percent.strip_suffix(".00").unwrap_or(&percent))
            }
        },
        parts_from: "",
        notes: BTreeSet::new(),
    };
    for (from, _) in spans {
        let rate = |device, consumption| book.rate(device, &nobody, Some(consumption), *from);
        let own = |consumption| rate(&whole, consumption).filter(|rate| rate.consumption == Some(consumption));
        let on_demand = rate(&whole, Consumption::TimeSharing).ok_or(NoRate::OnDemand)?;
        let reserved = match told {
            Some(Reserved::Hourly(hourly)) => BigInt::from(hourly) * ONE,
            Some(Reserved::Discount(part)) => BigInt::from(on_demand.hourly) * (ONE - part),
            None => BigInt::from(own(Consumption::Exclusive).ok_or(NoRate::Reserved)?.hourly) * ONE,
        };
        let in_parts = [
            ("the book's rate for fractions", own(Consumption::Fraction)),
            ("the book's rate for parts of a GPU", rate(&part, Consumption::Fraction)),
            ("the rate on demand, times the part", Some(on_demand)),
        ];
        let (parts_from, parts) = in_parts
            .into_iter()
            .find_map(|(name, rate)| Some((name, rate?.hourly)))
            .unwrap_or(("the rate on demand, times the part", on_demand.hourly));
        dated.parts_from = parts_from;
        if on_demand.is_by_session() || on_demand.basis != Basis::Allocated {
            let note =
                format!("{gpu_model}: on demand is what was held, to the millisecond; the book bills it otherwise");
            dated.notes.insert(note);
        }
        dated.rates.push(Rates { on_demand: on_demand.hourly, reserved, parts });
    }
    let own = |rate: &&crate::bill::prices::Rate| rate.gpu_model == gpu_model && rate.environment.is_some();
    if book.rates.iter().any(|rate| own(&rate)) {
        dated.notes.insert(format!("{gpu_model}: rates of single environments are left out"));
    }
    Ok(dated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::prices::Rate;

    fn rate(mig_profile: Option<&str>, consumption: Option<Consumption>, valid_from: u32, hourly: i128) -> Rate {
        Rate { mig_profile: mig_profile.map(str::to_owned), consumption, valid_from, ..Rate::of("A", hourly * ONE) }
    }

    #[test]
    fn rates_are_the_books_and_what_is_told_goes_first() {
        let mut book = PriceBook::new("EUR").with("A", 0, 4 * ONE).with("A", 60, 5 * ONE);
        let spans = [(0, 60_000), (60_000, 120_000)];
        assert_eq!(find(&book, "B", &spans, None), Err(NoRate::OnDemand));
        assert_eq!(find(&book, "A", &spans, None), Err(NoRate::Reserved));
        let told = find(&book, "A", &spans, Some(Reserved::Discount(ONE / 4))).unwrap();
        let of = |dated: &Dated| -> Vec<(i128, String, i128)> {
            dated
                .rates
                .iter()
                .map(|r| {
                    (r.on_demand / ONE, (&r.reserved * 100_i32 / BigInt::from(ONE).pow(2)).to_string(), r.parts / ONE)
                })
                .collect()
        };
        assert_eq!(of(&told), [(4, "300".to_owned(), 4), (5, "375".to_owned(), 5)]);
        assert_eq!(told.reserved_from, "--discount 25%");
        assert_eq!(told.parts_from, "the rate on demand, times the part");
        book.rates.push(rate(Some(ANY), None, 0, 6));
        book.rates.push(rate(None, Some(Consumption::Exclusive), 0, 2));
        let of_book = find(&book, "A", &spans, None).unwrap();
        assert_eq!(of(&of_book), [(4, "200".to_owned(), 6), (5, "200".to_owned(), 6)]);
        assert_eq!(of_book.parts_from, "the book's rate for parts of a GPU");
        book.rates.push(rate(None, Some(Consumption::Fraction), 0, 7));
        let of_book = find(&book, "A", &spans, Some(Reserved::Hourly(ONE))).unwrap();
        assert_eq!(of(&of_book), [(4, "100".to_owned(), 7), (5, "100".to_owned(), 7)]);
        assert!(of_book.notes.is_empty());
    }
}
