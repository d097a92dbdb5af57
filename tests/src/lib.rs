//! What the end-to-end tests share: the real components, started for one test and stopped with it.

mod agent;
mod collector;
pub mod curl;
mod engine;
pub mod hung_mount;
mod process;
pub mod replay;

pub use agent::Agent;
pub use collector::Collector;
pub use engine::{Engine, binary};
