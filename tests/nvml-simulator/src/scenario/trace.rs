//! A time line from a CSV file: one column has the time, another the value.

use std::path::{Path, PathBuf};

use toml::Value;

use super::Fault;
use super::values::{LONGEST_MS, milliseconds, scaled};

/// `{ csv, time, value, time_unit, scale }` of a scenario.
pub(super) struct Trace {
    path: PathBuf,
    time: String,
    value: String,
    /// Milliseconds in one of the time column's unit.
    time_ms: f64,
    /// What the value column is multiplied by.
    scale: f64,
}

const EXPECTED: &str = "expected { csv, time, value } and, as wished, time_unit and scale";

impl Trace {
    /// The trace that `table` names; a relative path starts at `folder`.
    pub(super) fn written(key: &str, table: &toml::Table, folder: &Path) -> Result<Self, Fault> {
        let known = ["csv", "time", "value", "time_unit", "scale"];
        if let Some(unknown) = table.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(Fault::new(format!("{key}.{unknown}"), format!("unknown key: {EXPECTED}")));
        }
        let text = |name: &str| match table.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(Fault::new(format!("{key}.{name}"), format!("{other}: expected a text"))),
            None => Err(Fault::new(format!("{key}.{name}"), format!("missing: {EXPECTED}"))),
        };
        let time_unit = if table.contains_key("time_unit") { text("time_unit")? } else { "s".to_owned() };
        let time_ms = milliseconds(&time_unit).ok_or_else(|| {
            Fault::new(format!("{key}.time_unit"), format!("\"{time_unit}\": expected ms, s, m or h"))
        })?;
        let scale = match table.get("scale") {
            None => 1.0,
            Some(Value::Integer(number)) => *number as f64,
            Some(Value::Float(number)) => *number,
            Some(other) => return Err(Fault::new(format!("{key}.scale"), format!("{other}: expected a number"))),
        };
        Ok(Self { path: folder.join(text("csv")?), time: text("time")?, value: text("value")?, time_ms, scale })
    }

    /// The points, as milliseconds since the first row and what `unit` makes of the value.
    pub(super) fn points(&self, key: &str, unit: impl Fn(f64) -> Result<u64, Fault>) -> Result<Vec<(u64, u64)>, Fault> {
        let key = format!("{key}.csv");
        let path = self.path.display();
        let unreadable = |error: csv::Error| Fault::new(&key, format!("{path}: {error}: expected a CSV file"));
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(&self.path).map_err(unreadable)?;
        let header = reader.headers().map_err(unreadable)?.clone();
        let column = |name: &str| {
            header.iter().position(|known| known == name).ok_or_else(|| {
                let known = header.iter().collect::<Vec<_>>().join(", ");
                Fault::new(&key, format!("{path}: line 1: no column \"{name}\": expected one of {known}"))
            })
        };
        let (time, value) = (column(&self.time)?, column(&self.value)?);
        let (mut points, mut first) = (Vec::new(), None);
        for row in reader.records() {
            let row = row.map_err(unreadable)?;
            let line = row.position().map_or(0, csv::Position::line);
            let at = |column: &str, fault: String| Fault::new(&key, format!("{path}: line {line}: {column}: {fault}"));
            let number = |column: &str, place: usize| {
                let text = row.get(place).unwrap_or_default();
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                number.ok_or_else(|| at(column, format!("\"{text}\": expected a number")))
            };
            let seconds = number(&self.time, time)?;
            let since = seconds - *first.get_or_insert(seconds);
            let ms = scaled(since, self.time_ms, LONGEST_MS / self.time_ms);
            let later = ms.filter(|ms| points.last().is_none_or(|(before, _)| ms > before));
            let ms = later
                .ok_or_else(|| at(&self.time, format!("{seconds}: expected a later time than the line before")))?;
            let scaled = number(&self.value, value)? * self.scale;
            points.push((ms, unit(scaled).map_err(|inner| at(&self.value, inner.fault))?));
        }
        Ok(points)
    }
}
