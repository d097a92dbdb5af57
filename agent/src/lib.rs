//! wip
pub mod probe;
pub mod sensors;
