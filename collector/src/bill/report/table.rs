//! A bill as a table for a terminal.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::Report;
use super::total::Amounts;

/// Narrowest table, columns.
const NARROWEST: u16 = 60;

impl Report {
    /// The bill as text of at most `width` columns: what it is, its groups, its total, and what to know about it.
    pub fn to_table(&self, width: u16) -> String {
        let width = width.max(NARROWEST);
        let period = &self.options.period;
        let mut out = String::new();
        let mut say = |name: &str, value: &str| {
            out.push_str(&format!("{name:<10}{value}\n"));
        };
        if let Some(month) = &period.month {
            say("month", month);
        }
        say("from", &period.local(period.from));
        say("to", &format!("{} ({})", period.local(period.to), period.zone_name()));
        say("prices", &format!("{}, in {}", self.prices.describe(), self.prices.currency()));
        let facts = &self.facts;
        say("made of", &format!("{} imported allocations, {} ledger rows", facts.allocations, facts.ledger_rows));
        if let Some(department) = &self.options.department {
            say("only", &format!("department {department}"));
        }
        out.push_str(&self.lines(width));
        out.push('\n');
        let check = self.difference();
        out.push_str(&format!("reconciliation: total less all lines = {check} {}\n", self.prices.currency()));
        for note in self.notes() {
            out.push_str(&format!("note: {note}\n"));
        }
        out
    }

    fn lines(&self, width: u16) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        table.set_header([self.options.by.as_str(), "GPU-hours", &format!("cost, {}", self.prices.currency())]);
        for line in &self.groups {
            let key = if line.amounts.unpriced.is_zero() {
                self.key(line)
            } else {
                format!("{} [{} h unpriced]", self.key(line), line.amounts.unpriced.grouped())
            };
            table.add_row(row(&key, &line.amounts));
        }
        let unallocated = self.unallocated();
        if !unallocated.gpu_hours.is_zero() {
            table.add_row(row("allocated", &self.allocated()));
            table.add_row(row("not allocated", &unallocated));
        }
        table.add_row(row("total", &self.total));
        if self.options.department.is_some() {
            table.add_row(row("whole fleet", &self.fleet));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(20)));
        }
        let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        text.join("\n")
    }
}

fn row(name: &str, amounts: &Amounts) -> [String; 3] {
    [name.to_owned(), amounts.gpu_hours.grouped(), amounts.cost.grouped()]
}
