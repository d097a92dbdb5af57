//! Where a bill stands, for people and for machines: its invoice, what departments say of it, and what was added by hand or corrects
//! other months.

use serde_json::{Value, json};

use super::{Lang, Report};
use crate::bill::close::Status;
use crate::bill::period::utc;
use crate::bill::rate::Category;
use crate::bill::settle::Line;

/// Most lines that are told one by one in notes.
const TOLD: usize = 20;

impl Report {
    /// The status of what is shown.
    pub fn status(&self) -> Status {
        self.statement.standing.status(self.department.as_deref())
    }

    /// The status with the invoice, for people.
    pub(super) fn status_line(&self) -> String {
        let status = self.status().as_str();
        match &self.statement.standing.invoice {
            None => status.to_owned(),
            Some(invoice) => {
                let (number, hash) = (invoice.number, invoice.hash.get(..12).unwrap_or_default());
                format!("{status}, invoice {number}, {hash}, closed {}", utc(invoice.closed_at))
            }
        }
    }

    /// The status, with number and hash of the invoice once the month is closed.
    pub(super) fn status_json(&self) -> Value {
        let state = self.status().as_str();
        match &self.statement.standing.invoice {
            None => json!({ "state": state }),
            Some(invoice) => json!({ "state": state, "number": invoice.number, "hash": invoice.hash }),
        }
    }

    /// The invoice; null as long as the month is open.
    pub(super) fn invoice_json(&self) -> Value {
        self.statement.standing.invoice.as_ref().map_or(Value::Null, |invoice| {
            json!({
                "number": invoice.number,
                "hash": invoice.hash,
                "previous": invoice.previous,
                "closed_at": utc(invoice.closed_at),
                "closed_by": invoice.closed_by,
                "note": invoice.note,
                "version": invoice.version,
            })
        })
    }

    /// What departments say.
    pub(super) fn claims_json(&self) -> Vec<Value> {
        let shown = self.statement.standing.claims.keys().filter(|name| self.is_of(name));
        let claim = |name: &String| {
            let claim = &self.statement.standing.claims[name];
            let status = self.statement.standing.status(Some(name)).as_str();
            json!({ "department": name, "status": status, "reason": claim.reason, "at": utc(claim.at), "by": claim.who })
        };
        shown.map(claim).collect()
    }

    fn is_of(&self, department: &str) -> bool {
        self.department.as_deref().is_none_or(|only| only == department)
    }

    /// The lines shown that were added by hand, or that correct other months.
    fn added(&self, wanted: impl Fn(Category) -> bool) -> impl Iterator<Item = &Line> {
        self.statement.lines.iter().filter(move |line| wanted(line.key.category) && self.shows(&line.key))
    }

    /// Those lines.
    pub(super) fn adjustments_json(&self) -> Vec<Value> {
        let by_hand = self.added(|category| matches!(category, Category::Credit | Category::Adjustment));
        let line = |line: &Line| {
            json!({
                "category": line.key.category.as_str(),
                "department": &*line.key.payer.department,
                "project": line.key.owner.project,
                "reason": &*line.key.item,
                "origin_month": line.key.origin_month.as_deref(),
                "cost": line.amounts.cost,
            })
        };
        by_hand.map(line).collect()
    }

    /// Those lines.
    pub(super) fn corrections_json(&self) -> Vec<Value> {
        let line = |line: &Line| {
            json!({
                "origin_month": line.key.origin_month.as_deref(),
                "corrects": &*line.key.item,
                "kind": line.key.payer.kind.as_str(),
                "department": &*line.key.payer.department,
                "project": line.key.owner.project,
                "gpu_model": super::Dimension::GpuModel.of(&line.key),
                "day": line.key.day.map(|day| crate::bill::directory::date(day).to_string()),
                "gpu_hours": line.amounts.gpu_hours,
                "cost": line.amounts.cost,
            })
        };
        self.added(|category| category == Category::Correction).map(line).collect()
    }

    /// What to know about all that.
    pub(super) fn standing_notes(&self, lang: Lang) -> Vec<String> {
        let standing = &self.statement.standing;
        let mut notes = Vec::new();
        for (department, claim) in standing.claims.iter().filter(|(name, _)| self.is_of(name)) {
            let (status, at) = (told(lang, standing.status(Some(department)).as_str()), utc(claim.at));
            let by = told(lang, "by");
            let reason = if claim.reason.is_empty() { String::new() } else { format!(": {}", claim.reason) };
            notes.push(format!("{status} {by} {} ({at}, {}){reason}", super::named(department), claim.who));
        }
        notes.extend(standing.missing.iter().map(|what| format!("{}: {what}", told(lang, "not in this bill"))));
        let added = |category| matches!(category, Category::Credit | Category::Adjustment | Category::Correction);
        let lines: Vec<String> = self.added(added).map(|line| note(lang, line)).collect();
        let more = lines.len().saturating_sub(TOLD);
        notes.extend(lines.into_iter().take(TOLD));
        if more > 0 {
            notes.push(format!("{} {more} {}", told(lang, "and"), told(lang, "more such lines")));
        }
        notes
    }
}

/// A word of a note in a language.
fn told(lang: Lang, english: &'static str) -> &'static str {
    match (lang, english) {
        (Lang::En, _) => english,
        (Lang::Es, "closed") => "cerrado",
        (Lang::Es, "accepted") => "aceptado",
        (Lang::Es, "disputed") => "en disputa",
        (Lang::Es, "by") => "por",
        (Lang::Es, "not in this bill") => "no está en estos cargos",
        (Lang::Es, "and") => "y",
        (Lang::Es, "more such lines") => "líneas más como estas",
        (Lang::Es, "credit") => "abono",
        (Lang::Es, "adjustment") => "ajuste",
        (Lang::Es, "correction") => "corrección",
        (Lang::Es, "of") => "de",
        (Lang::Es, "for") => "para",
        (Lang::Es, "project") => "proyecto",
        (Lang::Es, _) => english,
    }
}

fn note(lang: Lang, line: &Line) -> String {
    let (key, told) = (&line.key, |english| told(lang, english));
    let payer = match key.payer.kind {
        contador_schemas::owner::OwnerKind::Workload => super::named(&key.payer.department),
        kind => format!("({})", kind.as_str()),
    };
    let project = match key.owner.project.as_str() {
        "" => String::new(),
        project => format!(", {} {project}", told("project")),
    };
    let origin = key.origin_month.as_ref().map(|month| format!(" {} {month}", told("of"))).unwrap_or_default();
    let (category, cost) = (told(key.category.as_str()), &line.amounts.cost);
    format!("{category}{origin}: {cost} {} {payer}{project}, {}", told("for"), key.item)
}
