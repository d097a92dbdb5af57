//! What part of a device's time each of its holders has, as weights.
//!
//! | on the device | its holders' parts |
//! |---|---|
//! | nobody | all of it is idle's (of a split GPU: what no instance covers is *stranded*) |
//! | one or more, of whom none has requested a fraction | even parts |
//! | requested fractions that sum to at most 1, and nobody else | what was requested; the rest is idle's |
//! | requested fractions that sum to more than 1, and nobody else | what was requested, divided by the sum |
//! | requested fractions that sum to less than 1, and others | what was requested; the others share the rest evenly |
//! | requested fractions that sum to 1 or more, and others | even parts: nothing would be left for the others |
//! | somebody whose processes are there, while a scheduler gave the device to others | none |
//!
//! Energy and busy time go by the processes' use of the multiprocessors where the driver tells it for all of them, and
//! somebody's is above 0: also to who has no part of the time. Otherwise they go by the parts above, without idle's:
//! nothing was done there. A device that nobody holds gives both to idle. Memory is whose processes have it.
//!
//! Parts are counted in trillionths of a millisecond and of a millijoule, and rounded once, at the minute's end
//! ([`super::split`]): each owner's are less than a unit off what is exactly his, and sum to the whole.
//!
//! A GPU that is split by MIG ([`super::slices`]) has its time divided among its instances and what none of them covers,
//! by weight; each of these is a device, whose holders divide what it has by the rules above. Its energy goes to the
//! instances by weight times activity, where the driver tells every one's activity and one is above 0, else by weight. What no
//! instance covers draws nothing, unless somebody holds it or there is no instance. An instance's busy time is its
//! activity times its part of the time.

use super::tick::PPM;
use crate::owners::claim::Part;

/// The weights of the holders, in their order (`None`: it has no part), and that of idle. Their sum is above 0.
pub fn weights(parts: &[Option<Part>]) -> (Vec<u64>, u64) {
    let whole = u64::from(PPM);
    let requested: u64 = parts.iter().flatten().map(|part| u64::from(asked(*part).unwrap_or(0))).sum();
    let others = parts.iter().flatten().filter(|part| asked(**part).is_none()).count() as u64;
    let left = whole.saturating_sub(requested);
    let weight = |part: &Option<Part>| match part.map(asked) {
        None => 0,
        Some(_) if others > 0 && left == 0 => 1,
        // With others, everything is counted in their number's fractions, so that each of them has a whole number.
        Some(Some(ppm)) => u64::from(ppm) * others.max(1),
        Some(None) => left,
    };
    let idle = if others > 0 { 0 } else { left };
    (parts.iter().map(weight).collect(), idle)
}

/// What was requested, parts per million.
fn asked(part: Part) -> Option<u32> {
    match part {
        Part::Even => None,
        Part::Ppm(ppm) => Some(ppm),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::split::apportion;

    const EVEN: Option<Part> = Some(Part::Even);

    fn ppm(ppm: u32) -> Option<Part> {
        Some(Part::Ppm(ppm))
    }

    /// Of a second, what each holder and idle have.
    fn second(parts: &[Option<Part>]) -> (Vec<u64>, u64) {
        let (mut weights, idle) = weights(parts);
        weights.push(idle);
        let mut shares: Vec<u64> =
            apportion(1000, &weights).into_iter().map(|share| u64::try_from(share).unwrap()).collect();
        let idle = shares.pop().unwrap();
        (shares, idle)
    }

    #[test]
    fn each_line_of_the_table_holds() {
        for (parts, shares, idle) in [
            (&[][..], &[][..], 1000),
            (&[EVEN], &[1000], 0),
            (&[EVEN, EVEN, EVEN, EVEN], &[250, 250, 250, 250], 0),
            (&[ppm(250_000), ppm(500_000)], &[250, 500], 250),
            (&[ppm(250_000), ppm(750_000)], &[250, 750], 0),
            (&[ppm(1_000_000), ppm(1_000_000), ppm(2_000_000)], &[250, 250, 500], 0),
            (&[ppm(400_000), EVEN, EVEN], &[400, 300, 300], 0),
            (&[ppm(600_000), ppm(400_000), EVEN, EVEN], &[250, 250, 250, 250], 0),
            (&[ppm(900_000), ppm(400_000), EVEN, EVEN], &[250, 250, 250, 250], 0),
            (&[ppm(400_000), None], &[400, 0], 600),
            (&[EVEN, None], &[1000, 0], 0),
            (&[None, None], &[0, 0], 1000),
            // No request is 0; should one be, it is nothing.
            (&[ppm(0)], &[0], 1000),
            (&[ppm(0), EVEN], &[0, 1000], 0),
            (&[ppm(u32::MAX), ppm(u32::MAX)], &[500, 500], 0),
        ] {
            assert_eq!(second(parts), (shares.to_vec(), idle), "{parts:?}");
        }
    }

    fn part() -> impl Strategy<Value = Option<Part>> {
        prop_oneof![Just(None), Just(EVEN), any::<u32>().prop_map(ppm), (0_u32..1_000_000).prop_map(ppm)]
    }

    proptest! {
        #[test]
        fn the_whole_is_given_and_nobody_has_more_than_he_requested(parts in prop::collection::vec(part(), 0..60)) {
            let (weights, idle) = weights(&parts);
            let sum = weights.iter().sum::<u64>() + idle;
            prop_assert!(sum > 0);
            let requested: u64 = parts.iter().flatten().map(|part| u64::from(asked(*part).unwrap_or(0))).sum();
            let evens: Vec<u64> = parts.iter().zip(&weights).filter(|(part, _)| **part == EVEN).map(|(_, w)| *w).collect();
            prop_assert!(evens.iter().all(|weight| *weight > 0 && *weight == evens[0]));
            for (part, weight) in parts.iter().zip(&weights) {
                match part {
                    None => prop_assert_eq!(*weight, 0),
                    Some(Part::Ppm(ppm)) if requested < u64::from(PPM) => {
                        // weight / sum = ppm / 1,000,000, without a division.
                        prop_assert_eq!(u128::from(*weight) * u128::from(PPM), u128::from(*ppm) * u128::from(sum));
                    }
                    _ => {}
                }
            }
        }
    }
}
