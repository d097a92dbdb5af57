//! Amounts as a page shows them, with fewer digits than they have: those of a table add up all the same.

use std::collections::VecDeque;

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use crate::bill::apportion::round;
use crate::bill::decimal::Millionths;
use crate::bill::rate::exact::Amount;

/// Millionths that the last of so many digits stands for.
fn unit(digits: u8) -> BigInt {
    BigInt::from(10_u32.pow(6_u32.saturating_sub(digits.into())))
}

/// An amount in units of `10^-digits`, rounded half away from nothing.
pub fn rounded(amount: &Millionths, digits: u8) -> BigInt {
    round(&Amount::new(amount.0.clone(), &unit(digits)), 1)
}

/// Amounts in units of `10^-digits` that sum to `whole`: each rounded down, and what is then missing goes to those with the largest
/// remainders, the first of equals. Where `whole` is their rounded sum, each is less than a unit from what it is.
pub fn fit(amounts: &[&Millionths], whole: &BigInt, digits: u8) -> Vec<BigInt> {
    let unit = unit(digits);
    let (mut shown, remainders): (Vec<BigInt>, Vec<BigInt>) =
        amounts.iter().map(|amount| amount.0.div_mod_floor(&unit)).unzip();
    if shown.is_empty() {
        return shown;
    }
    let mut order: Vec<usize> = (0..shown.len()).collect();
    order.sort_by_key(|at| (-&remainders[*at], *at));
    let missing = whole - shown.iter().sum::<BigInt>();
    let (each, more) = missing.div_mod_floor(&BigInt::from(shown.len()));
    let more = more.to_usize().unwrap_or_default();
    for (place, at) in order.into_iter().enumerate() {
        shown[at] += &each + u8::from(place < more);
    }
    shown
}

/// The parts that amounts are of their sum, in tenths of a hundredth, which sum to the whole; `None` of nothing.
pub fn shares(amounts: &[BigInt]) -> Vec<Option<BigInt>> {
    let whole: BigInt = amounts.iter().sum();
    if whole.is_zero() {
        return vec![None; amounts.len()];
    }
    let part = |amount: &BigInt| Millionths(BigInt::div_floor(&(amount * 1_000_000_000), &whole));
    let parts: Vec<Millionths> = amounts.iter().map(part).collect();
    fit(&parts.iter().collect::<Vec<_>>(), &BigInt::from(1_000), 0).into_iter().map(Some).collect()
}

/// Amounts by row and column in units of `10^-digits`, which sum up both ways. Rows are those of payers, whose sums are whole units as
/// a rule and are kept; a column's sum is its amounts' rounded up or down.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Matrix {
    cells: Vec<Vec<BigInt>>,
    columns: usize,
}

impl Matrix {
    /// Of amounts: rows of `columns` each.
    pub fn new(rows: &[Vec<Millionths>], columns: usize, digits: u8) -> Self {
        let sums: Vec<Millionths> = rows.iter().map(|row| row.iter().sum()).collect();
        let whole = rounded(&sums.iter().sum(), digits);
        let wholes = fit(&sums.iter().collect::<Vec<_>>(), &whole, digits);
        let fitted = |(row, whole): (&Vec<Millionths>, &BigInt)| fit(&row.iter().collect::<Vec<_>>(), whole, digits);
        let cells = rows.iter().zip(&wholes).map(fitted).collect();
        let mut matrix = Self { cells, columns };
        matrix.balance(rows, digits);
        matrix
    }

    /// The same with some columns' amounts in other proportions: those of a row sum to what they did, as both amounts of a payer do
    /// that differ in what commitments are billed and cost. All other cells are the same.
    pub fn with(&self, columns: &[usize], rows: &[Vec<Millionths>], digits: u8) -> Self {
        let mut matrix = self.clone();
        for (cells, row) in matrix.cells.iter_mut().zip(rows) {
            let whole: BigInt = columns.iter().map(|column| &cells[*column]).sum();
            let amounts: Vec<&Millionths> = columns.iter().map(|column| &row[*column]).collect();
            for (column, shown) in columns.iter().zip(fit(&amounts, &whole, digits)) {
                cells[*column] = shown;
            }
        }
        matrix
    }

