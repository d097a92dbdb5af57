//! A histogram as a list of cells `(lo, hi, n)`: `n` values, each somewhere in the closed interval `[lo, hi]`.
//!
//! Every histogram format becomes cells without loss of counts, and cells of any layouts merge by addition. Edges are
//! microseconds where latencies are meant; the type itself knows no unit. The true values behind a cell never lie
//! outside of its edges: where a format's edge can't be computed exactly, it is moved outward ([`Cells::from_exponential`]).

use std::cmp::Ordering;

/// `n` values between `lo` and `hi`, both inclusive. `hi` may be `+inf` (nothing is known above `lo`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Lower edge, finite.
    pub lo: f64,
    /// Upper edge, `>= lo`, finite or `+inf`.
    pub hi: f64,
    /// How many values the cell holds, at least one.
    pub n: u64,
}

/// Why a histogram was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CellsError {
    /// An edge is NaN, out of order, or `lo` is infinite.
    #[error("cell {index}: edges [{lo}, {hi}], expected a finite lower edge that is not above the upper one")]
    Edges {
        /// Position of the cell.
        index: usize,
        /// Its lower edge.
        lo: f64,
        /// Its upper edge.
        hi: f64,
    },
    /// The counts add up to more than 64 bits hold.
    #[error("the counts of {cells} cells add up to more than {}", u64::MAX)]
    Overflow {
        /// How many cells there were.
        cells: usize,
    },
    /// An explicit histogram has not one count more than it has bounds.
    #[error("{counts} bucket counts for {bounds} bounds, expected {}", bounds + 1)]
    Buckets {
        /// Bounds given.
        bounds: usize,
        /// Counts given.
        counts: usize,
    },
    /// Explicit bounds that do not rise.
    #[error("bound {index} is {bound}, expected a number above the one before it")]
    Bounds {
        /// Position of the bound.
        index: usize,
        /// The bound.
        bound: f64,
    },
    /// An exponential histogram outside of what can be represented.
    #[error("exponential scale {0}, expected -10 to 20")]
    Scale(i32),
    /// An exponential zero threshold that is not a finite number of at least 0.
    #[error("zero threshold {0}, expected a finite number that is not negative")]
    ZeroThreshold(f64),
}

/// A histogram: cells in ascending order of `(lo, hi)`, no two with the same edges, none empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cells {
    cells: Vec<Cell>,
    count: u64,
}

/// How far an edge that was computed by `exp2` is moved outward, as a ratio: some units in the last place.
const EDGE_SLACK: f64 = 1.0e-14;

/// Part of a sum by which rounding may move it: senders add up millions of floats, some of them in 32 bits.
const SUM_SLACK: f64 = 1e-4;

impl Cells {
    /// Sorts and adds up `cells`; empty ones are left out.
    ///
    /// # Errors
    /// [`CellsError::Edges`] for edges that are no interval, [`CellsError::Overflow`] when the counts don't fit.
    pub fn new(cells: impl IntoIterator<Item = Cell>) -> Result<Self, CellsError> {
        let mut sorted: Vec<Cell> = Vec::new();
        for (index, cell) in cells.into_iter().enumerate() {
            let Cell { lo, hi, n } = cell;
            if !lo.is_finite() || hi.is_nan() || hi < lo {
                return Err(CellsError::Edges { index, lo, hi });
            }
            if n > 0 {
                // -0.0 and 0.0 are one edge.
                sorted.push(Cell { lo: lo + 0.0, hi: hi + 0.0, n });
            }
        }
        sorted.sort_by(by_edges);
        let len = sorted.len();
        let mut count = 0_u64;
        let mut cells: Vec<Cell> = Vec::with_capacity(len);
        for cell in sorted {
            count = count.checked_add(cell.n).ok_or(CellsError::Overflow { cells: len })?;
            match cells.last_mut() {
                Some(last) if last.lo == cell.lo && last.hi == cell.hi => last.n += cell.n,
                _ => cells.push(cell),
            }
        }
        Ok(Self { cells, count })
    }

