//! Made-up latencies: the same numbers for the same seed. Each is a whole number of nanoseconds.

/// Nanoseconds.
const US: f64 = 1e3;
const MS: f64 = 1e6;
const S: f64 = 1e9;
const H: f64 = 3.6e12;

/// Greatest value, in nanoseconds: 2^50, 13 days.
const MOST: f64 = 1_125_899_906_842_624.0;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Evenly spread over `[0, 1)`.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Over `(0, 1]`.
    fn positive(&mut self) -> f64 {
        1.0 - self.unit()
    }

    /// By Box and Muller, one of each pair.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.positive().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.positive().ln()
    }

    fn pareto(&mut self, least: f64, alpha: f64) -> f64 {
        least * self.positive().powf(-1.0 / alpha)
    }

    fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }
}

/// One of the distributions.
pub struct Distribution {
    pub name: &'static str,
    /// Whether its values are whole microseconds.
    pub whole: bool,
    draw: fn(&mut Random) -> f64,
}

impl Distribution {
    /// So many values, in nanoseconds.
    pub fn values(&self, seed: u64, count: usize) -> Vec<u64> {
        let mut random = Random::new(seed);
        let one = |_| {
            let ns = (self.draw)(&mut random).min(MOST) as u64;
            if self.whole { ns - ns % 1_000 } else { ns }
        };
        (0..count).map(one).collect()
    }
}

const fn distribution(name: &'static str, whole: bool, draw: fn(&mut Random) -> f64) -> Distribution {
    Distribution { name, whole, draw }
}

/// All of them.
pub const DISTRIBUTIONS: [Distribution; 20] = [
    distribution("lognormal-narrow", true, |random| random.lognormal(50.0 * MS, 0.25)),
    distribution("lognormal-half", true, |random| random.lognormal(0.5 * S, 0.5)),
    distribution("lognormal-one", false, |random| random.lognormal(2.0 * S, 1.0)),
    distribution("lognormal-wide", true, |random| random.lognormal(0.2 * S, 1.5)),
    distribution("lognormal-widest", false, |random| random.lognormal(20.0 * MS, 2.5)),
    distribution("bimodal", true, |random| {
        let median = if random.unit() < 0.9 { 30.0 * MS } else { 3.0 * S };
        random.lognormal(median, 0.2)
    }),
    distribution("pareto-heavy", true, |random| random.pareto(10.0 * MS, 1.1)),
    distribution("pareto-light", false, |random| random.pareto(MS, 2.0)),
    distribution("constant", true, |_| 250.0 * MS),
    // On a bound of vLLM's.
    distribution("constant-on-a-bound", true, |_| 300.0 * MS),
    distribution("with-zeros", true, |random| if random.unit() < 0.3 { 0.0 } else { random.exponential(100.0 * MS) }),
    distribution("mostly-zeros", false, |random| if random.unit() < 0.995 { 0.0 } else { random.exponential(S) }),
    distribution("over-any-bound", true, |random| random.between(3.0 * H, 10.0 * H)),
    distribution("uniform", true, |random| random.between(0.0, 2.0 * S)),
    distribution("exponential", false, |random| random.exponential(80.0 * MS)),
    distribution("two-points", true, |random| if random.unit() < 0.989 { 10.0 * MS } else { 10.0 * S }),
    distribution("tiny", false, |random| random.between(0.0, US)),
    distribution("microseconds", false, |random| random.lognormal(5.0 * US, 1.0)),
    distribution("hours", true, |random| random.lognormal(H, 1.0)),
    distribution("partly-over-bounds", true, |random| {
        if random.unit() < 0.6 { random.lognormal(100.0 * MS, 0.4) } else { random.between(2.0 * H, 4.0 * H) }
    }),
];
