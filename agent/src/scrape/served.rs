//! Requests and tokens, added up by model and source.

use std::collections::BTreeMap;

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
            What::Requests => &mut served.requests,
            What::RequestsAndAborted => {
                entry.together = true;
                &mut served.requests
            }
            What::Aborted | What::AbortedInside => &mut served.aborted,
            What::InputTokens => &mut served.input_tokens,
            What::OutputTokens => &mut served.output_tokens,
            What::Running | What::Waiting => return,
        };
        *place = Some(place.unwrap_or_default().saturating_add(n));
        served.start_ns = served.start_ns.min(start_ns);
    }

    /// What was served up to `end_ns`; nothing where nothing was.
    pub fn close(self, end_ns: u64) -> Vec<Served> {
        let rows = self.served.into_iter().map(|((model, source), Entry { mut served, together })| {
            if together {
                served.requests = served.requests.map(|n| n.saturating_sub(served.aborted.unwrap_or_default()));
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
