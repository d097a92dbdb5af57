//! What a closed month would come to now, less what was billed of it: lines of the next open month.
//!
//! Each line is corrected by one of its own, whose key is that of the line it corrects, with its category in the item. So the lines of
//! the invoice and all corrections of its month sum to the lines that its facts now make with its own inputs, line by line.

use std::collections::BTreeMap;
use std::ops::SubAssign;

use crate::bill::rate::{Category, Key};
use crate::bill::settle::{Amounts, Line};

/// Whether a line is made of facts; others are added to a bill by hand, or correct another one.
pub const fn is_rated(category: Category) -> bool {
    !matches!(category, Category::Credit | Category::Adjustment | Category::Correction)
}

/// The key of what corrects a line of a month.
pub fn key(month: &str, of: &Key) -> Key {
    let category = of.category.as_str();
    let item = if of.item.is_empty() { category.to_owned() } else { format!("{category}: {}", of.item) };
    Key { category: Category::Correction, item: item.into(), origin_month: Some(month.into()), ..of.clone() }
}

/// What corrects a month: what its facts make now, less what was billed, less what was corrected of it before. Lines are in
/// the order of their keys, and none is nothing.
pub fn of<'a>(month: &str, now: &[Line], billed: &[Line], earlier: impl IntoIterator<Item = &'a Line>) -> Vec<Line> {
    let mut differences: BTreeMap<Key, Amounts> = BTreeMap::new();
    let rated = |line: &&Line| is_rated(line.key.category);
    for line in now.iter().filter(rated) {
        *differences.entry(key(month, &line.key)).or_default() += &line.amounts;
    }
    for line in billed.iter().filter(rated) {
        *differences.entry(key(month, &line.key)).or_default() -= &line.amounts;
    }
    let is_of =
        |line: &&Line| line.key.category == Category::Correction && line.key.origin_month.as_deref() == Some(month);
    for line in earlier.into_iter().filter(is_of) {
        *differences.entry(line.key.clone()).or_default() -= &line.amounts;
    }
    let lines = differences.into_iter().filter(|(_, amounts)| !amounts.is_zero());
    lines.map(|(key, amounts)| Line { key, amounts }).collect()
}

impl SubAssign<&Self> for Amounts {
    fn sub_assign(&mut self, other: &Self) {
        for (sum, amount) in self.all_mut().into_iter().zip(other.all()) {
            sum.0 -= &amount.0;
        }
    }
}
