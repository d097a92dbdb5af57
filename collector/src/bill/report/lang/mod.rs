//! The languages of reports: how numbers, dates and names are written. What is said is in [`words`].

pub mod notes;
pub mod words;

use contador_schemas::owner::OwnerKind;
use jiff::Timestamp;
use jiff::civil::Date;
use num_bigint::BigInt;
use num_traits::{Signed, Zero};

pub use words::Words;

use crate::bill::period::{Period, midnight};
use crate::bill::rate::Category;

/// A language of reports.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Lang {
    /// English
    #[default]
    En,
    /// Spanish
    Es,
}

const MONTHS_EN: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const MONTHS_ES: [&str; 12] = [
    "enero",
    "febrero",
    "marzo",
    "abril",
    "mayo",
    "junio",
    "julio",
    "agosto",
    "septiembre",
    "octubre",
    "noviembre",
    "diciembre",
];

impl Lang {
    /// Its code of ISO 639, as HTML wants it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Es => "es",
        }
    }

    /// What reports say in it.
    pub const fn words(self) -> &'static Words {
        match self {
            Self::En => &words::EN,
            Self::Es => &words::ES,
        }
    }

    /// So many units of `10^-digits`, as `1,234.56` or `1.234,56`. Less than nothing has a minus sign, which is as wide as a digit.
    pub fn number(self, units: &BigInt, digits: u8) -> String {
        let (group, point) = match self {
            Self::En => (',', '.'),
            Self::Es => ('.', ','),
        };
        let digits = usize::from(digits);
        let text = format!("{:0>width$}", units.abs().to_string(), width = digits + 1);
        let (whole, part) = text.split_at(text.len() - digits);
        let mut out = if units.is_negative() { "−".to_owned() } else { String::new() };
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                out.push(group);
            }
            out.push(digit);
        }
        if digits > 0 {
            out.push(point);
            out.push_str(part);
        }
        out
    }

    /// Tenths of a hundredth, as `12.3%` or `12,3 %`.
    pub fn percent(self, tenths: &BigInt) -> String {
        let space = if self == Self::Es { "\u{a0}" } else { "" };
        format!("{}{space}%", self.number(tenths, 1))
    }

    /// The same with a plus sign where it is more than nothing.
    pub fn change(self, tenths: &BigInt) -> String {
        let sign = if tenths.is_positive() { "+" } else { "" };
        format!("{sign}{}", self.percent(tenths))
    }

    /// An amount of money with its currency, where that is one.
    pub fn money(self, units: &BigInt, digits: u8, currency: &str) -> String {
        let number = self.number(units, digits);
        match self {
            _ if currency == crate::bill::prices::NO_CURRENCY => number,
            Self::En => format!("{currency}\u{a0}{number}"),
            Self::Es => format!("{number}\u{a0}{currency}"),
        }
    }

    /// A date, as `1 October 2026` or `1 de octubre de 2026`.
    pub fn date(self, date: Date) -> String {
        let (day, month, year) = (date.day(), self.month_name(date), date.year());
        match self {
            Self::En => format!("{day} {month} {year}"),
            Self::Es => format!("{day} de {month} de {year}"),
        }
    }

    /// A day and its month in short, as `1 Oct` or `1 oct`.
    pub fn short_date(self, date: Date) -> String {
        format!("{} {}", date.day(), self.month_name(date).chars().take(3).collect::<String>())
    }

    fn month_name(self, date: Date) -> &'static str {
        let names = if self == Self::Es { MONTHS_ES } else { MONTHS_EN };
        names[usize::try_from(date.month() - 1).unwrap_or_default() % 12]
    }

    /// What a period is called: its month, or its first and its last day.
    pub fn period(self, period: &Period) -> String {
        if let Some(first) = period.month.as_ref().and_then(|month| format!("{month}-01").parse::<Date>().ok()) {
            let (month, year) = (self.month_name(first), first.year());
            return match self {
                Self::En => format!("{month} {year}"),
                Self::Es => format!("{month} de {year}"),
            };
        }
        self.span(period)
    }

    /// From when to when a period is: its first and its last day, with the time where it begins or ends within one.
    pub fn span(self, period: &Period) -> String {
        let day = |ms| Timestamp::from_millisecond(ms).map(|at| at.to_zoned_datetime(period.zone.clone()).date());
        let is_midnight = |ms| day(ms).is_ok_and(|date| midnight(date, &period.zone) == Some(ms));
        if !is_midnight(period.from) || !is_midnight(period.to) {
            return format!("{} – {}", self.instant(period.from, period), self.instant(period.to, period));
        }
        match (day(period.from), day(period.to - 1)) {
            (Ok(first), Ok(last)) if first == last => self.date(first),
            (Ok(first), Ok(last)) => format!("{} – {}", self.date(first), self.date(last)),
            _ => String::new(),
        }
    }

    /// An instant to the minute, in the period's zone.
    pub fn instant(self, ms: i64, period: &Period) -> String {
        let Ok(at) = Timestamp::from_millisecond(ms) else { return ms.to_string() };
        let at = at.to_zoned_datetime(period.zone.clone());
        format!("{}, {}", self.date(at.date()), at.strftime("%H:%M"))
    }

    /// What a category is called.
    pub const fn category(self, category: Category) -> &'static str {
        let words = self.words();
        match category {
            Category::Usage => words.usage,
            Category::Covered => words.covered,
            Category::Commitment => words.commitment,
            Category::Unused => words.unused,
            Category::Share(OwnerKind::Idle) => words.share_idle,
            Category::Share(OwnerKind::Stranded) => words.share_stranded,
            Category::Share(OwnerKind::Unattributed) => words.share_unattributed,
            Category::Share(_) => words.share_unmetered,
            Category::Energy => words.energy,
            Category::Storage => words.storage,
            Category::Network => words.network,
            Category::Markup => words.markup,
            Category::Tax => words.tax,
            Category::Credit => words.credit,
            Category::Adjustment => words.adjustment,
            Category::Correction => words.correction,
        }
    }

    /// What time that no workload held is called.
    pub const fn kind(self, kind: OwnerKind) -> &'static str {
        let words = self.words();
        match kind {
            OwnerKind::Workload => words.departments,
            OwnerKind::Idle => words.idle,
            OwnerKind::Stranded => words.stranded,
            OwnerKind::Unattributed => words.unattributed,
            OwnerKind::Unmetered => words.unmetered,
        }
    }
}

