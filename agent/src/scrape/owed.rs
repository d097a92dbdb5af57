//! What aborted requests are still to be taken out of, which the page that told of them could not.

use serde::{Deserialize, Serialize};

/// Labels that only say which part of a server it was.
type Source = Vec<(String, String)>;

/// Numbers of requests, by what they are to be taken out of.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Owed(Vec<Debt>);

/// What they are to be taken out of.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Debtor {
    /// The preset by its name; empty for counts of what was served.
    pub preset: String,
    /// What is timed, or counted.
    pub metric: String,
    pub model: String,
    pub source: Source,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Debt {
    of: Debtor,
    n: u64,
}

impl Owed {
    /// Adds `n` to what this one owes.
    pub fn add(&mut self, of: Debtor, n: u64) {
        match self.0.iter_mut().find(|debt| debt.of == of) {
            Some(debt) => debt.n = debt.n.saturating_add(n),
            None if n > 0 => self.0.push(Debt { of, n }),
            None => {}
        }
    }

    /// What this one owes, which it does no more.
    pub fn take(&mut self, of: &Debtor) -> u64 {
        let place = self.0.iter().position(|debt| debt.of == *of);
        place.map_or(0, |place| self.0.swap_remove(place).n)
    }

    /// All that is owed for one of these metrics, which is owed no more.
    pub fn drain(&mut self, is_asked: impl Fn(&Debtor) -> bool) -> Vec<(Debtor, u64)> {
        let (asked, kept) = std::mem::take(&mut self.0).into_iter().partition(|debt| is_asked(&debt.of));
        self.0 = kept;
        let asked: Vec<Debt> = asked;
        asked.into_iter().map(|Debt { of, n }| (of, n)).collect()
    }
}
