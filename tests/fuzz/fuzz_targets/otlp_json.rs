//! A body that claims to be an OTLP request in JSON: what is read can be said by protobuf, and is the same request then.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message as _;

fuzz_target!(|body: &[u8]| {
    if let Ok(request) = contador::ingest::receive::json::request(body) {
        let again = opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest::decode(
            request.encode_to_vec().as_slice(),
        );
        // NaN is not itself.
        assert_eq!(again.map(|again| again.encode_to_vec()), Ok(request.encode_to_vec()));
    }
});