    /// Cells from the three columns of the `latency` table, as they are stored.
    ///
    /// # Errors
    /// As [`Cells::new`]; columns of unequal length are [`CellsError::Buckets`].
    pub fn from_columns(lo: &[f64], hi: &[f64], n: &[u64]) -> Result<Self, CellsError> {
        if lo.len() != hi.len() || lo.len() != n.len() {
            return Err(CellsError::Buckets { bounds: lo.len(), counts: n.len() });
        }
        Self::new(lo.iter().zip(hi).zip(n).map(|((&lo, &hi), &n)| Cell { lo, hi, n }))
    }

    /// The three columns `lo`, `hi`, `n` of the `latency` table.
    pub fn to_columns(&self) -> (Vec<f64>, Vec<f64>, Vec<u64>) {
        (
            self.cells.iter().map(|cell| cell.lo).collect(),
            self.cells.iter().map(|cell| cell.hi).collect(),
            self.cells.iter().map(|cell| cell.n).collect(),
        )
    }

    /// Cells from an explicit-bucket histogram whose bucket `i` is `(bounds[i-1], bounds[i]]` (OTLP; Prometheus once its
    /// counts are made non-cumulative). `factor` turns the source's unit into the cells' (1e6 for seconds to
    /// microseconds). Values are taken to be 0 or more, so the first bucket begins at 0, or at `min` when it is lower.
    /// `min` and `max` of the same values, in the source's unit, narrow the outermost cells that hold anything.
    ///
    /// # Errors
    /// [`CellsError::Buckets`], [`CellsError::Bounds`], and as [`Cells::new`].
    pub fn from_explicit(
        bounds: &[f64],
        counts: &[u64],
        min: Option<f64>,
        max: Option<f64>,
        factor: f64,
    ) -> Result<Self, CellsError> {
        if counts.is_empty() && bounds.is_empty() {
            return Ok(Self::default());
        }
        if counts.len() != bounds.len() + 1 {
            return Err(CellsError::Buckets { bounds: bounds.len(), counts: counts.len() });
        }
        for (index, &bound) in bounds.iter().enumerate() {
            if bound.is_nan() || (index > 0 && bound <= bounds[index - 1]) {
                return Err(CellsError::Bounds { index, bound });
            }
        }
        let first = match (min, bounds.first()) {
            (Some(min), _) if min < 0.0 => min,
            (_, Some(&bound)) if bound < 0.0 => bound,
            _ => 0.0,
        };
        let cells = counts.iter().enumerate().map(|(index, &n)| {
            let lo = if index == 0 { first } else { bounds[index - 1] };
            let hi = bounds.get(index).copied().unwrap_or(f64::INFINITY);
            Cell { lo: lo * factor, hi: hi * factor, n }
        });
        Ok(Self::new(cells)?.narrowed(min.map(|min| min * factor), max.map(|max| max * factor)))
    }

    /// Cells from a base-2 exponential histogram of values that are 0 or more: bucket `i` of `counts` is
    /// `(base^(offset+i), base^(offset+i+1)]` with `base = 2^(2^-scale)`, and the zero bucket holds `[0, zero_threshold]`
    /// (<https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exponentialhistogram>). Computed edges are moved
    /// outward by a few units in the last place. `factor`, `min` and `max` as for [`Cells::from_explicit`].
    ///
    /// # Errors
    /// [`CellsError::Scale`], [`CellsError::ZeroThreshold`], and as [`Cells::new`].
    pub fn from_exponential(buckets: &Exponential<'_>, factor: f64) -> Result<Self, CellsError> {
        let Exponential { scale, zero_count, zero_threshold, offset, counts, min, max } = *buckets;
        if !(-10..=20).contains(&scale) {
            return Err(CellsError::Scale(scale));
        }
        if !zero_threshold.is_finite() || zero_threshold < 0.0 {
            return Err(CellsError::ZeroThreshold(zero_threshold));
        }
        let mut below = exponential_edge(scale, i64::from(offset));
        let zero = Cell { lo: 0.0, hi: zero_threshold * factor, n: zero_count };
        let positive = (i64::from(offset)..).zip(counts).map(|(index, &n)| {
            // The slack is nothing for the least floats, which have fewer digits.
            let lo = (below * (1.0 - EDGE_SLACK)).next_down().clamp(0.0, f64::MAX);
            below = exponential_edge(scale, index + 1);
            let hi = (below * (1.0 + EDGE_SLACK)).next_up();
            Cell { lo: (lo * factor).min(f64::MAX), hi: hi * factor, n }
        });
        Ok(Self::new(std::iter::once(zero).chain(positive))?
            .narrowed(min.map(|min| min * factor), max.map(|max| max * factor)))
    }

