//! Whom the agent scrapes, when, whose they are, and how it is kept.
//!
//! A [`target`] is a server and what is known of it: by the configuration, by [`files`] that others write, or by a pod's
//! annotations, as the loop has [`told`] them. [`find`] says who is one now; [`scraping`] has each of them followed, and [`since`] says from
//! when on one counts that was never asked, or was another target meanwhile. To [`follow`] one is to [`fetch`] its page when it is [`due`], to have [`crate::scrape`] say what came since the last one, to
//! find [`whose`] the server is (for one on this node, who has the socket: [`listen`]), and to make [`rows`] of that, which
//! are [`kept`] with the server's totals before the spool has them.

pub mod due;
pub mod fetch;
pub mod files;
pub mod find;
#[cfg(test)]
mod fixture;
pub mod follow;
pub mod kept;
pub mod listen;
pub mod rows;
pub mod scraping;
pub mod since;
pub mod target;
pub mod told;
pub mod whose;
