//! What pushed values are counted in.

/// A unit of time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Unit {
    /// `ns`
    Nanoseconds,
    /// `us`
    #[default]
    Microseconds,
    /// `ms`
    Milliseconds,
    /// `s`
    Seconds,
}

impl Unit {
    /// The names of units.
    pub const EXPECTED: &'static str = "ns, us, ms or s";

    /// The unit of this name.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "ns" => Some(Self::Nanoseconds),
            "us" => Some(Self::Microseconds),
            "ms" => Some(Self::Milliseconds),
            "s" => Some(Self::Seconds),
            _ => None,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Nanoseconds => "nanoseconds",
            Self::Microseconds => "microseconds",
            Self::Milliseconds => "milliseconds",
            Self::Seconds => "seconds",
        }
    }

    /// Greatest whole number of this unit that is told apart from the next one as a float of microseconds: 2^53 of them, or
    /// the last that is no more than so many; of nanoseconds 2^50 (13 days), as a thousandth of a greater one may be that of its
    /// neighbour, too.
    pub fn most(self) -> u64 {
        match self {
            Self::Nanoseconds => 1 << 50,
            Self::Microseconds => 1 << 53,
            Self::Milliseconds => (1 << 53) / 1_000,
            Self::Seconds => (1 << 53) / 1_000_000,
        }
    }

    /// So many of this unit in microseconds, rounded once at most. A greater number never becomes a lesser one.
    pub fn microseconds(self, value: f64) -> f64 {
        match self {
            Self::Nanoseconds => value / 1e3,
            Self::Microseconds => value,
            Self::Milliseconds => value * 1e3,
            Self::Seconds => value * 1e6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_stay_apart_up_to_the_greatest() {
        for (name, unit) in
            [("ns", Unit::Nanoseconds), ("us", Unit::Microseconds), ("ms", Unit::Milliseconds), ("s", Unit::Seconds)]
        {
            assert_eq!(Unit::of(name), Some(unit));
            for top in [unit.most(), unit.most() / 3, 1_000_003] {
                for value in top - 1_000..top {
                    #[expect(clippy::cast_precision_loss, reason = "at most 2^53")]
                    let of = |value: u64| unit.microseconds(value as f64);
                    assert!(of(value) < of(value + 1), "{value} {name}");
                    assert!(of(value + 1) <= 9_007_199_254_740_992.0);
                }
            }
        }
        assert_eq!(Unit::of("min"), None);
    }
}
