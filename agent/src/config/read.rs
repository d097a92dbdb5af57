//! From a value as it is written to what is meant, with its bounds. An empty reason stands for what the key expects.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use contador_schemas::series::WINDOW_SECONDS;

use super::key::Written;
use super::units::{duration, size};
use super::{Compression, PodsScraped};
use crate::owners::kubernetes::request::Unit;
use crate::owners::label;

/// Without more words than the key has itself.
const KEY: &str = "";

/// Longest name of a resource: a domain of 253 bytes, a slash, and 63.
const MAX_RESOURCE_BYTES: usize = 317;

fn text(written: &Written) -> Result<&str, &'static str> {
    match written {
        Written::Text(text) => Ok(text),
        _ => Err(KEY),
    }
}

/// A number where a unit is needed is told so, whether it stands in quotes or not.
fn with_unit(written: &Written) -> Result<&str, &'static str> {
    match written {
        Written::Text(text) => Ok(text),
        Written::Whole(_) => Ok("without a unit"),
        _ => Err(KEY),
    }
}

pub(super) fn name(written: &Written) -> Result<String, &'static str> {
    match text(written)?.trim() {
        name if !name.is_empty() && label::is_valid(name) => Ok(name.to_owned()),
        _ => Err(KEY),
    }
}

pub(super) fn path(written: &Written) -> Result<PathBuf, &'static str> {
    match written {
        Written::Text(text) if !text.is_empty() => Ok(PathBuf::from(text)),
        Written::Path(path) => Ok(path.clone()),
        _ => Err(KEY),
    }
}

/// Instants are aligned to the clock, so that an interval has to fit into a minute, or a second into it.
pub(super) fn interval(written: &Written) -> Result<Duration, &'static str> {
    let interval = duration(with_unit(written)?)?;
    let ms = interval.as_millis();
    if (100..=60_000).contains(&ms) && 60_000 % ms == 0 { Ok(interval) } else { Err(KEY) }
}

pub(super) fn timeout(written: &Written) -> Result<Duration, &'static str> {
    let timeout = duration(with_unit(written)?)?;
    if timeout < Duration::from_millis(100) { Err(KEY) } else { Ok(timeout) }
}

pub(super) fn poll(written: &Written) -> Result<Duration, &'static str> {
    timeout(written).and_then(|poll| if poll < Duration::from_secs(1) { Err(KEY) } else { Ok(poll) })
}

pub(super) fn size_from<const LEAST: u64>(written: &Written) -> Result<u64, &'static str> {
    let bytes = size(with_unit(written)?)?;
    if bytes < LEAST { Err(KEY) } else { Ok(bytes) }
}

pub(super) fn push_size(written: &Written) -> Result<usize, &'static str> {
    let bytes = size_from::<{ 1 << 10 }>(written)?;
    usize::try_from(bytes).ok().filter(|bytes| *bytes <= 64 << 20).ok_or(KEY)
}

pub(super) fn page_size(written: &Written) -> Result<usize, &'static str> {
    push_size(written).and_then(|bytes| if bytes < 64 << 10 { Err(KEY) } else { Ok(bytes) })
}

/// Each window must have its scrapes, and all windows the same ones.
pub(super) fn scrape_interval(written: &Written) -> Result<Duration, &'static str> {
    let interval = duration(with_unit(written)?)?;
    let window = u128::from(WINDOW_SECONDS) * 1_000;
    let ms = interval.as_millis();
    if (1_000..=window).contains(&ms) && window % ms == 0 { Ok(interval) } else { Err(KEY) }
}

pub(super) fn pods(written: &Written) -> Result<PodsScraped, &'static str> {
    match text(written)? {
        "off" => Ok(PodsScraped::Off),
        "gpu" => Ok(PodsScraped::Gpu),
        "annotated" => Ok(PodsScraped::Annotated),
        _ => Err(KEY),
    }
}

