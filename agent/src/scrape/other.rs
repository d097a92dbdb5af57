//! Counts that fall at a server that does not say when it began: it began again, and what it says now is what came.
//!
//! When counts fall again soon after, several servers may answer at one address, and each would count its whole life again
//! whenever it answers. So nothing that says no start is told then until none has fallen for a while.

use serde::{Deserialize, Serialize};

/// A second fall within this time, in nanoseconds, is of another server.
const AGAIN_NS: u64 = 300_000_000_000;

/// What is remembered of counts that fell.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Falls {
    /// When they fell last, Unix nanoseconds.
    last_ns: Option<u64>,
    /// They have fallen again and again.
    are_several: bool,
}

/// Whose a page is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Turn {
    /// The server's that the page before was of. What fell began again.
    #[default]
    Same,
    /// Another one's, as far as can be told.
    Other,
}

impl Falls {
    /// Whose the page of `at_ns` (Unix nanoseconds) is, on which counts have fallen or not.
    pub fn turn(&mut self, is_fall: bool, at_ns: u64) -> Turn {
        let is_soon = self.last_ns.is_some_and(|last| at_ns.saturating_sub(last) <= AGAIN_NS);
        self.are_several = is_soon && (self.are_several || is_fall);
        if is_fall {
            self.last_ns = Some(at_ns);
        }
        if self.are_several { Turn::Other } else { Turn::Same }
    }

    /// Whether a total of this instant can be compared with the next page: one that was not shown since counts fell is of the run
    /// before, and says nothing new when it falls.
    pub fn is_current(&self, total_ns: u64) -> bool {
        self.last_ns.is_none_or(|last| total_ns >= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_fall_within_five_minutes_is_of_another_server_until_none_falls_for_as_long() {
        let second = 1_000_000_000;
        let mut falls = Falls::default();
        let turns = [
            (false, 0, Turn::Same),
            (true, 10, Turn::Same),
            (false, 20, Turn::Same),
            (true, 310, Turn::Other),
            (false, 320, Turn::Other),
            (true, 600, Turn::Other),
            (false, 900, Turn::Other),
            (false, 901, Turn::Same),
            (true, 910, Turn::Same),
            (true, 1_211, Turn::Same),
        ];
        for (is_fall, at, turn) in turns {
            assert_eq!(falls.turn(is_fall, at * second), turn, "{at}");
        }
    }
}