    /// A cell.
    pub fn cell(&self, row: usize, column: usize) -> BigInt {
        self.cells.get(row).and_then(|row| row.get(column)).cloned().unwrap_or_default()
    }

    /// The sum of a row.
    pub fn row(&self, row: usize) -> BigInt {
        self.cells.get(row).map_or_else(BigInt::zero, |row| row.iter().sum())
    }

    /// The sum of a column.
    pub fn column(&self, column: usize) -> BigInt {
        self.cells.iter().map(|row| &row[column]).sum()
    }

    /// The sum of all.
    pub fn total(&self) -> BigInt {
        self.cells.iter().flatten().sum()
    }

    /// Moves units along rows until no column is a unit or more from what it is. Units move between cells that are not whole, from one
    /// that was rounded up to one that was rounded down, and so a way from a column that has too many to one that has too few.
    fn balance(&mut self, rows: &[Vec<Millionths>], digits: u8) {
        let unit = unit(digits);
        let mut up: Vec<Vec<Option<bool>>> = Vec::with_capacity(rows.len());
        for (row, shown) in rows.iter().zip(&self.cells) {
            let of = |(amount, shown): (&Millionths, &BigInt)| {
                let (floor, remainder) = amount.0.div_mod_floor(&unit);
                (!remainder.is_zero()).then(|| *shown > floor)
            };
            up.push(row.iter().zip(shown).map(of).collect());
        }
        let exact: Vec<BigInt> = (0..self.columns).map(|column| rows.iter().map(|row| &row[column].0).sum()).collect();
        // Millionths that a column is shown too high by.
        let mut off: Vec<BigInt> = (0..self.columns).map(|at| self.column(at) * &unit - &exact[at]).collect();
        while let Some(path) = path(&up, &off, &unit) {
            for pair in path.windows(2) {
                let (from, to) = (pair[0], pair[1]);
                let Some(row) = up.iter().position(|row| row[from] == Some(true) && row[to] == Some(false)) else {
                    return;
                };
                up[row][from] = Some(false);
                up[row][to] = Some(true);
                self.cells[row][from] -= 1;
                self.cells[row][to] += 1;
            }
            if let (Some(first), Some(last)) = (path.first(), path.last()) {
                off[*first] -= &unit;
                off[*last] += &unit;
            }
        }
    }
}