    /// The same values when only their lower edges are known: of requests that were aborted.
    pub fn unbounded(&self) -> Self {
        let mut open: Vec<Cell> = Vec::with_capacity(self.cells.len());
        for cell in &self.cells {
            match open.last_mut() {
                Some(last) if last.lo == cell.lo => last.n += cell.n,
                _ => open.push(Cell { hi: f64::INFINITY, ..*cell }),
            }
        }
        Self { cells: open, count: self.count }
    }

    /// Whether values in these cells can add up to `sum`, up to a part of [`SUM_SLACK`]. One that is too small has negative
    /// values in it, and one that is too large values that the buckets don't have: a clock that was set, a time of 0 that was
    /// taken for the start.
    pub fn can_add_up_to(&self, sum: f64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "compared with a tolerance")]
        let total = |edge: fn(&Cell) -> f64| self.cells.iter().map(|cell| edge(cell) * cell.n as f64).sum::<f64>();
        let (least, most) = (total(|cell| cell.lo), total(|cell| cell.hi));
        let slack = SUM_SLACK * least.max(sum.abs());
        sum >= least - slack && sum <= most + slack
    }

    /// Adds `other` to this histogram; equal cells become one.
    ///
    /// # Errors
    /// [`CellsError::Overflow`]; this histogram is unchanged then.
    pub fn merge(&mut self, other: &Self) -> Result<(), CellsError> {
        *self = Self::new(self.cells.iter().chain(&other.cells).copied())?;
        Ok(())
    }

    /// The cells in ascending order of `(lo, hi)`.
    pub fn as_slice(&self) -> &[Cell] {
        &self.cells
    }

    /// How many values there are in all.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Moves the outermost edges inward to the known least and greatest value. A bound that contradicts the cells (by
    /// rounding, or because it belongs to other values) is not applied.
    fn narrowed(mut self, min: Option<f64>, max: Option<f64>) -> Self {
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            return self;
        }
        let lowest = self.cells.iter().map(|cell| cell.hi).fold(f64::INFINITY, f64::min);
        let highest = self.cells.iter().map(|cell| cell.lo).fold(f64::NEG_INFINITY, f64::max);
        if let Some(min) = min.filter(|min| min.is_finite() && *min <= lowest) {
            for cell in self.cells.iter_mut().filter(|cell| cell.lo < min) {
                cell.lo = min;
            }
        }
        if let Some(max) = max.filter(|max| max.is_finite() && *max >= highest) {
            for cell in self.cells.iter_mut().filter(|cell| cell.hi > max) {
                cell.hi = max;
            }
        }
        self
    }
}

/// A base-2 exponential histogram's fields, named as in OTLP's `ExponentialHistogramDataPoint`.
#[derive(Clone, Copy, Debug)]
pub struct Exponential<'a> {
    /// Resolution: `base = 2^(2^-scale)`.
    pub scale: i32,
    /// Values in the zero bucket.
    pub zero_count: u64,
    /// Greatest absolute value that the zero bucket may hold.
    pub zero_threshold: f64,
    /// Index of the first positive bucket.
    pub offset: i32,
    /// Counts of the positive buckets.
    pub counts: &'a [u64],
    /// Least value, if known.
    pub min: Option<f64>,
    /// Greatest value, if known.
    pub max: Option<f64>,
}

