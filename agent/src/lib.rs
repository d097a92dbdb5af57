//! wip
pub mod sensors;
