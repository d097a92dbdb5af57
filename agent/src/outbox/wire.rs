//! The request on the wire: records as they are in the spool, which are encoded already, in one gRPC message.
//!
//! The message (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>) is a byte that says whether it is compressed,
//! four of its length, and itself. It is made here and not by tonic, which knows messages that have yet to be encoded, and
//! which would compress what is compressed already.

use std::io::{self, Write as _};
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::write::GzEncoder;
use http::header::HeaderValue;
use http_body_util::Full;
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use prost::Message as _;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::Service;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::pack::{self, Packer};
use super::segment::Record;
use crate::config::Compression;

/// The call of OTLP (<https://opentelemetry.io/docs/specs/otlp/#otlpgrpc>).
const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Bytes before a message.
const PREFIX: usize = 5;

/// A connection to a collector, and what is needed to write to it.
pub struct Wire {
    channel: Channel,
    packer: Packer,
}

impl Wire {
    /// Writes to this channel.
    pub fn new(channel: Channel) -> Self {
        Self { channel, packer: Packer::default() }
    }

    /// Sends one request made of all these records: encoded messages one after the other are the encoding of one message
    /// with all their parts.
    ///
    /// # Errors
    /// What the collector answers, or why it was not reached.
    pub async fn export(
        &mut self,
        compression: Compression,
        records: &[Record],
    ) -> Result<ExportMetricsServiceResponse, Status> {
        let message = self.message(compression, records).map_err(|error| Status::from_error(error.into()))?;
        let framed = Framed { channel: self.channel.clone(), message, compression };
        let mut client = Grpc::new(framed);
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let path = PathAndQuery::from_static(EXPORT);
        client.unary(Request::new(()), path, Nothing).await.map(Response::into_inner)
    }

    /// The message of these records, with its prefix.
    fn message(&mut self, compression: Compression, records: &[Record]) -> io::Result<Bytes> {
        let mut payloads = records.iter().map(|record| record.payload.as_slice());
        let mut message = vec![u8::from(compression != Compression::None), 0, 0, 0, 0];
        match compression {
            Compression::None => payloads.try_for_each(|payload| {
                message.extend_from_slice(&pack::plain(payload)?);
                io::Result::Ok(())
            })?,
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(&mut message, flate2::Compression::default());
                payloads.try_for_each(|payload| encoder.write_all(&pack::plain(payload)?))?;
                encoder.finish()?;
            }
            // Frames one after the other are one stream.
            Compression::Zstd => payloads.try_for_each(|payload| {
                match pack::is_packed(payload) {
                    true => message.extend_from_slice(payload),
                    false => message.extend(self.packer.pack(payload)?),
                }
                io::Result::Ok(())
            })?,
        }
        let length = u32::try_from(message.len() - PREFIX).map_err(io::Error::other)?;
        message[1..PREFIX].copy_from_slice(&length.to_be_bytes());
        Ok(message.into())
    }
}

/// Whether these records are a request: else a collector says of itself that it has failed.
pub fn is_request(records: &[Record]) -> bool {
    let is_one =
        |payload: &[u8]| pack::plain(payload).is_ok_and(|plain| ExportMetricsServiceRequest::decode(&*plain).is_ok());
    records.iter().all(|record| is_one(&record.payload))
}

/// A channel whose requests have this message.
struct Framed {
    channel: Channel,
    message: Bytes,
    compression: Compression,
}

impl Service<http::Request<Body>> for Framed {
    type Response = http::Response<Body>;
    type Error = tonic::transport::Error;
    type Future = <Channel as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (mut head, _) = request.into_parts();
        if self.compression != Compression::None {
            head.headers.insert("grpc-encoding", HeaderValue::from_static(self.compression.as_str()));
        }
        let body = Body::new(Full::new(self.message.clone()));
        self.channel.call(http::Request::from_parts(head, body))
    }
}

/// Encodes nothing, and decodes the answer.
#[derive(Debug, Clone, Copy)]
struct Nothing;

impl Codec for Nothing {
    type Encode = ();
    type Decode = ExportMetricsServiceResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Nothing {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), _: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}

impl Decoder for Nothing {
    type Item = ExportMetricsServiceResponse;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<ExportMetricsServiceResponse>, Status> {
        ExportMetricsServiceResponse::decode(from)
            .map(Some)
            .map_err(|error| Status::internal(format!("the answer is no OTLP: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::outbox::Kind;

    #[tokio::test]
    async fn a_message_is_what_the_records_are_one_after_the_other() {
        let channel = tonic::transport::Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
        let mut wire = Wire::new(channel);
        let record = |payload: &[u8]| Record { kind: Kind::Samples, payload: payload.to_vec() };
        let long = vec![7; 100_000];
        let packed = record(&Packer::default().pack(&long).unwrap());
        for records in [vec![packed, record(b"two")], vec![record(b"one")], vec![record(&long)]] {
            let whole: Vec<u8> =
                records.iter().flat_map(|record| pack::plain(&record.payload).unwrap().into_owned()).collect();
            for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
                let message = wire.message(compression, &records).unwrap();
                let (prefix, sent) = message.split_at(PREFIX);
                assert_eq!(prefix[0], u8::from(compression != Compression::None));
                assert_eq!(u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize, sent.len());
                let mut read = Vec::new();
                match compression {
                    Compression::None => read.extend_from_slice(sent),
                    Compression::Gzip => _ = flate2::read::GzDecoder::new(sent).read_to_end(&mut read).unwrap(),
                    Compression::Zstd => read = zstd::decode_all(sent).unwrap(),
                }
                assert!(read == whole, "{compression:?}");
            }
        }
    }
}
