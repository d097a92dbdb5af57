//! XIDs, counted: by GPU and code, since the agent has watched, over every reopening of the driver.

use smallvec::smallvec;
use std::borrow::Cow;
use std::collections::BTreeMap;

use contador_schemas::names::{self, Fixed};

use super::events::Xid;
use crate::sensors::measure::Varying;
use crate::sensors::{Measures, Number, Reading};

const ERRORS: Fixed = &[(names::ERROR_TYPE, "xid")];

/// The XIDs of every GPU.
#[derive(Debug, Default)]
pub struct XidBook(BTreeMap<String, Page>);

#[derive(Debug)]
struct Page {
    /// Whether the GPU is watched, and if not, why.
    watched: Reading<()>,
    last: u64,
    total: u64,
    by_code: BTreeMap<u64, u64>,
}

impl XidBook {
    /// Says whether a GPU is watched from now on.
    pub fn watch(&mut self, uuid: &str, watched: Reading<()>) {
        self.page(uuid).watched = watched;
    }

    /// Counts one.
    pub fn note(&mut self, xid: &Xid) {
        let page = self.page(&xid.uuid);
        page.last = xid.code;
        page.total += 1;
        *page.by_code.entry(xid.code).or_default() += 1;
    }

    fn page(&mut self, uuid: &str) -> &mut Page {
        let blank = || Page { watched: Reading::Value(()), last: 0, total: 0, by_code: BTreeMap::new() };
        self.0.entry(uuid.to_owned()).or_insert_with(blank)
    }

    /// Adds what is known of a GPU; nothing of what is none, such as an instance. What was counted stays while a GPU is not
    /// watched.
    pub fn read(&self, uuid: &str, measures: &mut Measures) {
        let Some(page) = self.0.get(uuid) else { return };
        let counted = |value| match &page.watched {
            Reading::Value(()) => Reading::Value(Number::Whole(value)),
            _ if page.total > 0 => Reading::Value(Number::Whole(value)),
            missing => missing.clone().map(|()| Number::Whole(0)),
        };
        measures.add_as(names::ERRORS, ERRORS, counted(page.total));
        measures.add(names::GPU_XID_LAST, counted(page.last));
        if page.by_code.is_empty() && page.watched.value().is_none() {
            measures.add(names::GPU_XIDS, counted(0));
        }
        for (code, count) in &page.by_code {
            let varying: Varying = smallvec![(names::XID, Cow::Owned(code.to_string()))];
            measures.add_with(names::GPU_XIDS, &[], varying, counted(*count));
        }
    }
}

/// What the driver's documentation says of a code, in a few words.
pub fn meaning(code: u64) -> Option<&'static str> {
    Some(match code {
        8 => "the GPU stopped processing",
        13 => "graphics engine exception, mostly of the application",
        31 => "memory page fault, mostly of the application",
        32 => "invalid or corrupted push buffer stream",
        38 => "driver firmware error",
        43 => "the GPU stopped processing a channel, mostly of the application",
        45 => "channels were removed, after an earlier error or when a process was killed",
        46 => "the GPU stopped processing",
        48 => "double-bit ECC error",
        61 => "internal micro-controller breakpoint",
        62 => "internal micro-controller halt",
        63 => "a memory page was retired or a row remapped",
        64 => "retiring a memory page or remapping a row has failed",
        68 => "video processor exception",
        69 => "graphics engine class error",
        74 => "NVLink error",
        79 => "the GPU has fallen off the bus",
        92 => "many single-bit ECC errors",
        94 => "contained ECC error",
        95 => "uncontained ECC error",
        109 => "context switch timeout",
        110 => "security fault",
        119 => "the GPU system processor does not answer a call",
        120 => "the GPU system processor has failed",
        121 => "chip-to-chip link error",
        136 => "link training has failed",
        137 => "NVLink privilege error",
        140 => "unrecovered ECC error",
        143 => "GPU initialisation has failed",
        144..=150 => "NVLink error",
        154 => "the GPU needs a recovery action",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xid(code: u64) -> Xid {
        Xid { uuid: "GPU-1".into(), code, gpu_instance: None, compute_instance: None }
    }

    fn read(book: &XidBook, uuid: &str) -> Measures {
        let mut measures = Measures::default();
        book.read(uuid, &mut measures);
        measures
    }

    #[test]
    fn xids_are_counted_by_code_and_none_is_zero() {
        let mut book = XidBook::default();
        book.watch("GPU-1", Reading::Value(()));
        let none = read(&book, "GPU-1");
        assert_eq!(none.reading_as(names::ERRORS, ERRORS), Some(&Reading::Value(Number::Whole(0))));
        assert_eq!((none.count(names::GPU_XID_LAST), none.iter().count()), (Some(0), 2));
        for code in [79, 13, 79, 94] {
            book.note(&xid(code));
        }
        // The driver is opened again, and this time it refuses.
        book.watch("GPU-1", Reading::Failed("lost".into()));
        let some = read(&book, "GPU-1");
        assert_eq!(some.reading_as(names::ERRORS, ERRORS), Some(&Reading::Value(Number::Whole(4))));
        assert_eq!(some.count(names::GPU_XID_LAST), Some(94));
        let of = |code| some.reading_as(names::GPU_XIDS, &[(names::XID, code)]).cloned();
        assert_eq!([of("79"), of("13"), of("94")], [2, 1, 1].map(|count| Some(Reading::Value(Number::Whole(count)))));
        assert!(read(&book, "MIG-1").is_empty());
    }

    #[test]
    fn what_can_not_be_watched_is_unsupported_and_not_zero() {
        let mut book = XidBook::default();
        book.watch("GPU-1", Reading::Unsupported("no".into()));
        let measures = read(&book, "GPU-1");
        assert_eq!(measures.iter().count(), 3);
        assert!(measures.iter().all(|measure| matches!(measure.reading, Reading::Unsupported(_))));
    }
}
