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
        let fresh = || Entry { served: Served { start_ns: u64::MAX, ..Served::default() }, together: false };
        let entry = self.served.entry(who).or_insert_with(fresh);
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

    /// What was served up to `end_ns`; nothing where nothing was. A server that counts aborted requests among the others may
    /// tell of them before: what is to be taken off then is `owed`.
    pub fn close(self, end_ns: u64, owed: &mut Owed) -> Vec<Served> {
        let rows = self.served.into_iter().map(|((model, source), Entry { mut served, together })| {
            if let Some(all) = served.requests.filter(|_| together) {
                let of = debtor(&model, &source);
                let aborted = owed.take(&of).saturating_add(served.aborted.unwrap_or_default());
                served.requests = Some(all.saturating_sub(aborted));
                owed.add(of, aborted.saturating_sub(all));
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
