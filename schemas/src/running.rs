//! Running totals of histograms: what came between two of them.
//!
//! A server's counters, and cumulative points of OTLP, tell how many values there were since a start. What is stored is what
//! came in between, so the counts of the earlier total are taken from those of the later one, bucket by bucket. Counts that
//! fell are those of a source that began again; other bounds can't be compared.

use crate::cells::exponential_edge;

/// Counts of values by bucket, in the sender's own layout.
#[derive(Clone, Debug, PartialEq)]
pub enum Buckets {
    /// Bucket `i` is `(bounds[i-1], bounds[i]]`.
    Explicit {
        /// Upper bounds of all but the last bucket.
        bounds: Vec<f64>,
        /// One more than there are bounds.
        counts: Vec<u64>,
        /// Whether the cells' lower edges are the floats next above the lower bounds ([`crate::names::LATENCY`]).
        whole: bool,
    },
    /// Bucket `i` of `counts` is `(base^(offset+i), base^(offset+i+1)]` with `base = 2^(2^-scale)`.
    Exponential {
        /// Resolution.
        scale: i32,
        /// Values of at most `zero_threshold`.
        zero_count: u64,
        /// Upper edge of the zero bucket.
        zero_threshold: f64,
        /// Index of the first of `counts`.
        offset: i32,
        /// Values in each bucket.
        counts: Vec<u64>,
    },
}

/// What a later total tells beside an earlier one.
#[derive(Clone, Debug, PartialEq)]
pub enum Since {
    /// This came in between.
    Increase(Buckets),
    /// A count is lower than it was: the source has begun again, and the later total came since then.
    Fell,
    /// The layouts can't be compared.
    Relaid,
}

impl Buckets {
    /// The counts, without that of the zero bucket.
    pub fn counts(&self) -> &[u64] {
        match self {
            Self::Explicit { counts, .. } | Self::Exponential { counts, .. } => counts,
        }
    }

    /// Bytes that its numbers take in memory, beside the value itself.
    pub fn bytes(&self) -> usize {
        let bounds = match self {
            Self::Explicit { bounds, .. } => bounds.len(),
            Self::Exponential { .. } => 0,
        };
        size_of::<u64>() * (bounds + self.counts().len())
    }

    /// The same layout without any value.
    pub fn zero(&self) -> Self {
        match self {
            Self::Explicit { bounds, counts, whole } => {
                Self::Explicit { bounds: bounds.clone(), counts: vec![0; counts.len()], whole: *whole }
            }
            Self::Exponential { scale, zero_threshold, offset, .. } => Self::Exponential {
                scale: *scale,
                zero_count: 0,
                zero_threshold: *zero_threshold,
                offset: *offset,
                counts: Vec::new(),
            },
        }
    }

    /// What came after `earlier`, as these are the later total. Exponential totals of different scales are compared at the
    /// coarser one: sources lower their scale as their values spread.
    pub fn since(&self, earlier: &Self) -> Since {
        match (self, earlier) {
            (Self::Explicit { bounds, counts, whole }, Self::Explicit { bounds: old_bounds, counts: old, .. }) => {
                if bounds != old_bounds || counts.len() != old.len() {
                    return Since::Relaid;
                }
                let increase: Option<Vec<u64>> =
                    counts.iter().zip(old).map(|(now, before)| now.checked_sub(*before)).collect();
                increase.map_or(Since::Fell, |counts| {
                    Since::Increase(Self::Explicit { bounds: bounds.clone(), counts, whole: *whole })
                })
            }
            (
                Self::Exponential { scale, zero_count, zero_threshold, offset, counts },
                Self::Exponential {
                    scale: old_scale,
                    zero_count: old_zero,
                    zero_threshold: old_threshold,
                    offset: old_offset,
                    counts: old,
                },
            ) => {
                let common = *scale.min(old_scale);
                let (offset, counts) = coarser(*offset, counts, scale - common);
                let (old_offset, mut old) = coarser(*old_offset, old, old_scale - common);
                let mut old_zero = *old_zero;
                if zero_threshold != old_threshold {
                    let raised = raise(&mut old, old_offset, common, *old_threshold, *zero_threshold);
                    let Some(zero) = raised.and_then(|moved| old_zero.checked_add(moved)) else { return Since::Relaid };
                    old_zero = zero;
                }
                match (zero_count.checked_sub(old_zero), subtract(offset, counts, old_offset, &old)) {
                    (Some(zero_count), Some(counts)) => Since::Increase(Self::Exponential {
                        scale: common,
                        zero_count,
                        zero_threshold: *zero_threshold,
                        offset,
                        counts,
                    }),
                    _ => Since::Fell,
                }
            }
            _ => Since::Relaid,
        }
    }
}

