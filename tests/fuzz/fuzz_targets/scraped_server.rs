//! Two pages of one server, divided by a zero byte: no page makes the memory fall, and increases have values.
#![no_main]

use contador_agent::scrape::presets::{Preset, Rules};
use contador_agent::scrape::server::Server;
use contador_agent::scrape::text::Format;
use libfuzzer_sys::fuzz_target;

const BEGAN_NS: u64 = 1_700_000_000_000_000_000;

fuzz_target!(|body: &[u8]| {
    let Ok(text) = std::str::from_utf8(body) else { return };
    let Ok(rules) = Rules::new(&Preset::ALL, &[]) else { return };
    let mut server = Server::new(BEGAN_NS);
    for (page, at_ns) in text.split('\0').take(4).zip((BEGAN_NS..).step_by(1_000_000_000)) {
        let taken = server.take(page, Format::Prometheus, at_ns, &rules);
        for increase in taken.latencies {
            assert!(increase.cells.count() > 0 && increase.start_ns <= increase.end_ns);
            assert!(increase.sum_us.is_none_or(f64::is_finite));
        }
        let kept = serde_json::to_vec(&server).expect("a state that can be kept");
        assert_eq!(serde_json::from_slice::<Server>(&kept).ok().as_ref(), Some(&server));
    }
});
