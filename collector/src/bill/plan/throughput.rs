//! What one GPU can do within a target, as measured: the most requests a second and GPU at which the target was met.
//!
//! Of windows of five minutes, each has requests, held GPUs, and an interval for the quantile. The target was met where the interval's
//! upper end is within it, and missed where its lower end is above; between, and with too few requests, nothing is known. Of the
//! windows that met it, ordered by requests a second and GPU, the one counts below which too few remain: it takes that many windows, not one
//! lucky one.

use contador_schemas::quantile::{Answer, Quantile, State};
use num_bigint::BigInt;
use num_rational::BigRational;
use thiserror::Error;

use crate::bill::decimal::ONE;

/// Length of a window, seconds.
pub const WINDOW_S: u32 = 300;

/// A quantile that is to be within a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Which.
    pub quantile: Quantile,
    /// Microseconds.
    pub us: f64,
}

/// What is known of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Millionths of requests.
    pub requests: i128,
    /// GPUs that were held, GPU-milliseconds times `10^12`.
    pub held: i128,
    /// The quantile.
    pub answer: Option<Answer>,
}

/// What a GPU can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Requests a second.
    pub per_gpu: BigRational,
    /// Windows that met the target.
    pub met: usize,
    /// Of them, those with at least as many requests a second and GPU.
    pub at_least: usize,
    /// Windows that missed the target.
    pub missed: usize,
    /// Of them, those with no more requests a second and GPU.
    pub missed_below: usize,
    /// Windows of which it is not known: too few requests, or buckets that are too wide.
    pub unknown: usize,
}

/// Why it is not known.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum Missing {
    /// No requests, or none with GPUs or latencies.
    #[error(
        "what a GPU can do is not measured: of {windows} windows of 5 minutes with requests, {held} have held GPUs of this service (ledger or \
         imported allocations) and {timed} have latencies, expected both; give --per-gpu-rps"
    )]
    Parts {
        /// Windows with requests.
        windows: usize,
        /// Those with held GPUs.
        held: usize,
        /// Those with latencies.
        timed: usize,
    },
    /// The target was not met in enough windows.
    #[error(
        "what a GPU can do is not measured: {met} windows of 5 minutes met the target, {missed} missed it, and of {unknown} it is not known (too \
         few requests, or buckets that are too wide), expected at least {least} that met it; give --per-gpu-rps"
    )]
    TooFew {
        /// Those that met it.
        met: usize,
        /// Those that missed it.
        missed: usize,
        /// Those of which it is not known.
        unknown: usize,
        /// Fewest that must meet it.
        least: usize,
    },
}

/// Whether a target was met; `None` if that is not known.
fn is_met(answer: &Answer, target: Target) -> Option<bool> {
    match (answer.state, answer.low, answer.high) {
        (State::Ok | State::Unresolved, _, Some(high)) if high <= target.us => Some(true),
        // Even of too few or censored requests a lower bound holds; but too few are no measure of a GPU.
        (State::Ok | State::Unresolved | State::Censored, Some(low), _) if low > target.us => Some(false),
        _ => None,
    }
}

/// The most requests a second and GPU at which at least `least` windows met the target.
///
/// # Errors
/// [`Missing`].
pub fn measure(windows: &[Window], target: Target, least: usize) -> Result<Measured, Missing> {
    let served: Vec<&Window> = windows.iter().filter(|window| window.requests > 0).collect();
    let whole: Vec<(BigRational, &Answer)> = served
        .iter()
        .filter(|window| window.held > 0)
        .filter_map(|window| Some((per_gpu(window), window.answer.as_ref().filter(|answer| answer.n > 0)?)))
        .collect();
    if whole.is_empty() {
        let timed = |window: &&&Window| window.answer.as_ref().is_some_and(|answer| answer.n > 0);
        return Err(Missing::Parts {
            windows: served.len(),
            held: served.iter().filter(|window| window.held > 0).count(),
            timed: served.iter().filter(timed).count(),
        });
    }
    let of = |wanted: Option<bool>| {
        let chosen = whole.iter().filter(|(_, answer)| is_met(answer, target) == wanted);
        let mut rates: Vec<&BigRational> = chosen.map(|(rate, _)| rate).collect();
        rates.sort_unstable();
        rates
    };
    let (met, missed, unknown) = (of(Some(true)), of(Some(false)), of(None));
    let place = met.len().checked_sub(least.max(1));
    let Some(rate) = place.and_then(|at| met.get(at)) else {
        return Err(Missing::TooFew {
            met: met.len(),
            missed: missed.len(),
            unknown: unknown.len(),
            least: least.max(1),
        });
    };
    Ok(Measured {
        per_gpu: (*rate).clone(),
        met: met.len(),
        at_least: met.iter().filter(|other| *other >= rate).count(),
        missed: missed.len(),
        missed_below: missed.iter().filter(|other| *other <= rate).count(),
        unknown: unknown.len(),
    })
}

/// Requests a second and GPU: `requests / seconds ÷ (held / window)`.
fn per_gpu(window: &Window) -> BigRational {
    // Millionths over seconds, and GPU-milliseconds times 10^12 over the window's milliseconds: the window's length falls out.
    BigRational::new(BigInt::from(window.requests) * 1_000 * ONE, BigInt::from(window.held) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { quantile: Quantile::P95, us: 50_000.0 };

    /// So many requests a second on so many GPUs, and the interval of the quantile in milliseconds.
    fn window(rps: i128, gpus: i128, (low, high): (f64, f64), state: State) -> Window {
        let answer = Answer {
            low: Some(low * 1e3),
            high: Some(high * 1e3),
            point: None,
            ci_low: None,
            ci_high: None,
            state,
            n: 1_000,
        };
        Window { requests: rps * 300 * 1_000_000, held: gpus * 300_000 * ONE, answer: Some(answer) }
    }

    #[test]
    fn a_gpu_does_what_enough_windows_did_within_the_target() {
        let mut windows = vec![
            window(400, 4, (30.0, 40.0), State::Ok),         // 100 a GPU
            window(600, 4, (45.0, 50.0), State::Unresolved), // 150, at the target
            window(640, 4, (20.0, 45.0), State::Ok),         // 160
            window(1_000, 4, (45.0, 55.0), State::Ok),       // 250: the target is inside the interval
            window(900, 4, (51.0, 60.0), State::Ok),         // 225: missed
            window(480, 4, (52.0, 60.0), State::Ok),         // 120: missed, with less to do
            window(2_000, 4, (1.0, 2.0), State::TooFew),
        ];
        let measured = measure(&windows, TARGET, 2).unwrap();
        assert_eq!(measured.per_gpu.to_string(), "150");
        assert_eq!((measured.met, measured.at_least, measured.missed, measured.missed_below), (3, 2, 2, 1));
        assert_eq!(measured.unknown, 2);
        assert_eq!(measure(&windows, TARGET, 1).unwrap().per_gpu.to_string(), "160");
        let missing = measure(&windows, TARGET, 4).unwrap_err();
        assert_eq!(missing, Missing::TooFew { met: 3, missed: 2, unknown: 2, least: 4 });
        for window in &mut windows {
            window.held = 0;
        }
        assert_eq!(measure(&windows, TARGET, 1), Err(Missing::Parts { windows: 7, held: 0, timed: 7 }));
    }

    #[test]
    fn half_a_gpu_counts_half() {
        let mut one = window(10, 1, (1.0, 2.0), State::Ok);
        one.held /= 2;
        assert_eq!(measure(&[one], TARGET, 1).unwrap().per_gpu.to_string(), "20");
    }
}
