//! The key of a series: a hash of the resource, the scope, the metric and the attributes of its points.
//!
//! A resource may be long and have many points, so what they share is hashed once, and the hash goes on from there for each.

use contador_schemas::series::SERIES_NAMESPACE;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use sha1_smol::Sha1;
use uuid::Uuid;

/// What many series share, hashed so far.
#[derive(Clone)]
pub struct Name(Sha1);

impl Name {
    /// Of all series of a resource with these attributes.
    pub fn of_resource(attributes: &[KeyValue]) -> Self {
        let mut hash = Sha1::from(SERIES_NAMESPACE.as_bytes());
        hash.update(&encoded(attributes));
        Self(hash)
    }

    /// Of those of them whose next part is this: the scope's name, the metric's, its unit.
    pub fn with(&self, part: &str) -> Self {
        let mut hash = self.0.clone();
        hash.update(&length(part.as_bytes()));
        hash.update(part.as_bytes());
        Self(hash)
    }

    /// The key of the series whose points have these [`encoded`] attributes: the version 5 UUID of all parts.
    pub fn key(&self, attributes: &[u8]) -> Uuid {
        let mut hash = self.0.clone();
        hash.update(attributes);
        let [first @ .., _, _, _, _] = hash.digest().bytes();
        uuid::Builder::from_sha1_bytes(first).into_uuid()
    }
}

/// Attributes in the order of their names, so that their order does not matter.
pub fn encoded(attributes: &[KeyValue]) -> Vec<u8> {
    let mut encoded: Vec<Vec<u8>> = attributes.iter().map(prost::Message::encode_to_vec).collect();
    encoded.sort_unstable();
    let mut bytes = (encoded.len() as u64).to_le_bytes().to_vec();
    for attribute in encoded {
        bytes.extend(length(&attribute));
        bytes.extend(attribute);
    }
    bytes
}

fn length(bytes: &[u8]) -> [u8; 8] {
    (bytes.len() as u64).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::outbox::encode::points::text;

    #[test]
    fn a_key_is_the_version_5_uuid_of_its_parts() {
        // As journals have them.
        let mut bytes = Vec::new();
        let put = |bytes: &mut Vec<u8>, part: &[u8]| {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part);
        };
        bytes.extend(2_u64.to_le_bytes());
        for attribute in [text("a", "1"), text("b", "2")] {
            put(&mut bytes, &attribute.encode_to_vec());
        }
        ["scope", "metric", "s"].iter().for_each(|part| put(&mut bytes, part.as_bytes()));
        bytes.extend(1_u64.to_le_bytes());
        put(&mut bytes, &text("route", "/").encode_to_vec());
        let name = Name::of_resource(&[text("b", "2"), text("a", "1")]).with("scope").with("metric").with("s");
        assert_eq!(name.key(&encoded(&[text("route", "/")])), Uuid::new_v5(&SERIES_NAMESPACE, &bytes));
    }
}
