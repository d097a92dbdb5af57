//! Values of a scenario file, from what is written to what is simulated: percents to thousandths of a percent,
//! MiB to bytes, durations to milliseconds, time lines, waves and traces to curves.

use std::path::Path;

use toml::Value;
use uuid::Uuid;

use super::Fault;
use super::trace::Trace;
use crate::curve::Curve;

const MIB: f64 = 1_048_576.0;

/// Three centuries: long enough, and every integral stays far inside its integers.
pub(super) const LONGEST_MS: f64 = 1e13;

/// Thousandths of a percent.
pub(super) fn percent(key: &str, value: f64) -> Result<u64, Fault> {
    scaled(value, 1_000.0, 100.0)
        .ok_or_else(|| Fault::new(key, format!("{value} percent: expected a number from 0 to 100")))
}

/// Bytes, at most `capacity`.
pub(super) fn mib(key: &str, value: f64, capacity: u64) -> Result<u64, Fault> {
    let most = capacity as f64 / MIB;
    scaled(value, MIB, most).ok_or_else(|| {
        Fault::new(
            key,
            format!("{value} MiB: expected a number from 0 to {most}, what the GPU has beside its reserved memory"),
        )
    })
}

pub(super) fn scaled(value: f64, by: f64, most: f64) -> Option<u64> {
    if !(0.0..=most).contains(&value) {
        return None;
    }
    // Not negative, as just checked.
    #[allow(clippy::cast_sign_loss)]
    Some((value * by).round() as u64)
}

/// A curve in thousandths of a percent.
pub(super) fn percent_curve(key: &str, value: &Value, folder: &Path) -> Result<Curve, Fault> {
    curve(key, value, folder, percent)
}

/// A curve in bytes, at most `capacity`.
pub(super) fn mib_curve(key: &str, value: &Value, folder: &Path, capacity: u64) -> Result<Curve, Fault> {
    curve(key, value, folder, |key, value| mib(key, value, capacity))
}

fn curve(
    key: &str,
    value: &Value,
    folder: &Path,
    unit: impl Fn(&str, f64) -> Result<u64, Fault>,
) -> Result<Curve, Fault> {
    match value {
        Value::Integer(_) | Value::Float(_) => Ok(Curve::constant(unit(key, number(key, value)?)?)),
        Value::Array(points) => {
            let mut line = Vec::new();
            for (position, point) in points.iter().enumerate() {
                let key = format!("{key}[{position}]");
                let [at, value] = fields(&key, point, ["at", "value"])?;
                line.push((duration(&format!("{key}.at"), at)?, {
                    let key = format!("{key}.value");
                    unit(&key, number(&key, value)?)?
                }));
            }
            Curve::line(line).map_err(|error| Fault::new(key, error.to_string()))
        }
        Value::Table(table) if table.contains_key("csv") => {
            let points = Trace::written(key, table, folder)?.points(key, |value| unit(key, value))?;
            Curve::line(points).map_err(|error| Fault::new(key, error.to_string()))
        }
        Value::Table(_) => {
            let [wave] = fields(key, value, ["wave"])?;
            let key = format!("{key}.wave");
            let [min, max, period] = fields(&key, wave, ["min", "max", "period"])?;
            let of = |name: &str, value: &Value| {
                let key = format!("{key}.{name}");
                unit(&key, number(&key, value)?)
            };
            let period = duration(&format!("{key}.period"), period)?;
            Curve::wave(of("min", min)?, of("max", max)?, period).map_err(|error| Fault::new(key, error.to_string()))
        }
        other => Err(Fault::new(
            key,
            format!(
                "{other}: expected a number, a time line [{{ at, value }}, …], {{ wave = {{ min, max, period }} }} or {{ csv, time, value }}"
            ),
        )),
    }
}

/// Exactly these fields of a table.
pub(super) fn fields<'v, const N: usize>(
    key: &str,
    value: &'v Value,
    names: [&str; N],
) -> Result<[&'v Value; N], Fault> {
    let expected = || format!("expected {{ {} }}", names.join(", "));
    let table = value.as_table().ok_or_else(|| Fault::new(key, format!("{value}: {}", expected())))?;
    if let Some(unknown) = table.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(Fault::new(format!("{key}.{unknown}"), format!("unknown key: {}", expected())));
    }
    let mut found = [value; N];
    for (slot, name) in found.iter_mut().zip(names) {
        *slot =
            table.get(name).ok_or_else(|| Fault::new(format!("{key}.{name}"), format!("missing: {}", expected())))?;
    }
    Ok(found)
}

fn number(key: &str, value: &Value) -> Result<f64, Fault> {
    match value {
        Value::Integer(number) => Ok(*number as f64),
        Value::Float(number) => Ok(*number),
        other => Err(Fault::new(key, format!("{other}: expected a number"))),
    }
}

/// Milliseconds of `"250ms"`, `"30s"`, `"5m"` or `"1h"`; a bare number has no unit and is refused.
pub(super) fn duration(key: &str, value: &Value) -> Result<u64, Fault> {
    let fault = || {
        Fault::new(
            key,
            format!("{value}: expected a duration with its unit, such as \"250ms\", \"30s\", \"5m\" or \"1h\""),
        )
    };
    let text = value.as_str().ok_or_else(fault)?;
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(fault)?;
    let (digits, unit) = text.split_at(split);
    let scale = milliseconds(unit).ok_or_else(fault)?;
    digits.parse::<f64>().ok().and_then(|number| scaled(number, scale, LONGEST_MS / scale)).ok_or_else(fault)
}

/// Milliseconds in one of a unit of time.
pub(super) fn milliseconds(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(1.0),
        "s" => Some(1_000.0),
        "m" => Some(60_000.0),
        "h" => Some(3_600_000.0),
        _ => None,
    }
}

/// True for drivers that number the fields of 251 and on anew: 580.82 and later.
pub(super) fn fields_moved(driver_version: &str) -> bool {
    let mut parts = driver_version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (580, 82)
}

/// 12080 for `12.8`.
pub(super) fn cuda_version(key: &str, text: &str) -> Result<i32, Fault> {
    let parts = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match parts {
        Some((major @ 1..=99, minor @ 0..=9)) => Ok(major * 1_000 + minor * 10),
        _ => Err(Fault::new(key, format!("\"{text}\": expected major.minor, such as \"12.8\""))),
    }
}

/// A UUID as the driver writes it.
pub(super) fn gpu_uuid(key: &str, text: &str) -> Result<String, Fault> {
    match text.strip_prefix("GPU-").map(Uuid::try_parse) {
        Some(Ok(uuid)) => Ok(format!("GPU-{uuid}")),
        _ => Err(Fault::new(key, format!("\"{text}\": expected GPU- and a UUID of 36 characters"))),
    }
}

/// A replaced answer; −1 is the greatest unsigned number, NVML's *not available*.
pub(super) fn answer(key: &str, value: &Value) -> Result<u64, Fault> {
    match value.as_integer() {
        Some(-1) => Ok(u64::MAX),
        Some(number) => u64::try_from(number).map_err(|_| Fault::new(key, format!("{number}: expected -1 or more"))),
        None => Err(Fault::new(key, format!("{value}: expected a whole number"))),
    }
}
