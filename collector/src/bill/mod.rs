//! Ledger rows and imported allocations to money.
//!
//! [`import`] stores allocations that contador did not meter itself. For a bill, [`facts`] asks the store who held how much
//! of which device in a [`period`], in whole numbers, and cut wherever something changes that a price depends on; the [`directory`] has
//! the department of a project, and [`hours`] of the ledger are summed beforehand. [`rate`] makes exact charges of them, by what [`prices`] and [`commitments`] say; [`settle`]
//! rounds the whole once and makes the lines sum to it ([`mod@apportion`]); a [`statement`] is all of that for a period, and [`report`]
//! shows views of it as a page, JSON, CSV or a table; [`focus`] writes its charges in the format of FOCUS, as CSV and as [`parquet`].
//! [`close`] freezes a month; [`adjust`] is what was added by hand, and [`audit`] who did what. Text becomes exact numbers, and they
//! text again, in [`decimal`] alone. [`sample`] makes up a fleet for the demo. Price books and commitments are [`document`]s. A
//! [`plan`] says what other ways of having GPUs would have cost.

pub mod adjust;
pub mod apportion;
pub mod audit;
pub mod close;
pub mod commitments;
mod currency;
pub mod decimal;
pub mod directory;
pub mod document;
pub mod facts;
pub mod focus;
pub mod forecast;
pub mod hours;
pub mod import;
pub mod parquet;
pub mod period;
pub mod plan;
pub mod prices;
pub mod rate;
pub mod report;
pub mod sample;
pub mod settle;
pub mod statement;
pub mod units;
pub mod view;

use thiserror::Error;

/// The store did not do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// It has not been set up.
    #[error("cannot {doing}: the store has no such table; run contador migrate")]
    NotMigrated {
        /// What was to be done.
        doing: &'static str,
    },
    /// What it keeps is not what was stored there, or is of another version of this program.
    #[error("the {what} {id} in the store cannot be used: {why}")]
    Altered {
        /// What it is.
        what: &'static str,
        /// Its id.
        id: String,
        /// What is wrong with it.
        why: String,
    },
    /// Anything else.
    #[error("cannot {doing}")]
    Failed {
        /// What was to be done.
        doing: &'static str,
        /// Why not.
        #[source]
        source: clickhouse::error::Error,
    },
}

impl StoreError {
    /// Wraps an error of the client with what was being done.
    pub(crate) fn doing(doing: &'static str) -> impl Fn(clickhouse::error::Error) -> Self {
        move |source| {
            let text = source.to_string();
            if text.contains("UNKNOWN_TABLE") || text.contains("UNKNOWN_DATABASE") {
                Self::NotMigrated { doing }
            } else {
                Self::Failed { doing, source }
            }
        }
    }
}
