//! What sacct prints: read or refused, and then no job ends before it starts.
#![no_main]

use contador::bill::import::Figures;
use contador::bill::import::sacct::{AccountIs, ExperimentIs, Options, Suspended, parse};
use libfuzzer_sys::fuzz_target;

const HEADER: &[u8] =
    b"JobIDRaw|Cluster|Account|User|State|Submit|Start|End|ElapsedRaw|Suspended|AllocTRES|NodeList|JobName\n";

fuzz_target!(|body: &[u8]| {
    let options = Options {
        zone: contador::bill::period::zone("Europe/Berlin").expect("a zone"),
        suspended: Suspended::Held,
        account: AccountIs::Project,
        experiment: Some(ExperimentIs::JobName),
        models: [("h100".to_owned(), "H100".to_owned())].into(),
        shard: Some(125_000_000_000),
    };
    for text in [body.to_vec(), [HEADER, body].concat()] {
        let Ok(parsed) = parse("jobs", text.as_slice(), &options, false) else { continue };
        assert!(parsed.allocations().all(|row| row.start <= row.end && row.gpus > 0));
        let _ = Figures::of(&parsed).to_string();
    }
});
