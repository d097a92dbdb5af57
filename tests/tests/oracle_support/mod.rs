//! Small random fleets, and what a bill of each must come to, worked out a second time and plainly.
//!
//! A [`fleet`] is who held what in each second. [`terms`] are a book and agreements to price it with. [`cutter`] makes the facts that
//! the rating engine is given; [`watch`] walks the same fleet second by second instead, [`oracle`] prices what it has seen by the text of
//! `docs/decisions/0012-how-a-month-is-rated.md`, and [`rounded`] rounds. The oracle knows the plain data types alone.

pub mod bytes;
pub mod choose;
pub mod cutter;
pub mod dice;
pub mod fleet;
pub mod fraction;
pub mod nobody;
pub mod oracle;
pub mod rounded;
pub mod row;
pub mod terms;
pub mod watch;