/// The part that an amount is of a whole, in tenths of a hundredth, rounded half up; `None` of nothing.
pub fn tenths(part: &BigInt, whole: &BigInt) -> Option<BigInt> {
    if whole.is_zero() {
        return None;
    }
    let (part, whole) = if whole.is_negative() { (-part, -whole) } else { (part.clone(), whole.clone()) };
    Some(num_integer::Integer::div_floor(&(part * 2_000 + &whole), &(whole * 2)))
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn numbers_are_written_as_in_the_language() {
        let units = BigInt::from(-123_456_789);
        assert_eq!(Lang::En.number(&units, 2), "−1,234,567.89");
        assert_eq!(Lang::Es.number(&units, 2), "−1.234.567,89");
        assert_eq!(Lang::En.number(&BigInt::from(7), 2), "0.07");
        assert_eq!(Lang::En.number(&BigInt::from(1_000), 0), "1,000");
        assert_eq!(Lang::Es.number(&BigInt::from(0), 6), "0,000000");
        assert_eq!(Lang::Es.money(&BigInt::from(123_456), 2, "EUR"), "1.234,56\u{a0}EUR");
        assert_eq!(Lang::En.money(&BigInt::from(123_456), 2, "EUR"), "EUR\u{a0}1,234.56");
        assert_eq!(Lang::En.money(&BigInt::from(1), 2, "XXX"), "0.01");
        assert_eq!(Lang::En.change(&BigInt::from(123)), "+12.3%");
        assert_eq!(Lang::Es.change(&BigInt::from(-5)), "−0,5\u{a0}%");
    }

    #[test]
    fn dates_are_written_as_in_the_language() {
        let day = date(2026, 9, 1);
        assert_eq!(
            (Lang::En.date(day), Lang::Es.date(day)),
            ("1 September 2026".into(), "1 de septiembre de 2026".into())
        );
        assert_eq!((Lang::En.short_date(day), Lang::Es.short_date(day)), ("1 Sep".into(), "1 sep".into()));
        let october = Period::month("2026-10", &TimeZone::UTC).unwrap();
        assert_eq!(
            (Lang::En.period(&october), Lang::Es.period(&october)),
            ("October 2026".into(), "octubre de 2026".into())
        );
        let week = Period::between("2026-10-01", "2026-10-08", &TimeZone::UTC).unwrap();
        assert_eq!(Lang::En.period(&week), "1 October 2026 – 7 October 2026");
        let part = Period::between("2026-10-01", "2026-10-01T12:30:00Z", &TimeZone::UTC).unwrap();
        assert_eq!(Lang::En.span(&part), "1 October 2026, 00:00 – 1 October 2026, 12:30");
        assert_eq!(Lang::Es.instant(october.from, &october), "1 de octubre de 2026, 00:00");
    }

    #[test]
    fn a_part_is_rounded_half_up_and_has_no_share_of_nothing() {
        let tenths = |part: i64, whole: i64| tenths(&part.into(), &whole.into());
        assert_eq!(tenths(1, 3), Some(333.into()));
        assert_eq!(tenths(2, 3), Some(667.into()));
        assert_eq!(tenths(1, 2_000), Some(1.into()));
        assert_eq!(tenths(-1, 4), Some((-250).into()));
        assert_eq!(tenths(1, -4), Some((-250).into()));
        assert_eq!(tenths(1, 0), None);
    }
}
