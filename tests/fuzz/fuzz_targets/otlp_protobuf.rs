//! An OTLP request: each point is in a row, is a running total, or is counted as rejected; and no row has impossible cells.
#![no_main]

use contador::ingest::decode::decode;
use contador_schemas::cells::Cells;
use libfuzzer_sys::fuzz_target;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;

/// 2023-11-14, as good as any.
const NOW: i64 = 1_700_000_000_000_000_000;

fuzz_target!(|body: &[u8]| {
    let Ok(request) = ExportMetricsServiceRequest::decode(body) else { return };
    let decoded = decode(&request, NOW);
    assert!(decoded.rejected.points() <= decoded.points);
    for row in &decoded.rows.latency {
        let cells = Cells::from_columns(&row.lo, &row.hi, &row.n).expect("cells that can be read again");
        assert_eq!(cells.count(), row.count);
        assert!(row.lo.iter().all(|lo| *lo >= 0.0) && row.censored <= row.count);
    }
});
