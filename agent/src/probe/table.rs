//! The report for a terminal; good at 80 columns.

use comfy_table::{ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};

use super::node::Node;
use super::text::{bad, dim, paint, wrapped};
use super::{Asked, ProbeReport, devices};
use crate::sensors::Reading;

/// The report as text, `columns` wide, with a line end after the last line and without colour.
pub fn render_table(report: &ProbeReport, columns: u16) -> String {
    paint(&layout(report, columns), false)
}

/// The same, in colours.
pub fn render_painted(report: &ProbeReport, columns: u16) -> String {
    paint(&layout(report, columns), true)
}

fn layout(report: &ProbeReport, columns: u16) -> String {
    let taken = jiff::Timestamp::from_millisecond(report.ts_ms).map_or_else(|_| "?".to_owned(), |at| at.to_string());
    let node = Node::of(report);
    let mut out = format!("{} at {taken}\n", report.node);
    out += &node.lines(columns);
    match &report.gpus {
        Asked::Answered(Reading::Value(gpus)) => out += &devices::part(report, gpus, columns),
        missing => {
            let why = missing.missing().unwrap_or_default();
            let is_usual = matches!(missing, Asked::Answered(Reading::Unsupported(_)));
            let why = if is_usual { dim(why) } else { bad(why) };
            out += &format!("\n{}", wrapped(&format!("GPUs: {why}"), columns));
        }
    }
    out += &node.mounts(columns);
    out += &node.disks(columns);
    let rest = node.rest(columns);
    if rest.is_empty() { out } else { format!("{out}\n{rest}") }
}

/// The line below the names of the columns.
const RULE: LineStyle = LineStyle::none().fill('─').junction('─');

/// A table of this width.
pub(super) fn grid(columns: u16, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    table.load_style(TableStyle::new().header_separator(RULE)).set_header(header.to_vec());
    // Only the last column is broken.
    let last = header.len().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, u16::from(index < last)));
        if index < last {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}
