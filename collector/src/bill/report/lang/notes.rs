//! What a reader must know before trusting the numbers, in each language.

use super::Lang;
use crate::bill::report::{Report, named};

impl Report {
    /// What a reader must know before trusting the numbers.
    pub fn notes(&self) -> Vec<String> {
        self.notes_in(Lang::En)
    }

    /// The same in a language.
    pub fn notes_in(&self, lang: Lang) -> Vec<String> {
        let made = &self.statement.made;
        let say = |english: String, spanish: String| if lang == Lang::Es { spanish } else { english };
        let mut notes = Vec::new();
        if made.simulated {
            notes.push(say(
                "contains simulated data: part of it was generated, not measured".into(),
                "contiene datos simulados: una parte se generó, no se midió".into(),
            ));
        }
        if self.statement.lines.is_empty() {
            notes.push(say(
                "nothing was metered or imported in this period".into(),
                "en este periodo no se midió ni se importó nada".into(),
            ));
        }
        for (what, hours) in &self.statement.unpriced {
            let what = named(what);
            notes.push(say(
                format!("unpriced: {hours} GPU-hours of {what} have no price and are not in the total"),
                format!("sin precio: {hours} horas de GPU de {what} no tienen precio y no están en el total"),
            ));
        }
        if made.unknown_owners > 0 {
            let count = made.unknown_owners;
            notes.push(say(
                format!("{count} owners have no entry in the table owners"),
                format!("{count} propietarios no figuran en la tabla owners"),
            ));
        }
        if made.metered_too > 0 {
            let count = made.metered_too;
            notes.push(say(
                format!("{count} imported allocations are of devices that were metered too: both are counted"),
                format!("{count} asignaciones importadas son de dispositivos que también se midieron: cuentan ambas"),
            ));
        }
        if !made.over_allocated.is_zero() {
            let hours = &made.over_allocated;
            notes.push(say(
                format!("over-allocated: imports claim {hours} GPU-hours over the whole of their devices"),
                format!("exceso de asignación: lo importado suma {hours} horas de GPU más de las que tienen sus dispositivos"),
            ));
        }
        if !made.gaps_given.is_zero() {
            let hours = &made.gaps_given;
            notes.push(say(
                format!(
                    "gaps: {hours} unmetered GPU-hours are charged to whom the device belonged to before and after"
                ),
                format!(
                    "huecos: {hours} horas de GPU sin medir se cargan a quien tenía el dispositivo antes y después"
                ),
            ));
        }
        notes.extend(self.standing_notes(lang));
        if let Some(department) = &self.department
            && self.groups.is_empty()
        {
            notes.push(say(
                format!("department {department:?} has nothing in this period"),
                format!("el departamento {department:?} no tiene nada en este periodo"),
            ));
        }
        notes
    }
}
