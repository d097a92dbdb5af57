//! How much memory a request may take.

use axum::http::HeaderValue;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;

use super::*;
use crate::http::fixture::shared;

/// As protobuf, by HTTP, as it is.
async fn sent(body: &[u8], shared: &Shared) -> Result<Message, Fault> {
    of_http(Media::Protobuf, &HeaderMap::new(), Body::from(body.to_vec()), shared).await
}

/// So many resources without anything, and a field that nobody knows.
fn request(resources: usize, unknown: usize) -> Vec<u8> {
    let resource_metrics = vec![ResourceMetrics::default(); resources];
    let mut body = ExportMetricsServiceRequest { resource_metrics }.encode_to_vec();
    body.extend([0x7a, u8::try_from(unknown).unwrap()]);
    body.extend(vec![0; unknown]);
    body
}

#[tokio::test]
async fn a_request_alone_is_taken_or_refused_for_good() {
    let dir = tempfile::tempdir().unwrap();
    // All may take 62 KiB and a half, of which the half is no whole permit.
    let shared = shared(dir.path(), 1_000);
    let (mut taken, mut refused) = (0, 0);
    for resources in 52..60 {
        for unknown in 0..40 {
            let body = request(resources, unknown);
            let text = match sent(&body, &shared).await {
                Ok(message) => {
                    taken += 1;
                    assert!(message.held.bytes() <= 62 << 10);
                    continue;
                }
                Err(Fault::TooLarge(text)) => text,
                Err(fault) => panic!("{resources} {unknown}: {fault:?}"),
            };
            refused += 1;
            assert!(text.contains("more memory than the 63488 bytes that all requests may take"), "{text}");
            // It is what is said: with the body, the request would take more.
            assert!(cost::of(&body).unwrap() + body.len() > 62 << 10);
        }
    }
    assert!(taken > 20 && refused > 20, "{taken} {refused}");
}

#[tokio::test]
async fn a_small_request_takes_little_however_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(dir.path(), 1 << 20);
    let body = request(1, 0);
    let cost = cost::of(&body).unwrap();
    let compressed = zstd::encode_all(&*body, 3).unwrap();
    let zstd = |name| HeaderMap::from_iter([(name, HeaderValue::from_static("zstd"))]);
    let framed = |compressed: bool, message: &[u8]| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        Body::from([&[u8::from(compressed)], &length[..], message].concat())
    };
    // Others hold all but 8 KiB of 64 MiB.
    let mut others = shared.room.hold();
    others.set(shared.room.bytes() - (8 << 10)).unwrap();
    let plain = sent(&body, &shared).await.unwrap();
    assert_eq!(plain.held.bytes(), body.len() + cost);
    drop(plain);
    let json =
        of_http(Media::Json, &HeaderMap::new(), Body::from(r#"{"resourceMetrics":[{}]}"#), &shared).await.unwrap();
    assert_eq!(json.request, ExportMetricsServiceRequest { resource_metrics: vec![ResourceMetrics::default()] });
    drop(json);
    let headers = zstd(header::CONTENT_ENCODING);
    let inflated = of_http(Media::Protobuf, &headers, Body::from(compressed.clone()), &shared).await.unwrap();
    assert_eq!(inflated.held.bytes(), body.len() + cost);
    drop(inflated);
    let name = header::HeaderName::from_static("grpc-encoding");
    for (headers, body) in [(HeaderMap::new(), framed(false, &body)), (zstd(name), framed(true, &compressed))] {
        assert!(of_grpc(&headers, body, &shared).await.is_ok());
    }
    // And when there is no room at all, it may come back.
    others.set(shared.room.bytes()).unwrap();
    assert!(matches!(sent(&body, &shared).await, Err(Fault::Overloaded(_))));
}
