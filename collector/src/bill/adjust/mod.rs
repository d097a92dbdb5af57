//! What is added to a bill by hand: credits and charges, and what departments say of it.
//!
//! An [`Entry`] says what somebody wants; it becomes a row of the [`table`] `adjustments`, whose id is a hash of what it says, so that
//! the same entry twice is one. Amounts are added to a statement as they are ([`lines`]), after everything else was rounded.
//! [`claims`] are what departments said last of a month: those change no amount.

pub mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use contador_schemas::owner::Owner;
use contador_schemas::rows::Adjustment;
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use sha2::{Digest, Sha256};

use super::decimal::{self, Millionths, ONE};
use super::prices::hex;
use super::rate::{Category, Key, Payer};
use super::settle::{Amounts, Line};

/// What an entry is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Something given back: a negative amount.
    Credit,
    /// Something charged: a positive amount.
    Charge,
    /// The department disputes its bill.
    Dispute,
    /// The department accepts its bill.
    Accept,
    /// A dispute is over.
    Resolve,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Credit, Self::Charge, Self::Dispute, Self::Accept, Self::Resolve];

    /// Its name in tables and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Credit => "credit",
            Self::Charge => "charge",
            Self::Dispute => "dispute",
            Self::Accept => "accept",
            Self::Resolve => "resolve",
        }
    }

    /// The one of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether it changes an amount.
    pub const fn is_amount(self) -> bool {
        matches!(self, Self::Credit | Self::Charge)
    }
}

/// What somebody enters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// In whose bill.
    pub month: String,
    /// Whose.
    pub department: String,
    /// Of which project; empty for the department as a whole.
    pub project: String,
    /// What it is.
    pub kind: Kind,
    /// Millionths of a currency unit: negative for a credit, positive for a charge, else 0.
    pub amount: i128,
    /// Why.
    pub reason: String,
    /// Month that it is for, where that is another one.
    pub origin_month: String,
    /// Line of a bill that it is for.
    pub line: String,
    /// Number of a ticket or a document.
    pub reference: String,
    /// Id of the one that it takes back.
    pub withdraws: String,
}

/// What a department says of its bill.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim {
    /// [`Kind::Dispute`] or [`Kind::Accept`].
    pub kind: Kind,
    /// Why.
    pub reason: String,
    /// Unix milliseconds.
    pub at: i64,
    /// Who said so.
    pub who: String,
}

/// Reads an amount such as `-50.00` as millionths.
///
/// # Errors
/// What was expected.
pub fn amount(text: &str) -> Result<i128, &'static str> {
    const SHAPE: &str = "a decimal other than 0 such as -50.00, with at most 6 digits after the point";
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let units = decimal::parse(digits).map_err(|_| SHAPE)?;
    let scale = ONE / 1_000_000;
    if units == 0 || units % scale != 0 {
        return Err(SHAPE);
    }
    Ok(sign * units / scale)
}

impl Entry {
    /// The row of it.
    pub fn row(&self, currency: &str, at: i64, who: &str) -> Adjustment {
        let mut row = Adjustment {
            id: String::new(),
            month: self.month.clone(),
            department: self.department.clone(),
            project: self.project.clone(),
            kind: self.kind.as_str().to_owned(),
            amount: self.amount,
            currency: if self.kind.is_amount() { currency.to_owned() } else { String::new() },
            reason: self.reason.clone(),
            origin_month: self.origin_month.clone(),
            line: self.line.clone(),
            reference: self.reference.clone(),
            withdraws: self.withdraws.clone(),
            at,
            who: who.to_owned(),
        };
        row.id = id(&row);
        row
    }
}

/// Hash of what a row says. When and by whom is part of what a department says, and not of an amount: the same amount twice is one.
fn id(row: &Adjustment) -> String {
    let when = if Kind::parse(&row.kind).is_some_and(Kind::is_amount) { 0 } else { row.at };
    let texts = [&row.month, &row.department, &row.project, &row.kind, &row.currency, &row.reason];
    let others = [&row.origin_month, &row.line, &row.reference, &row.withdraws];
    let texts: String = texts.iter().chain(&others).map(|text| format!("{}:{text}\n", text.len())).collect();
    hex(&Sha256::digest(format!("contador adjustment 1\n{} {when}\n{texts}", row.amount)))[..16].to_owned()
}

/// Hash of a month's rows that change an amount, whatever their order: 64 hexadecimal digits.
pub fn hash(rows: &[Adjustment]) -> String {
    let mut ids: Vec<String> =
        amounts(rows).map(|row| format!("{} {} {} {}\n", row.id, id(row), row.at, row.who)).collect();
    ids.sort();
    hex(&Sha256::digest(format!("contador adjustments 1\n{}", ids.concat())))
}

fn amounts(rows: &[Adjustment]) -> impl Iterator<Item = &Adjustment> {
    rows.iter().filter(|row| Kind::parse(&row.kind).is_some_and(Kind::is_amount))
}

