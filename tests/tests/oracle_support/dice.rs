//! Random choices that are the same for the same seed.

/// A generator of random numbers (SplitMix64).
pub struct Dice(u64);

fn mix(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A whole number from 0 up to, and without, `end`.
    pub fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.0) >> 1).cast_signed().rem_euclid(end)
    }

    /// A whole number of a range, whose ends are both in it.
    pub fn between(&mut self, first: i64, last: i64) -> i64 {
        first + self.below(last - first + 1)
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len().try_into().unwrap())).unwrap()].clone()
    }

    pub fn chance(&mut self, percent: i64) -> bool {
        self.below(100) < percent
    }
}

/// A number of 0 to 99 that belongs to these numbers, and to no order in which it is asked for.
pub fn of(numbers: [u64; 3]) -> u64 {
    numbers.iter().fold(7, |state, number| mix(state ^ number)) % 100
}
