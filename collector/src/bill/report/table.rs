//! A bill as a table for a terminal.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width};

use contador_schemas::owner::OwnerKind;

use super::view::{Beside, Outlook, Scopes};
use super::{Dimension, Lang, Report, lang};
use crate::bill::decimal::Millionths;
use crate::bill::forecast::Forecast;
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
        for (name, text) in self.comparison() {
            say(name, &text);
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

    /// What the total is to be compared with, where that is known.
    fn comparison(&self) -> Vec<(&'static str, String)> {
        let Beside { last, now, .. } = &self.beside;
        if last.is_none() && now.is_none() && self.statement.agreements.budgets.is_empty() {
            return Vec::new();
        }
        let scopes = Scopes::of(self);
        let scope = if self.department.is_some() { scopes.payers.first() } else { Some(&scopes.fleet) };
        let Some(scope) = scope else { return Vec::new() };
        let part = |of: &Millionths| lang::tenths(&self.total.cost.0, &of.0).map(|tenths| Lang::En.percent(&tenths));
        let against = |of: &Millionths| match part(of) {
            Some(part) => format!("{}, of which this is {part}", of.grouped()),
            None => of.grouped(),
        };
        let mut told = Vec::new();
        if let Some(last) = &scope.last {
            told.push(("last", against(last)));
        }
        if let Some(budget) = &scope.budget {
            told.push(("budget", against(budget)));
        }
        match &scope.outlook {
            Outlook::Over => {}
            Outlook::TooFew => told.push(("forecast", "too few days to tell".to_owned())),
            Outlook::Expected { forecast: Forecast { low, point, high, days }, .. } => {
                let [low, point, high] = [low, point, high].map(Millionths::grouped);
                told.push(("forecast", format!("{point}, from {low} to {high} with 80 %, by {days} days")));
            }
        }
        told
    }

    fn lines(&self, width: u16) -> Vec<String> {
        let mut table = Table::new();
        table.load_style(TableStyle::new().header_separator(RULE));
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        let by: Vec<&str> = self.dimensions().map(Dimension::as_str).collect();
        let cost = format!("cost, {}", self.statement.book.currency);
        let mut header = vec![by.join(", "), "GPU-hours".to_owned(), cost];
        let with_effective = self.has_commitments();
        if with_effective {
            header.push("effective".to_owned());
        }
        table.set_header(header);
        for (name, amounts) in self.rows() {
            let unpriced = match amounts.unpriced.is_zero() {
                true => String::new(),
                false => format!(" [{} h unpriced]", amounts.unpriced.grouped()),
            };
            table.add_row(row(&(name + &unpriced), &amounts, with_effective));
        }
        let totals = self.totals();
        for (name, amounts) in &totals {
            table.add_row(row(name, amounts, with_effective));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
            let width = if with_effective { 16 } else { 20 };
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
        }
        let mut lines: Vec<String> = table.lines().collect();
        // The totals are one line each: their names are short.
        let rule = lines.get(1).cloned().unwrap_or_default();
        lines.insert(lines.len().saturating_sub(totals.len()), rule);
        lines
    }

    /// The groups; where there are several dimensions, each level's with its own sum, and what it is made of under it.
    fn rows(&self) -> Vec<(String, Amounts)> {
        let mut rows: Vec<(String, Amounts)> = Vec::new();
        // The rows of the levels that the group before was in.
        let mut open: Vec<(Vec<&str>, usize)> = Vec::new();
        let mut kind = None;
        for group in &self.groups {
            if kind != Some(group.kind) {
                open.clear();
                kind = Some(group.kind);
            }
            // What nobody holds is told once, and not for each level that tells nothing of it.
            let is_told = |(level, by): (usize, Dimension)| {
                (level == 0 || group.kind == OwnerKind::Workload || by.is_of_devices()).then_some(level)
            };
            let told: Vec<usize> = self.dimensions().enumerate().filter_map(is_told).collect();
            let all: Vec<&str> = group.values().collect();
            let values: Vec<&str> = told.iter().map(|level| all[*level]).collect();
            open.retain(|(prefix, _)| values.starts_with(prefix));
            for depth in open.len()..told.len() {
                rows.push((
                    format!("{}{}", "\u{a0}\u{a0}".repeat(depth), self.key_at(group, told[depth])),
                    Amounts::default(),
                ));
                open.push((values[..=depth].to_vec(), rows.len() - 1));
            }
            for (_, at) in &open {
                rows[*at].1 += &group.amounts;
            }
        }
        rows
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

fn row(name: &str, amounts: &Amounts, with_effective: bool) -> Vec<String> {
    // What has no price at all must not look free.
    let free = amounts.cost.is_zero() && !amounts.unpriced.is_zero();
    let cost = if free { "unpriced".to_owned() } else { amounts.cost.grouped() };
    let mut row = vec![name.to_owned(), amounts.gpu_hours.grouped(), cost];
    if with_effective {
        row.push(amounts.effective.grouped());
    }
    row
}
