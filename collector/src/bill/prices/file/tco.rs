//! `[rate.tco]`: an hour of a GPU out of what its node costs.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};

use super::rates::{DIGITS, millionths};
use crate::bill::decimal::{self, ONE};
use crate::bill::document::table::Table;
use crate::bill::rate::exact::Amount;

const KEYS: [&str; 11] =
    ["capex", "residual", "years", "kw", "load", "pue", "tariff", "colocation", "staff", "gpus", "utilisation"];

/// Hours of a year of 365 days.
const YEAR_HOURS: u32 = 8_760;

/// What a node costs.
struct Node {
    capex: i128,
    residual: i128,
    years: i128,
    kw: i128,
    load: i128,
    pue: i128,
    tariff: i128,
    colocation: i128,
    staff: i128,
    gpus: u32,
    utilisation: i128,
}

/// What an hour costs, times `10^12`, and the formula with its numbers. The fraction is rounded once, half up to six digits.
pub(super) fn derive(table: &Table<'_>) -> (i128, String) {
    let before = table.count();
    let node = read(table);
    if table.count() > before {
        return Default::default();
    }
    let (year, hours) = (node.year(), node.hours());
    let hour = &year / &hours;
    let Some(hourly) = millionths(&amount(&hour)) else {
        table.wrong("capex", DIGITS);
        return Default::default();
    };
    (hourly, node.formula(&year, &hours, hourly))
}

fn read(table: &Table<'_>) -> Node {
    table.known(&KEYS);
    let share = |key: &str| {
        let value = table.needed_decimal(key);
        if table.has(key) && !(1..=ONE).contains(&value) {
            table.wrong(key, "a share above 0 and up to 1");
        }
        value
    };
    let node = Node {
        capex: table.needed_decimal("capex"),
        residual: table.decimal("residual").unwrap_or_default(),
        years: table.needed_decimal("years"),
        kw: table.needed_decimal("kw"),
        load: share("load"),
        pue: table.needed_decimal("pue"),
        tariff: table.needed_decimal("tariff"),
        colocation: table.decimal("colocation").unwrap_or_default(),
        staff: table.decimal("staff").unwrap_or_default(),
        gpus: table.needed_whole("gpus", 1..=1_000_000),
        utilisation: share("utilisation"),
    };
    for (key, fault, expected) in [
        ("residual", node.residual > node.capex, "at most capex"),
        ("years", node.years == 0, "more than 0"),
        ("pue", node.pue < ONE, "at least 1"),
    ] {
        if fault && table.has(key) {
            table.wrong(key, expected);
        }
    }
    node
}

fn fraction(value: i128) -> BigRational {
    BigRational::new(value.into(), ONE.into())
}

fn whole(value: u32) -> BigRational {
    BigRational::from(BigInt::from(value))
}

fn amount(fraction: &BigRational) -> Amount {
    Amount::new(fraction.numer().clone(), fraction.denom())
}

impl Node {
    /// What a year costs: its part of what the node loses in value, energy at the load, colocation of the power that is
    /// contracted, and staff.
    fn year(&self) -> BigRational {
        let value = (fraction(self.capex) - fraction(self.residual)) / fraction(self.years);
        let kwh = fraction(self.kw) * fraction(self.load) * whole(YEAR_HOURS) * fraction(self.pue);
        let colocation = fraction(self.colocation) * fraction(self.kw) * whole(12);
        value + kwh * fraction(self.tariff) + colocation + fraction(self.staff)
    }

    /// GPU-hours of a year that are sold.
    fn hours(&self) -> BigRational {
        whole(self.gpus) * whole(YEAR_HOURS) * fraction(self.utilisation)
    }

    fn formula(&self, year: &BigRational, hours: &BigRational, hourly: i128) -> String {
        let [capex, years, kw, load, pue, tariff] =
            [self.capex, self.years, self.kw, self.load, self.pue, self.tariff].map(number);
        let value = match self.residual {
            0 => capex,
            residual => format!("({capex} - {})", number(residual)),
        };
        let mut formula =
            format!("[{value} / {years} years + {kw} kW x {load} x {YEAR_HOURS} h x PUE {pue} x {tariff} a kWh");
        if !self.colocation.is_zero() {
            formula += &format!(" + 12 months x {kw} kW x {} of colocation", number(self.colocation));
        }
        if !self.staff.is_zero() {
            formula += &format!(" + {} of staff", number(self.staff));
        }
        let shown = |value| millionths(&amount(value)).map_or_else(|| value.to_string(), number);
        let equals = if (year * whole(1_000_000)).denom().is_one() { "=" } else { "~" };
        formula
            + &format!(
                "] a year / ({} GPUs x {YEAR_HOURS} h x {}) {equals} {} / {} = {}",
                self.gpus,
                number(self.utilisation),
                shown(year),
                shown(hours),
                decimal::format(hourly)
            )
    }
}

/// A decimal without needless zeros.
fn number(value: i128) -> String {
    decimal::format(value).trim_end_matches('0').trim_end_matches('.').to_owned()
}
