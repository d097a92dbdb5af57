//! Requests and tokens, added up by model and source.

use std::collections::BTreeMap;

use super::owed::{Debtor, Owed};
use super::presets::What;
use super::taken::Served;

/// Who served: the model, and the part of the server.
type Who = (String, Vec<(String, String)>);

/// What was served between two scrapes.
#[derive(Debug, Default)]
pub(super) struct Book {
    served: BTreeMap<Who, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    served: Served,
    /// The server counts aborted requests among the others.
    together: bool,
}

impl Book {
    /// Adds an increase of a counter, since `start_ns`.
    pub fn add(&mut self, who: Who, what: What, n: u64, start_ns: u64) {
        let entry = self.entry(who);
        let served = &mut entry.served;
        let place = match what {
            What::Requests | What::Hops => &mut served.requests,
            What::RequestsAndAborted => {
                entry.together = true;
                &mut served.requests
            }
            What::Aborted | What::AbortedInside => &mut served.aborted,
            What::InputTokens => &mut served.input_tokens,
            What::OutputTokens => &mut served.output_tokens,
            What::Running | What::Waiting | What::Nothing => return,
        };
        *place = Some(place.unwrap_or_default().saturating_add(n));
        served.start_ns = served.start_ns.min(start_ns);
    }

    /// Takes note that a server counts aborted requests among the others, whether it shows these yet or not.
    pub fn together(&mut self, who: Who) {
        self.entry(who).together = true;
    }

    fn entry(&mut self, who: Who) -> &mut Entry {
        let fresh = || Entry { served: Served { start_ns: u64::MAX, ..Served::default() }, together: false };
        self.served.entry(who).or_insert_with(fresh)
    }

    /// What was served up to `end_ns`; nothing where nothing was. A server that counts aborted requests among the others may
    /// tell of them before: what is to be taken off then is `owed`, by the next page alone. Those that only waited never are among
    /// the others.
    pub fn close(self, end_ns: u64, owed: &mut Owed) -> Vec<Served> {
        let rows = self.served.into_iter().map(|((model, source), Entry { mut served, together })| {
            if together {
                let (of, aborted) = (debtor(&model, &source), served.aborted.unwrap_or_default());
                // A page on which requests could not be read is none that could pay.
                let before = if served.requests.is_some() { owed.take(&of) } else { 0 };
                let left = served.requests.unwrap_or_default().saturating_sub(before);
                served.requests = served.requests.map(|_| left.saturating_sub(aborted));
                owed.add(of, aborted.saturating_sub(left));
            }
            let start_ns = served.start_ns.min(end_ns);
            Served { model, source, start_ns, end_ns, ..served }
        });
        rows.filter(|row| {
            [row.requests, row.aborted, row.input_tokens, row.output_tokens].into_iter().flatten().any(|n| n > 0)
        })
        .collect()
    }
}

/// The requests of this model and part of a server, of which aborted ones are to be taken off.
pub(super) fn debtor(model: &str, source: &[(String, String)]) -> Debtor {
    let (model, source) = (model.to_owned(), source.to_vec());
    Debtor { preset: String::new(), metric: "requests".to_owned(), model, source }
}