/// The lines of a month's rows, in the order of their keys.
pub fn lines(rows: &[Adjustment]) -> Vec<Line> {
    let mut lines: BTreeMap<Key, Amounts> = BTreeMap::new();
    for row in amounts(rows) {
        let owner = Owner { department: row.department.clone(), project: row.project.clone(), ..Owner::default() };
        let key = Key {
            payer: Payer { department: row.department.as_str().into(), ..Payer::default() },
            category: if row.amount < 0 { Category::Credit } else { Category::Adjustment },
            owner: Arc::new(owner),
            item: item(row).into(),
            origin_month: Some(row.origin_month.as_str().into()).filter(|_| !row.origin_month.is_empty()),
            ..Key::default()
        };
        let amount = Millionths(BigInt::from(row.amount));
        let amounts = Amounts { cost: amount.clone(), effective: amount, ..Amounts::default() };
        *lines.entry(key).or_default() += &amounts;
    }
    lines.into_iter().map(|(key, amounts)| Line { key, amounts }).collect()
}

/// What a line of a row is called: the reason, and what it refers to.
fn item(row: &Adjustment) -> String {
    let [line, reference] = [&row.line, &row.reference].map(|text| Some(text).filter(|text| !text.is_empty()));
    let line = line.map(|line| format!(" of {line}")).unwrap_or_default();
    let reference = reference.map(|reference| format!(" ({reference})")).unwrap_or_default();
    format!("{}{line}{reference}", row.reason)
}

/// What each department said last of a month, unless that is over.
pub fn claims(rows: &[Adjustment]) -> BTreeMap<String, Claim> {
    let mut said: Vec<(&Adjustment, Kind)> =
        rows.iter().filter_map(|row| Some((row, Kind::parse(&row.kind).filter(|kind| !kind.is_amount())?))).collect();
    said.sort_by(|(one, _), (other, _)| (one.at, &one.id).cmp(&(other.at, &other.id)));
    let mut claims = BTreeMap::new();
    for (row, kind) in said {
        if kind == Kind::Resolve {
            claims.remove(&row.department);
        } else {
            let claim = Claim { kind, reason: row.reason.clone(), at: row.at, who: row.who.clone() };
            claims.insert(row.department.clone(), claim);
        }
    }
    claims
}

/// An amount of a row, for people.
pub fn shown(amount: i128) -> String {
    let millionths = Millionths(BigInt::from(amount));
    debug_assert_eq!(millionths.0.to_i128(), Some(amount));
    millionths.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Kind, amount: i128) -> Entry {
        let text = String::new;
        Entry {
            month: "2026-10".into(),
            department: "research".into(),
            project: text(),
            kind,
            amount,
            reason: "outage".into(),
            origin_month: text(),
            line: text(),
            reference: text(),
            withdraws: text(),
        }
    }

    #[test]
    fn an_amount_has_at_most_six_digits_and_is_not_nothing() {
        for (text, value) in [("-50.00", -50_000_000), ("0.000001", 1), ("-0.5", -500_000), ("12", 12_000_000)] {
            assert_eq!(amount(text), Ok(value), "{text}");
        }
        for text in ["0", "-0.00", "0.0000001", "1e3", "+5", "--5", "", "-", "5,00", "1.0000000000001"] {
            assert!(amount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_same_amount_twice_is_one_and_a_reference_tells_two_apart() {
        let one = entry(Kind::Credit, -5);
        assert_eq!(one.row("EUR", 1, "a").id, one.row("EUR", 2, "b").id);
        let other = Entry { reference: "T-2".into(), ..one.clone() };
        assert_ne!(one.row("EUR", 1, "a").id, other.row("EUR", 1, "a").id);
        let dispute = entry(Kind::Dispute, 0);
        assert_ne!(dispute.row("EUR", 1, "a").id, dispute.row("EUR", 2, "a").id);
    }

    #[test]
    fn a_credit_is_a_negative_line_and_a_charge_a_positive_one() {
        let rows = [entry(Kind::Credit, -5).row("EUR", 1, "a"), entry(Kind::Charge, 7).row("EUR", 1, "a")];
        let rows = [&rows[..], &[entry(Kind::Dispute, 0).row("EUR", 1, "a")]].concat();
        let told: Vec<_> =
            lines(&rows).into_iter().map(|line| (line.key.category, line.amounts.cost.to_string())).collect();
        let expected = [(Category::Credit, "-0.000005".to_owned()), (Category::Adjustment, "0.000007".to_owned())];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_was_said_last_counts() {
        let say = |kind, at| entry(kind, 0).row("EUR", at, "a");
        let kinds = |rows: &[Adjustment]| claims(rows).into_values().map(|claim| claim.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&[say(Kind::Accept, 2), say(Kind::Dispute, 1)]), [Kind::Accept]);
        assert_eq!(kinds(&[say(Kind::Dispute, 3), say(Kind::Accept, 2)]), [Kind::Dispute]);
        assert_eq!(kinds(&[say(Kind::Dispute, 3), say(Kind::Resolve, 4)]), []);
        assert_eq!(kinds(&[entry(Kind::Credit, -5).row("EUR", 9, "a")]), []);
    }

    #[test]
    fn a_hash_is_of_the_amounts_whatever_their_order_and_finds_a_changed_one() {
        let [one, two] = [-5, 7].map(|amount| entry(if amount < 0 { Kind::Credit } else { Kind::Charge }, amount));
        let [one, two] = [one.row("EUR", 1, "a"), two.row("EUR", 1, "a")];
        let whole = hash(&[one.clone(), two.clone()]);
        assert_eq!(hash(&[two.clone(), one.clone()]), whole);
        assert_ne!(hash(&[Adjustment { amount: -6, ..one.clone() }, two]), whole);
        assert_ne!(hash(&[one]), whole);
    }
}
