//! A page of metrics, in either format: no line makes the parser fall.
#![no_main]

use contador_agent::scrape::text::{Format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let Some((first, rest)) = body.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let format = if first & 1 == 0 { Format::Prometheus } else { Format::OpenMetrics };
    let _ = parse(text, format);
});