pub(super) fn endpoint(written: &Written) -> Result<String, &'static str> {
    let text = text(written)?;
    let uri: http::Uri = text.parse().map_err(|_| KEY)?;
    match uri.scheme_str() {
        Some("http") if uri.host().is_some() && matches!(uri.path(), "" | "/") => Ok(text.to_owned()),
        _ => Err(KEY),
    }
}

/// A server that may be behind a proxy, and then has a path.
pub(super) fn api(written: &Written) -> Result<String, &'static str> {
    let text = text(written)?;
    let uri: http::Uri = text.parse().map_err(|_| KEY)?;
    let is_one = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && uri.query().is_none();
    is_one.then(|| text.trim_end_matches('/').to_owned()).ok_or(KEY)
}

pub(super) fn choice(written: &Written) -> Result<Compression, &'static str> {
    match text(written)? {
        "zstd" => Ok(Compression::Zstd),
        "gzip" => Ok(Compression::Gzip),
        "none" => Ok(Compression::None),
        _ => Err(KEY),
    }
}

pub(super) fn address(written: &Written) -> Result<SocketAddr, &'static str> {
    text(written)?.parse().map_err(|_| KEY)
}

pub(super) fn flag(written: &Written) -> Result<bool, &'static str> {
    match written {
        Written::Flag(yes) => Ok(*yes),
        _ => Err(KEY),
    }
}

pub(super) fn to_an_hour(written: &Written) -> Result<Duration, &'static str> {
    let interval = duration(with_unit(written)?)?;
    if (1..=3_600).contains(&interval.as_secs()) && interval <= Duration::from_secs(3_600) {
        Ok(interval)
    } else {
        Err(KEY)
    }
}

pub(super) fn count_to<const MOST: usize>(written: &Written) -> Result<usize, &'static str> {
    match written {
        Written::Whole(number) => usize::try_from(*number).ok().filter(|number| *number <= MOST).ok_or(KEY),
        _ => Err(KEY),
    }
}

pub(super) fn count_from_1_to<const MOST: usize>(written: &Written) -> Result<usize, &'static str> {
    count_to::<MOST>(written).and_then(|number| if number > 0 { Ok(number) } else { Err(KEY) })
}

pub(super) fn texts(written: &Written) -> Result<Vec<String>, &'static str> {
    match written {
        Written::List(list) => Ok(list.clone()),
        _ => Err(KEY),
    }
}

pub(super) fn places(written: &Written) -> Result<Vec<PathBuf>, &'static str> {
    let places: Vec<PathBuf> = texts(written)?.into_iter().map(PathBuf::from).collect();
    if places.iter().all(|place| place.is_absolute()) { Ok(places) } else { Err(KEY) }
}

/// As Kubernetes has them: a domain, a slash and a name, here with a `*` at the end or without.
pub(super) fn resources(written: &Written) -> Result<Vec<String>, &'static str> {
    let list = texts(written)?;
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-._/".contains(sign);
    let is_one = |name: &String| {
        let start = name.strip_suffix('*').unwrap_or(name);
        name.len() <= MAX_RESOURCE_BYTES && !start.is_empty() && start.chars().all(is_plain)
    };
    if list.iter().all(is_one) { Ok(list) } else { Err(KEY) }
}

/// Each a name, an equals sign, and a unit.
pub(super) fn requests(written: &Written) -> Result<Vec<(String, Unit)>, &'static str> {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-._/".contains(sign);
    let one = |text: &String| {
        let (word, unit) = text.split_once('=')?;
        let (word, unit) = (word.trim(), Unit::named(unit.trim(), |text| size(text).ok())?);
        let is_word = !word.is_empty() && word.len() <= MAX_RESOURCE_BYTES && word.chars().all(is_plain);
        is_word.then(|| (word.to_owned(), unit))
    };
    texts(written)?.iter().map(one).collect::<Option<_>>().ok_or(KEY)
}
