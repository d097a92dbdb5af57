//! OTLP metrics as bytes, before a message is made of them.
//!
//! [`tags`] goes through a request's protobuf and has whoever receives it say what each part will take in memory.

pub mod tags;
