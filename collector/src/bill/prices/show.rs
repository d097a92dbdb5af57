//! A price book for people: text with tables.

use contador_schemas::mapping::Glob;

use super::file::words;
use super::{ANY, ConsumptionRule, Percentage, PriceBook, Rate};
use crate::bill::decimal::format;
use crate::bill::document::duration;
use crate::bill::document::shown::{Notes, from, instant, table};

impl PriceBook {
    /// The whole book as text, its tables at most `width` columns wide.
    pub fn to_text(&self, width: u16) -> String {
        let mut notes = Notes::default();
        let digits = if self.decimals == 1 { "digit" } else { "digits" };
        let mut out = format!("price book {}\n", self.id());
        out += &format!("currency   {}, billed with {} {digits} after the point\n", self.currency, self.decimals);
        out += &format!("time zone  {}\n", self.time_zone);
        if !self.issuer.is_empty() {
            out += &format!("issuer     {}\n", self.issuer);
        }
        out += &format!("\n{}", self.rates_text(&mut notes, width));
        if !self.consumption.is_empty() {
            let rows = self.consumption.iter().map(|rule| [rule.model.to_string(), rule.when()]);
            out += &format!("\n{}", table(["consumption", "of"], rows, width));
        }
        out += &self.others_text(&mut notes, width);
        for (what, percentages) in [("mark-up", &self.markups), ("tax", &self.taxes)] {
            if !percentages.is_empty() {
                let rows = percentages.iter().map(|percentage| self.percentage(percentage));
                out += &format!("\n{}", table([what, "percent", "departments", "of periods that start"], rows, width));
            }
        }
        out += &format!("\n{}", self.policy_text(width));
        let notes = notes.lines();
        if notes.is_empty() { out } else { format!("{out}\n{notes}") }
    }

    fn rates_text(&self, notes: &mut Notes, width: u16) -> String {
        let zone = self.zone();
        let header = ["rate", "from", &format!("{} an hour", self.currency), "of", "billed", "notes"];
        let rows = self.rates.iter().map(|rate| {
            let derivation = notes.number("derivation", &rate.derivation);
            let source = notes.number("source", &rate.source);
            let hourly = format(rate.hourly);
            let unit = rate.unit().to_owned();
            [rate.what(), from(rate.valid_from, &zone), hourly, unit, rate.billed(), derivation + &source]
        });
        table(header, rows, width)
    }

    fn others_text(&self, notes: &mut Notes, width: u16) -> String {
        let (zone, mut out) = (self.zone(), String::new());
        if !self.energy.is_empty() {
            let price = format!("{} a kWh", self.currency);
            let rows = self.energy.iter().map(|energy| {
                let nodes: Vec<&str> = energy.nodes.iter().map(Glob::as_str).collect();
                let nodes = if nodes.is_empty() { "all others".to_owned() } else { nodes.join(", ") };
                let carbon = energy.carbon_g_per_kwh.map_or_else(|| "unknown".to_owned(), format);
                let source = notes.number("source", &energy.source);
                [nodes, from(energy.valid_from, &zone), format(energy.tariff), format(energy.pue), carbon, source]
            });
            let billing = if self.energy_is_a_line { "billed as a line of its own" } else { "included in the rates" };
            let header = ["energy of nodes", "from", &price, "PUE", "gCO2e a kWh", "notes"];
            out += &format!("\n{}energy is {billing}\n", table(header, rows, width));
        }
        let payer = |department: &str, project: &str| {
            [department, project].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" / ")
        };
        if !self.storage.is_empty() {
            let price = format!("{} a GiB-month", self.currency);
            let rows = self.storage.iter().map(|rate| {
                let hours = format!("{} h", rate.month_hours);
                let payer = payer(&rate.department, &rate.project);
                let class = rate.class.as_str().to_owned();
                [class, from(rate.valid_from, &zone), format(rate.per_gib_month), hours, payer]
            });
            out += &format!("\n{}", table(["storage", "from", &price, "month", "paid by"], rows, width));
        }
        if !self.network.is_empty() {
            let price = format!("{} a GiB", self.currency);
            let rows = self.network.iter().map(|rate| {
                let payer = payer(&rate.department, &rate.project);
                [rate.class.as_str().to_owned(), from(rate.valid_from, &zone), format(rate.per_gib), payer]
            });
            out += &format!("\n{}", table(["network", "from", &price, "paid by"], rows, width));
        }
        out
    }

    fn percentage(&self, percentage: &Percentage) -> [String; 4] {
        let zone = self.zone();
        let names: Vec<&str> = percentage.departments.iter().map(String::as_str).collect();
        let departments = if names.is_empty() { "all".to_owned() } else { names.join(", ") };
        let mut starts = from(percentage.valid_from, &zone);
        if percentage.valid_from != 0 {
            starts.insert_str(0, "from ");
        }
        if let Some(to) = percentage.valid_to {
            starts += &format!(", before {}", instant(to, &zone));
        }
        [percentage.name.clone(), format(percentage.percent), departments, starts]
    }

    /// What becomes of what nobody held, in words.
    pub(super) fn policies(&self) -> [(&'static str, &'static str); 6] {
        let policy = &self.policy;
        let spread = |spread| words::name(&words::SPREADS, spread);
        [
            ("idle", spread(policy.idle)),
            ("stranded", spread(policy.stranded)),
            ("unattributed", spread(policy.unattributed)),
            ("unmetered", spread(policy.unmetered)),
            ("gaps", words::name(&words::GAPS, policy.gaps_to_last_owner)),
            ("over_allocation", words::name(&words::OVER_ALLOCATION, policy.split_over_allocation)),
        ]
    }

    fn policy_text(&self, width: u16) -> String {
        let mut rows = self.policies().map(|(of, what)| [of.to_owned(), what.to_owned()]).to_vec();
        if !self.policy.platform.is_empty() {
            rows.push(["platform".to_owned(), self.policy.platform.clone()]);
        }
        table(["policy", ""], rows, width)
    }
}

impl ConsumptionRule {
    /// What must match, in words.
    fn when(&self) -> String {
        if self.matches.is_empty() {
            return "all others".to_owned();
        }
        let matches: Vec<String> =
            self.matches.iter().map(|(name, glob)| format!("{name} {:?}", glob.as_str())).collect();
        matches.join(", ")
    }
}

impl Rate {
    /// What the price is for an hour of.
    pub(super) fn unit(&self) -> &'static str {
        match self.mig_profile.as_deref() {
            None => "a GPU",
            Some(ANY) => "a GPU, times the share",
            Some(_) => "an instance",
        }
    }

    /// Which time is billed, in words.
    fn billed(&self) -> String {
        let mut billed = words::name(&words::BASES, self.basis).to_owned();
        if self.increment_ms > 1 {
            billed += &format!(", by the {}", duration::format(self.increment_ms));
        }
        if self.minimum_ms > 0 {
            billed += &format!(", at least {}", duration::format(self.minimum_ms));
        }
        billed
    }
}
