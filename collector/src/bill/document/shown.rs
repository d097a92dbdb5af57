//! Documents for people: tables for a terminal, and numbered notes under them.

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use jiff::Timestamp;
use jiff::tz::TimeZone;

const RULE: LineStyle = LineStyle::none().fill('─').junction('─');

/// Rows under a header, in columns, as lines of at most `width` columns.
pub fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>, width: u16) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(RULE));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// An instant, as a date of the zone if it is a midnight there; 0 is always.
pub fn from(second: u32, zone: &TimeZone) -> String {
    if second == 0 { "always".to_owned() } else { instant(second, zone) }
}

/// An instant, as a date of the zone if it is a midnight there.
pub fn instant(second: u32, zone: &TimeZone) -> String {
    let local = Timestamp::from_second(second.into()).unwrap_or_default().to_zoned_datetime(zone.clone());
    let midnight = (local.hour(), local.minute(), local.second()) == (0, 0, 0);
    local.strftime(if midnight { "%Y-%m-%d" } else { "%Y-%m-%dT%H:%M:%S%:z" }).to_string()
}

/// An instant for machines: RFC 3339 in UTC.
pub fn rfc3339(second: u32) -> String {
    Timestamp::from_second(second.into()).unwrap_or_default().to_string()
}

/// Notes, each text once, by numbers.
#[derive(Debug, Default)]
pub struct Notes {
    texts: Vec<String>,
}

impl Notes {
    /// The number of a note, as `[1]`; nothing for an empty text.
    pub fn number(&mut self, what: &str, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let text = format!("{what}: {text}");
        let at = self.texts.iter().position(|known| *known == text).unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        format!("[{}]", at + 1)
    }

    /// All of them, a line each.
    pub fn lines(&self) -> String {
        let lines = self.texts.iter().enumerate().map(|(at, text)| format!("[{}] {text}\n", at + 1));
        lines.collect()
    }
}
