//! Agreements as the one text that all equal ones have: TOML that reads back to equal ones.

use super::file::SLOTS;
use super::{Agreements, Budget, Commitment, Slot};
use crate::bill::document::write::{self, Writer};

impl Agreements {
    /// The canonical form: commitments by their ids, budgets by department and month.
    pub fn canonical(&self) -> String {
        let mut out = Writer::new("Commitments of contador, canonical form 1.");
        out.text("currency", &self.currency);
        let mut commitments: Vec<&Commitment> = self.commitments.iter().collect();
        commitments.sort_by_key(|commitment| &commitment.id);
        for commitment in commitments {
            commitment.write(&mut out);
        }
        let mut budgets: Vec<&Budget> = self.budgets.iter().collect();
        budgets.sort_by_key(|budget| (&budget.department, &budget.from_month));
        for budget in budgets {
            out.header("[[budget]]");
            out.known("department", &budget.department);
            out.text("from_month", &budget.from_month);
            out.decimal("monthly", budget.monthly);
        }
        out.finish()
    }

    /// Hash of the canonical form: 64 hexadecimal digits.
    pub fn id(&self) -> String {
        write::id(&self.canonical())
    }
}

impl Commitment {
    fn write(&self, out: &mut Writer) {
        out.header("[[commitment]]");
        out.text("id", &self.id);
        out.text("department", &self.department);
        out.text("gpu_model", &self.gpu_model);
        out.known("mig_profile", self.mig_profile.as_deref().unwrap_or_default());
        out.plain("gpus", self.gpus);
        out.decimal("hourly", self.hourly);
        out.instant("from", self.from);
        if let Some(to) = self.to {
            out.instant("to", to);
        }
        if self.slot != Slot::Hour {
            out.text("slot", self.slot.as_str());
        }
    }
}

impl Slot {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        SLOTS.iter().find(|(_, slot)| *slot == self).map_or("", |(name, _)| name)
    }
}
