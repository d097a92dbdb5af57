//! A bill as a table for a terminal.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width};

use super::Report;
use crate::bill::settle::Amounts;

/// Narrowest table, columns.
const NARROWEST: u16 = 60;

const RULE: LineStyle = LineStyle::none().fill('─').junction('─');

impl Report {
    /// The bill as text of at most `width` columns: what it is, its groups, its total, and what to know about it.
    pub fn to_table(&self, width: u16) -> String {
        let (period, made) = (&self.statement.period, &self.statement.made);
        let mut out = String::new();
        let mut say = |name: &str, value: &str| out.push_str(&format!("{name:<9}{value}\n"));
        if let Some(month) = &period.month {
            say("month", month);
        }
        say("from", &period.local(period.from));
        say("to", &format!("{} ({})", period.local(period.to), period.zone_name()));
        say("status", &self.status_line());
        say("prices", &format!("{}, in {}", self.statement.book.describe(), self.statement.book.currency));
        say("facts", &format!("{} imported allocations, {} ledger rows", made.allocations, made.ledger_rows));
        if let Some(department) = &self.department {
            say("only", &format!("department {department}"));
        }
        out.push('\n');
        for line in self.lines(width.max(NARROWEST)) {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out.push_str(&format!("\nreconciliation: the total less all lines is {}\n", self.difference()));
        for note in self.notes() {
            out.push_str(&format!("note: {note}\n"));
        }
        out
    }

    fn lines(&self, width: u16) -> Vec<String> {
        let mut table = Table::new();
        table.load_style(TableStyle::new().header_separator(RULE));
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        table.set_header([self.by.as_str(), "GPU-hours", &format!("cost, {}", self.statement.book.currency)]);
        for group in &self.groups {
            let mut key = self.key(group);
            if !group.amounts.unpriced.is_zero() {
                key.push_str(&format!(" [{} h unpriced]", group.amounts.unpriced.grouped()));
            }
            table.add_row(row(&key, &group.amounts));
        }
        let totals = self.totals();
        for (name, amounts) in &totals {
            table.add_row(row(name, amounts));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(20)));
        }
        let mut lines: Vec<String> = table.lines().collect();
        // The totals are one line each: their names are short.
        let rule = lines.get(1).cloned().unwrap_or_default();
        lines.insert(lines.len().saturating_sub(totals.len()), rule);
        lines
    }

    fn totals(&self) -> Vec<(&'static str, Amounts)> {
        let unallocated = self.unallocated();
        let mut totals = Vec::new();
        if unallocated != Amounts::default() {
            totals.push(("allocated", self.allocated()));
            totals.push(("not allocated", unallocated));
        }
        totals.push(("total", self.total.clone()));
        if self.department.is_some() {
            totals.push(("whole fleet", self.fleet.clone()));
        }
        totals
    }
}

fn row(name: &str, amounts: &Amounts) -> [String; 3] {
    // What has no price at all must not look free.
    let free = amounts.cost.is_zero() && !amounts.unpriced.is_zero();
    let cost = if free { "unpriced".to_owned() } else { amounts.cost.grouped() };
    [name.to_owned(), amounts.gpu_hours.grouped(), cost]
}
