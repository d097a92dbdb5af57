//! A CSV of allocations: read or refused, and then each has some time.
#![no_main]

use contador::bill::import::{Figures, HEADER, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let header = format!("{}\n", HEADER.join(","));
    for text in [body.to_vec(), [header.as_bytes(), body].concat()] {
        let Ok(parsed) = parse("allocations.csv", text.as_slice(), false) else { continue };
        assert!(parsed.allocations().all(|row| row.start < row.end && row.gpus > 0 && row.fraction > 0));
        let _ = Figures::of(&parsed).to_string();
    }
});
