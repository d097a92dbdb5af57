//! A file of targets: read or refused.
#![no_main]

use contador_agent::targets::files::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let _ = parse(body);
});
