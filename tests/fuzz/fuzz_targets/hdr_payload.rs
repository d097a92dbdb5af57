//! A body that claims to be an HDR histogram: read whole or refused, and what is read has its count in its cells.
#![no_main]

use contador_agent::http::hdr::decode;
use contador_agent::http::unit::Unit;
use contador_schemas::quantile::Quantile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    if let Ok(decoded) = decode(body, 1 << 20, Unit::default()) {
        let counted = decoded.cells.as_slice().iter().map(|cell| u128::from(cell.n)).sum::<u128>();
        assert_eq!(counted, u128::from(decoded.cells.count()));
        assert_eq!(decoded.cells.interval(Quantile::P99).is_none(), counted == 0);
        assert!(decoded.sum_us.is_finite() && decoded.sum_us >= 0.0);
    }
});