/// The shortest way from a column to another between which a unit should move, column by column.
fn path(up: &[Vec<Option<bool>>], off: &[BigInt], unit: &BigInt) -> Option<Vec<usize>> {
    let starts = |column: &usize| off[*column] >= *unit;
    let mut order: Vec<usize> = (0..off.len()).filter(|column| off[*column].is_positive()).collect();
    order.sort_by_key(|column| -&off[*column]);
    for start in order {
        // What has a unit too many can give it to what is shown too low; what has less than that, to what lacks a unit.
        let ends = |column: usize| if starts(&start) { off[column].is_negative() } else { -&off[column] >= *unit };
        let mut before: Vec<Option<usize>> = vec![None; off.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(column) = queue.pop_front() {
            if column != start && ends(column) {
                let mut path = vec![column];
                while let Some(previous) = before[path[path.len() - 1]] {
                    path.push(previous);
                }
                path.reverse();
                return Some(path);
            }
            for next in (0..off.len()).filter(|next| *next != start) {
                if before[next].is_none() && up.iter().any(|row| row[column] == Some(true) && row[next] == Some(false))
                {
                    before[next] = Some(column);
                    queue.push_back(next);
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(millionths: i64) -> Millionths {
        Millionths(millionths.into())
    }

    #[test]
    fn thirds_are_shown_as_a_whole() {
        let third = amount(333_333);
        let shown = fit(&[&third, &third, &third], &BigInt::from(100), 2);
        assert_eq!(shown, [34, 33, 33].map(BigInt::from));
        let credit = amount(-333_333);
        assert_eq!(fit(&[&credit, &third], &BigInt::from(0), 2), [-33, 33].map(BigInt::from));
        assert_eq!(rounded(&amount(-5_000), 2), BigInt::from(-1));
        assert_eq!(rounded(&amount(4_999), 2), BigInt::from(0));
        assert!(fit(&[], &BigInt::from(0), 2).is_empty());
        let shares = |amounts: &[i64]| shares(&amounts.iter().map(|amount| BigInt::from(*amount)).collect::<Vec<_>>());
        assert_eq!(shares(&[1, 1, 1]), [334, 333, 333].map(|part: i64| Some(BigInt::from(part))));
        assert_eq!(shares(&[3, -1]), [1_500, -500].map(|part: i64| Some(BigInt::from(part))));
        assert_eq!(shares(&[0, 0]), [None, None]);
    }

    #[test]
    fn a_column_of_many_small_amounts_is_shown_as_what_it_is() {
        // Each row gives its unit to its first cell, if it looks at itself alone: 1.00 and 0.00 instead of 0.60 and 0.40.
        let rows = vec![vec![amount(6_000), amount(4_000)]; 100];
        let matrix = Matrix::new(&rows, 2, 2);
        assert_eq!((matrix.column(0), matrix.column(1)), (60.into(), 40.into()));
        assert_eq!((matrix.row(99), matrix.total()), (1.into(), 100.into()));
    }

    #[test]
    fn what_commitments_do_not_change_is_shown_alike() {
        let rows = vec![vec![amount(1_004_000), amount(6_000), amount(5_990_000)]; 3];
        let billed = Matrix::new(&rows, 3, 2);
        let other: Vec<Vec<Millionths>> =
            rows.iter().map(|row| vec![row[0].clone(), row[2].clone(), row[1].clone()]).collect();
        let effective = billed.with(&[1, 2], &other, 2);
        for row in 0..3 {
            assert_eq!(effective.cell(row, 0), billed.cell(row, 0));
            assert_eq!(effective.row(row), billed.row(row));
        }
        assert_eq!(effective.column(1) + effective.column(2), billed.column(1) + billed.column(2));
        assert!(effective.column(1) > billed.column(1));
    }

    proptest! {
        #[test]
        fn a_matrix_sums_up_both_ways_and_is_near_what_it_shows(
            cells in prop::collection::vec(prop::collection::vec(-50_000i64..5_000_000, 5), 1..30),
            digits in 0u8..=6,
        ) {
            let unit = 10_i64.pow(6 - u32::from(digits));
            // Payers' sums are whole units.
            let rows: Vec<Vec<Millionths>> = cells
                .iter()
                .map(|row| {
                    let sum: i64 = row.iter().sum();
                    let mut row = row.clone();
                    row[4] -= sum.rem_euclid(unit);
                    row.into_iter().map(amount).collect()
                })
                .collect();
            let matrix = Matrix::new(&rows, 5, digits);
            let near = |shown: &BigInt, sum: BigInt| (shown * unit - sum).abs() < unit.into();
            for (at, row) in rows.iter().enumerate() {
                let sum: BigInt = row.iter().map(|cell| &cell.0).sum();
                prop_assert_eq!(matrix.row(at) * unit, sum);
                for (column, cell) in row.iter().enumerate() {
                    prop_assert!(near(&matrix.cell(at, column), cell.0.clone()));
                }
            }
            for column in 0..5 {
                let sum: BigInt = rows.iter().map(|row| &row[column].0).sum();
                prop_assert!(near(&matrix.column(column), sum), "column {}", column);
            }
        }

        #[test]
        fn what_fits_sums_to_the_whole(amounts in prop::collection::vec(-9_000_000i64..9_000_000, 1..40), more in -3i64..4) {
            let amounts: Vec<Millionths> = amounts.into_iter().map(amount).collect();
            let whole = rounded(&amounts.iter().sum(), 2) + more;
            let shown = fit(&amounts.iter().collect::<Vec<_>>(), &whole, 2);
            prop_assert_eq!(shown.iter().sum::<BigInt>(), whole);
            if more == 0 {
                for (shown, amount) in shown.iter().zip(&amounts) {
                    let off: BigInt = shown * 10_000 - &amount.0;
                    prop_assert!(off.abs() < BigInt::from(10_000));
                }
            }
        }
    }
}
