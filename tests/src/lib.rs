//! What the end-to-end tests share: the real components, started for one test and stopped with it.

mod engine;

pub use engine::{Engine, binary};
