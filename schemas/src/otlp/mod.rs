//! OTLP metrics as bytes, before a message is made of them.
//!
//! [`tags`] goes through a request's protobuf and has whoever receives it say what each part will take in memory. [`json`] makes
//! protobuf of JSON.

pub mod json;
pub mod tags;
