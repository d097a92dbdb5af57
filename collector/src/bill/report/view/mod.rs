//! What readers want to know of a statement, for pages and for JSON: pure, from lines that are rounded already.
//!
//! A [`scope`] is the fleet or one payer, with its sums by category, its [`efficiency`], its last month, budget and forecast. A
//! [`tree`] has its charges by project, experiment and job, a [`series`] its days. [`shown`] makes the digits that a page has room
//! for add up.

pub mod efficiency;
pub mod scope;
pub mod series;
pub mod shown;
pub mod tree;

pub use efficiency::Efficiency;
pub use scope::{Outlook, Scope, Scopes, of_payer};

use super::Statement;

/// What a report shows beside its statement.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// The bill of the month before.
    pub last: Option<Statement>,
    /// Now, Unix milliseconds. What ends later is forecast; without, nothing is.
    pub now: Option<i64>,
    /// What services have served, where that is known.
    pub served: Vec<Served>,
}

/// What a service of a department has served in the period.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Served {
    /// Who pays for it.
    pub department: String,
    /// The service.
    pub service: String,
    /// Requests.
    pub requests: u64,
    /// Tokens that were written; 0 where they are not counted, and nothing is told then.
    pub tokens: u64,
}
