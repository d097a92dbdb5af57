//! Exact amounts to rounded ones: the whole once, then payers, then each payer's lines, by largest remainder.

use std::collections::{BTreeMap, BTreeSet};

use contador::bill::settle::Line;
use num_bigint::{BigInt, Sign};
use num_traits::Zero;

use super::fraction::{Fraction, sum};
use super::row::{Amounts, COST, EFFECTIVE};

/// What lines must come to, in millionths, from what they are exactly and in their order.
pub fn lines(lines: &[Line], exact: &[Amounts], decimals: u8) -> Vec<[BigInt; 10]> {
    let mut rounded: Vec<[BigInt; 10]> = vec![Default::default(); lines.len()];
    let mut payers: Vec<Vec<usize>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        match payers.iter_mut().find(|lines_of| lines[lines_of[0]].key.payer == line.key.payer) {
            Some(lines_of) => lines_of.push(at),
            None => payers.push(vec![at]),
        }
    }
    for measure in 0..EFFECTIVE {
        let unit: u32 = if measure == COST { 10_u32.pow(6 - u32::from(decimals)) } else { 1 };
        let of = |at: &usize| &exact[*at][measure];
        let sums: Vec<Fraction> = payers.iter().map(|lines_of| sum(lines_of.iter().map(of))).collect();
        let whole = half_up(&sum(&sums), 1_000_000 / unit);
        for (lines_of, payer) in payers.iter().zip(largest(&whole, &sums)) {
            let parts: Vec<Fraction> = lines_of.iter().map(|at| of(at).clone()).collect();
            for (at, part) in lines_of.iter().zip(largest(&(payer * unit), &parts)) {
                rounded[*at][measure] = part;
            }
        }
    }
    effective(lines, exact, &mut rounded);
    rounded
}

/// What each commitment was bought for, over its use and what was not used; everything else as it is billed.
fn effective(lines: &[Line], exact: &[Amounts], rounded: &mut [[BigInt; 10]]) {
    let mut bought: BTreeMap<(String, String), BigInt> = BTreeMap::new();
    let mut uses: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        let payer = format!("{:?} {}", line.key.payer.kind, line.key.payer.department);
        let of = (payer, line.key.item.to_string());
        match line.key.category.as_str() {
            "commitment" => *bought.entry(of).or_default() += &rounded[at][COST],
            "covered" | "unused" => uses.entry(of).or_default().push(at),
            _ => rounded[at][EFFECTIVE] = rounded[at][COST].clone(),
        }
    }
    for (of, places) in uses {
        let parts: Vec<Fraction> = places.iter().map(|at| exact[*at][EFFECTIVE].clone()).collect();
        let whole = bought.get(&of).cloned().unwrap_or_default();
        for (at, part) in places.into_iter().zip(largest(&whole, &parts)) {
            rounded[at][EFFECTIVE] = part;
        }
    }
}

/// A positive amount in whole units, of which so many are 1.
fn half_up(amount: &Fraction, units: u32) -> BigInt {
    let doubled: BigInt = &amount.above * units * 2;
    assert_ne!(doubled.sign(), Sign::Minus);
    let (mut whole, below): (BigInt, BigInt) = (&doubled / (&amount.below * 2), &amount.below * 2);
    if (&doubled - &whole * &below) * 2 >= below {
        whole += 1;
    }
    whole
}

/// Largest remainder; of equals the first.
fn largest(whole: &BigInt, parts: &[Fraction]) -> Vec<BigInt> {
    let belows: BTreeSet<&BigInt> = parts.iter().map(|part| &part.below).collect();
    let below: BigInt = belows.into_iter().product();
    let above: Vec<BigInt> = parts.iter().map(|part| &part.above * (&below / &part.below)).collect();
    let sum: BigInt = above.iter().sum();
    if sum.is_zero() {
        assert!(whole.is_zero());
        return vec![BigInt::zero(); parts.len()];
    }
    let mut given: Vec<BigInt> = above.iter().map(|above| whole * above / &sum).collect();
    let rest: Vec<BigInt> = above.iter().map(|above| whole * above % &sum).collect();
    let mut missing: BigInt = whole - given.iter().sum::<BigInt>();
    let mut places: Vec<usize> = (0..parts.len()).collect();
    places.sort_by(|a, b| rest[*b].cmp(&rest[*a]).then(a.cmp(b)));
    for at in places {
        if missing.is_zero() {
            break;
        }
        given[at] += 1;
        missing -= 1;
    }
    given
}
