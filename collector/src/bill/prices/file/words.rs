//! The words of a price book, and what they mean.

use crate::bill::prices::{Basis, Spread};

/// Bases.
pub const BASES: [(&str, Basis); 3] =
    [("allocated", Basis::Allocated), ("used", Basis::Used), ("greater", Basis::Greater)];

/// Who bears nobody's time.
pub const SPREADS: [(&str, Spread); 4] = [
    ("show", Spread::Show),
    ("proportional", Spread::Proportional),
    ("even", Spread::Even),
    ("platform", Spread::Platform),
];

/// Whether gaps go to the last owner.
pub const GAPS: [(&str, bool); 2] = [("nobody", false), ("last-owner", true)];

/// Whether claims of more than a device are split.
pub const OVER_ALLOCATION: [(&str, bool); 2] = [("show", false), ("split", true)];

/// Whether energy is billed as a line.
pub const BILLING: [(&str, bool); 2] = [("included", false), ("line", true)];

/// The word for a meaning.
pub fn name<T: Copy + PartialEq>(words: &[(&'static str, T)], meaning: T) -> &'static str {
    words.iter().find(|(_, other)| *other == meaning).map_or("", |(name, _)| name)
}
