//! What tells an invoice: its canonical text, the hash of that, and the chain of all of them.

use contador_schemas::rows::Invoice;
use sha2::{Digest, Sha256};

use crate::bill::adjust::shown;
use crate::bill::prices::hex;

/// Everything that an invoice says but its hash, a line each, so that it can be checked with `sha256sum`.
pub fn canonical(invoice: &Invoice) -> String {
    let corrected: String =
        invoice.corrected.iter().map(|(month, facts)| format!("corrects: {month} {facts}\n")).collect();
    let Invoice { number, month, time_zone, start_ms, end_ms, currency, version, .. } = invoice;
    let Invoice { book, agreements, directory, adjustments, facts, lines, previous, .. } = invoice;
    let total = shown(invoice.total);
    // What people wrote is in quotes, so that a text of two lines is not another field.
    let [counts, closed_by, note] =
        [&invoice.counts, &invoice.closed_by, &invoice.note].map(|text| format!("{text:?}"));
    let (seen_at, closed_at) = (invoice.seen_at, invoice.closed_at);
    format!(
        "contador invoice 1\nnumber: {number}\nmonth: {month}\ntime zone: {time_zone}\nfrom: {start_ms}\nto: {end_ms}\n\
         currency: {currency}\ntotal: {total}\nversion: {version}\nbook: {book}\nagreements: {agreements}\n\
         directory: {directory}\nadjustments: {adjustments}\nfacts: {facts}\nlines: {lines}\n{corrected}seen at: {seen_at}\n\
         counts: {counts}\n\
         previous: {previous}\nclosed at: {closed_at}\nclosed by: {closed_by}\nnote: {note}\n"
    )
}

/// The hash of an invoice.
pub fn hash(invoice: &Invoice) -> String {
    hex(&Sha256::digest(canonical(invoice)))
}

/// What is wrong with the chain: nothing, if nobody has touched it. That its last invoices are there cannot be told from it alone.
pub fn faults(invoices: &[Invoice]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut before: Option<&Invoice> = None;
    for invoice in invoices {
        let named = named(invoice);
        let number = before.map_or(1, |before| before.number.saturating_add(1));
        if invoice.number != number {
            faults.push(format!("{named}: expected number {number} after the invoice before"));
        }
        let previous = before.map_or("", |before| &before.hash);
        if invoice.previous != previous {
            faults.push(format!("{named}: previous is {:?}, expected {previous:?}", invoice.previous));
        }
        if let Some(before) = before.filter(|before| before.end_ms != invoice.start_ms) {
            faults.push(format!(
                "{named}: starts at {}, expected {} after {}",
                invoice.start_ms, before.end_ms, before.month
            ));
        }
        let expected = hash(invoice);
        if invoice.hash != expected {
            faults.push(format!("{named}: hash is {}, expected {expected} by what it says", invoice.hash));
        }
        before = Some(invoice);
    }
    faults
}

/// An invoice, for people.
pub fn named(invoice: &Invoice) -> String {
    format!("invoice {} of {}", invoice.number, invoice.month)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Vec<Invoice> {
        let mut chain: Vec<Invoice> = Vec::new();
        for number in 1..=3_u32 {
            let previous = chain.last().map(|invoice| invoice.hash.clone()).unwrap_or_default();
            let start_ms = i64::from(number);
            let month = format!("2026-{:02}", 8 + number);
            let mut invoice = Invoice { number, month, start_ms, end_ms: start_ms + 1, previous, ..Invoice::default() };
            invoice.hash = hash(&invoice);
            chain.push(invoice);
        }
        chain
    }

    #[test]
    fn every_field_is_part_of_the_hash() {
        assert_eq!(faults(&chain()), [""; 0]);
        let text = || "x".to_owned();
        let changes: [fn(&mut Invoice, String); 21] = [
            |invoice, _| invoice.number = 9,
            |invoice, text| invoice.month = text,
            |invoice, text| invoice.time_zone = text,
            |invoice, _| invoice.start_ms = 9,
            |invoice, _| invoice.end_ms = 9,
            |invoice, text| invoice.currency = text,
            |invoice, _| invoice.total = 9,
            |invoice, text| invoice.version = text,
            |invoice, text| invoice.book = text,
            |invoice, text| invoice.agreements = text,
            |invoice, text| invoice.directory = text,
            |invoice, text| invoice.adjustments = text,
            |invoice, text| invoice.facts = text,
            |invoice, text| invoice.lines = text,
            |invoice, text| invoice.corrected.push((text.clone(), text)),
            |invoice, _| invoice.seen_at = 9,
            |invoice, text| invoice.counts = text,
            |invoice, text| invoice.previous = text,
            |invoice, _| invoice.closed_at = 9,
            |invoice, text| invoice.closed_by = text,
            |invoice, text| invoice.note = text,
        ];
        for change in changes {
            let mut changed = chain();
            change(&mut changed[1], text());
            assert_ne!(hash(&changed[1]), changed[1].hash, "{:?}", changed[1]);
            // Whoever changes the hash, too, breaks the chain at the next one.
            changed[1].hash = hash(&changed[1]);
            assert!(!faults(&changed).is_empty(), "{:?}", changed[1]);
        }
        let mut out = chain();
        out.remove(1);
        assert_eq!(faults(&out)[0], "invoice 3 of 2026-11: expected number 2 after the invoice before");
    }
}
