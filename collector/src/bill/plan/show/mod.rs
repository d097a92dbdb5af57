//! Plans as tables for people and as JSON for machines: [`commitments`] and [`capacity`]. Money is rounded here, and only here; JSON has
//! the exact fractions beside it where a decision hangs on them.

pub mod capacity;
pub mod commitments;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use num_rational::BigRational;

use crate::bill::apportion::round;
use crate::bill::decimal::Millionths;
use crate::bill::rate::exact::Amount;

const RULE: LineStyle = LineStyle::none().fill('─').junction('─');

/// An amount in millionths.
pub(super) fn millionths(amount: &Amount) -> Millionths {
    Millionths(round(amount, 1_000_000))
}

/// An amount for people, to hundredths.
pub(super) fn cents(amount: &Amount) -> String {
    let text = Millionths(round(amount, 100) * 10_000).grouped();
    text[..text.len() - 4].to_owned()
}

/// A fraction for people, to hundredths, without needless zeros.
pub(super) fn number(value: &BigRational) -> String {
    let text = cents(&Amount::new(value.numer().clone(), value.denom()));
    text.strip_suffix(".00").map_or(text.clone(), str::to_owned)
}

/// Thousandths as a percentage.
pub(super) fn percent(permille: Option<u32>) -> String {
    permille.map_or_else(|| "–".to_owned(), |permille| format!("{}.{} %", permille / 10, permille % 10))
}

/// A table whose columns after the first are numbers.
pub(super) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(RULE));
    table.set_header(head);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_told_to_hundredths_with_thousands() {
        let of = |above: i64, below: i64| Amount::new(above.into(), &below.into());
        for (amount, text) in
            [(of(10_000, 3), "3,333.33"), (of(-1, 200), "-0.01"), (of(0, 1), "0.00"), (of(5, 1), "5.00")]
        {
            assert_eq!(cents(&amount), text);
        }
        assert_eq!(number(&of(5, 1).reduced()), "5");
        assert_eq!(number(&of(5, 2).reduced()), "2.50");
        assert_eq!(percent(Some(708)), "70.8 %");
    }
}