/// Moves what is at most `now` out of the buckets `counts`, since the zero bucket ends there now, and no longer at `before`:
/// how many values; `None` when the threshold fell, or cuts a bucket that has values.
fn raise(counts: &mut [u64], offset: i32, scale: i32, before: f64, now: f64) -> Option<u64> {
    if now < before {
        return None;
    }
    let mut moved = 0_u64;
    for (index, count) in (i64::from(offset)..).zip(counts).filter(|(_, count)| **count > 0) {
        let (lo, hi) = (exponential_edge(scale, index), exponential_edge(scale, index + 1));
        if hi <= now * (1.0 + 1e-12) {
            moved = moved.checked_add(std::mem::take(count))?;
        } else if lo < now * (1.0 - 1e-12) {
            return None;
        }
    }
    Some(moved)
}

/// The same counts at a scale that is lower by `steps`: bucket `i` goes into bucket `i >> steps`.
fn coarser(offset: i32, counts: &[u64], steps: i32) -> (i32, Vec<u64>) {
    if steps == 0 || counts.is_empty() {
        return (offset, counts.to_vec());
    }
    let steps = steps.clamp(0, 31);
    let first = offset >> steps;
    let mut coarse: Vec<u64> = Vec::new();
    for (index, count) in (i64::from(offset)..).zip(counts) {
        let place = usize::try_from((index >> steps) - i64::from(first)).unwrap_or_default();
        if coarse.len() <= place {
            coarse.resize(place + 1, 0);
        }
        coarse[place] = coarse[place].saturating_add(*count);
    }
    (first, coarse)
}

/// `counts - old`, both from their offsets; `None` when any count is lower than it was.
fn subtract(offset: i32, mut counts: Vec<u64>, old_offset: i32, old: &[u64]) -> Option<Vec<u64>> {
    for (index, &before) in (i64::from(old_offset)..).zip(old) {
        if before == 0 {
            continue;
        }
        let now = counts.get_mut(usize::try_from(index - i64::from(offset)).ok()?)?;
        *now = now.checked_sub(before)?;
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(scale: i32, offset: i32, counts: &[u64]) -> Buckets {
        Buckets::Exponential { scale, zero_count: 0, zero_threshold: 0.0, offset, counts: counts.to_vec() }
    }

    #[test]
    fn exponential_totals_of_different_scales_subtract_at_the_coarser_one() {
        // Scale 1, offset 2: buckets 2, 3, 4 hold 1, 2, 3; at scale 0 buckets 1, 2 hold 3, 3.
        let earlier = exponential(1, 2, &[1, 2, 3]);
        let later = exponential(0, 0, &[7, 4, 5]);
        assert_eq!(later.since(&earlier), Since::Increase(exponential(0, 0, &[7, 1, 2])));
        // Negative indices go down: -3 >> 1 is -2, -1 >> 1 is -1.
        assert_eq!(coarser(-3, &[1, 1, 1], 1), (-2, vec![1, 2]));
        assert_eq!(exponential(0, 0, &[1]).since(&earlier), Since::Fell);
    }

    #[test]
    fn c7_a_zero_bucket_that_grew_takes_the_buckets_under_it() {
        let total = |zero_count, zero_threshold, offset, counts: &[u64]| Buckets::Exponential {
            scale: 0,
            zero_count,
            zero_threshold,
            offset,
            counts: counts.to_vec(),
        };
        // Scale 0 from index -2: (0.25, 0.5], (0.5, 1], (1, 2].
        let earlier = total(1, 0.02, -2, &[2, 3, 4]);
        let later = total(7, 1.0, 0, &[9]);
        assert_eq!(later.since(&earlier), Since::Increase(total(1, 1.0, 0, &[5])));
        // In the middle of a bucket nobody knows how many of its values were moved.
        assert_eq!(total(7, 0.75, 0, &[9]).since(&earlier), Since::Relaid);
        assert_eq!(total(1, 0.01, -2, &[2, 3, 4]).since(&earlier), Since::Relaid);
        assert_eq!(total(5, 1.0, 0, &[9]).since(&earlier), Since::Fell);
    }

    #[test]
    fn other_bounds_and_other_kinds_are_not_compared() {
        let explicit = |bounds: &[f64], counts: &[u64]| Buckets::Explicit {
            bounds: bounds.to_vec(),
            counts: counts.to_vec(),
            whole: false,
        };
        let earlier = explicit(&[1.0, 2.0], &[3, 0, 1]);
        assert_eq!(
            explicit(&[1.0, 2.0], &[3, 4, 1]).since(&earlier),
            Since::Increase(explicit(&[1.0, 2.0], &[0, 4, 0]))
        );
        assert_eq!(explicit(&[1.0, 2.5], &[3, 4, 1]).since(&earlier), Since::Relaid);
        assert_eq!(exponential(0, 0, &[9]).since(&earlier), Since::Relaid);
        assert_eq!(earlier.since(&earlier.zero()), Since::Increase(earlier.clone()));
    }
}