/// `base^index`: the lower edge of bucket `index`. Exact when the exponent is a whole number.
pub(crate) fn exponential_edge(scale: i32, index: i64) -> f64 {
    // index / 2^scale has at most 53 significant bits, so the division is exact; powi of two is exact by itself.
    #[expect(clippy::cast_precision_loss, reason = "an index has at most 33 bits")]
    let exponent = index as f64 * 2.0_f64.powi(-scale);
    exponent.exp2()
}

fn by_edges(left: &Cell, right: &Cell) -> Ordering {
    left.lo.total_cmp(&right.lo).then(left.hi.total_cmp(&right.hi))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_buckets_become_cells_and_min_max_narrow_the_outer_ones() {
        let cells = Cells::from_explicit(&[0.1, 0.5], &[3, 0, 2], Some(0.05), Some(2.0), 1e6).unwrap();
        assert_eq!(
            cells.as_slice(),
            [Cell { lo: 50_000.0, hi: 100_000.0, n: 3 }, Cell { lo: 500_000.0, hi: 2_000_000.0, n: 2 }]
        );
        assert_eq!(cells.count(), 5);
    }

    #[test]
    fn a_least_value_above_the_greatest_one_is_not_believed() {
        let cells = Cells::from_explicit(&[1.0, 10.0], &[0, 5, 0], Some(9.0), Some(2.0), 1.0).unwrap();
        assert_eq!(cells.as_slice(), [Cell { lo: 1.0, hi: 10.0, n: 5 }]);
    }

    #[test]
    fn without_a_maximum_the_last_bucket_is_unbounded() {
        let cells = Cells::from_explicit(&[30.0], &[2513, 8495], None, None, 1.0).unwrap();
        assert_eq!(cells.as_slice()[1], Cell { lo: 30.0, hi: f64::INFINITY, n: 8495 });
    }

    #[test]
    fn exponential_edges_are_powers_of_the_base() {
        // Scale 0: base 2; offset -1: (0.5, 1], (1, 2], (2, 4].
        let point = Exponential {
            scale: 0,
            zero_count: 1,
            zero_threshold: 0.02,
            offset: -1,
            counts: &[4, 0, 5],
            min: None,
            max: None,
        };
        let cells = Cells::from_exponential(&point, 1.0).unwrap();
        let [zero, first, last] = cells.as_slice() else { panic!("three cells, not {cells:?}") };
        assert_eq!((zero.lo, zero.hi, zero.n), (0.0, 0.02, 1));
        assert!(first.lo <= 0.5 && first.lo > 0.499_999_999 && first.hi >= 1.0 && first.hi < 1.000_000_001);
        assert!(last.lo <= 2.0 && last.lo > 1.999_999_99 && last.hi >= 4.0 && last.hi < 4.000_000_01);
        assert_eq!(cells.count(), 10);
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(
            Cells::from_explicit(&[1.0], &[1], None, None, 1.0).unwrap_err().to_string(),
            "1 bucket counts for 1 bounds, expected 2"
        );
        assert_eq!(
            Cells::from_explicit(&[1.0, 1.0], &[1, 1, 1], None, None, 1.0).unwrap_err().to_string(),
            "bound 1 is 1, expected a number above the one before it"
        );
        let cell = |lo, hi, n| Cell { lo, hi, n };
        assert!(matches!(Cells::new([cell(2.0, 1.0, 1)]), Err(CellsError::Edges { index: 0, .. })));
        assert!(matches!(Cells::new([cell(0.0, 1.0, u64::MAX), cell(0.0, 1.0, 1)]), Err(CellsError::Overflow { .. })));
    }
}
