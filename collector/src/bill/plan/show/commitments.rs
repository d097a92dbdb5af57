//! Plans of commitments.

use num_bigint::BigInt;
use num_traits::ToPrimitive;
use serde_json::{Value, json};

use super::{cents, millionths, percent, table};
use crate::bill::commitments::Slot;
use crate::bill::decimal::{ONE, format as decimal};
use crate::bill::plan::advice::{Advice, Plan};
use crate::bill::plan::commitments::{Point, permille};
use crate::bill::plan::demand::Group;
use crate::bill::plan::fractions::{Fit, Shared};
use crate::bill::plan::rates::NoRate;
use crate::bill::rate::exact::{Amount, hour};

/// Most lines of a curve that people are shown.
const MOST_LINES: usize = 16;

impl Plan {
    /// For people.
    pub fn to_text(&self) -> String {
        let period = &self.asked.period;
        let slot = if self.asked.slot == Slot::Hour { "clock hours" } else { "minutes" };
        let mut out = format!(
            "{} to {} ({}), demand by {slot}, {}, in {}\n",
            period.local(period.from),
            period.local(period.to),
            period.zone_name(),
            self.book.describe(),
            self.book.currency
        );
        for advice in &self.advice {
            out += &format!("\n{}", self.advice_text(advice));
        }
        for (group, missing) in &self.without {
            let why = match missing {
                NoRate::OnDemand => "unpriced: the book has no rate for it",
                NoRate::Reserved => {
                    "no reserved rate: the book has no exclusive one; give --reserved-hourly or --discount"
                }
            };
            out += &format!("\n{}, {}: {why}\n", group.gpu_model, group.whose);
        }
        if self.advice.is_empty() && self.without.is_empty() {
            out += "\nno demand in this time\n";
        }
        if self.simulated() {
            out += "\nnote: part of this was generated, not measured\n";
        }
        for note in &self.notes {
            out += &format!("note: {note}\n");
        }
        out
    }

    fn advice_text(&self, advice: &Advice) -> String {
        let (curve, best) = (&advice.curve, advice.curve.best());
        let mut out = format!("{}, {}\n", advice.group.gpu_model, advice.group.whose);
        let last = self.asked.period.to;
        if let Some(rates) = advice.rates.rates.last() {
            let dated = if advice.rates.rates.len() > 1 {
                format!(" (at the end, {})", self.asked.period.local(last))
            } else {
                String::new()
            };
            out += &format!(
                "an hour: {} on demand, {} reserved ({}){dated}\n",
                decimal(rates.on_demand),
                hourly(&rates.reserved),
                advice.rates.reserved_from
            );
        }
        let rows = self.shown(advice).into_iter().map(|at| {
            let point = &curve.points[at];
            let mark = if at == curve.best { "◀" } else { "" };
            vec![
                format!("{} {mark}", point.gpus),
                cents(&point.reserved),
                cents(&point.on_demand),
                cents(&point.total),
                percent(curve.use_of(point)),
                if point.gpus == 0 { "–".to_owned() } else { cents(&point.last_used) },
            ]
        });
        let head = ["reserve", "reserved", "on demand", "total", "used", "hours of the last"];
        out += &format!("{}\n", table(&head, rows));
        let pays = curve.break_even.as_ref().map_or_else(
            || "never, since on demand is free".to_owned(),
            |hours| {
                format!(
                    "above {} of {} h ({})",
                    cents(hours),
                    cents(&curve.hours),
                    percent(permille(hours, &curve.hours))
                )
            },
        );
        out += &format!("a reserved GPU pays when it is used {pays}\n");
        let ways = [
            ("all on demand", &curve.nothing().total),
            (&*format!("reserve {}, rest on demand", best.gpus), &best.total),
            (&*format!("reserve all {}", curve.everything().gpus), &curve.everything().total),
            (&*format!("parts of 1/{} GPU", advice.shared.whole), &advice.shared.cost),
        ]
        .map(|(name, cost)| vec![name.to_owned(), cents(cost), cents(&(cost - &curve.nothing().total))]);
        out += &format!("{}\n", table(&["way", "cost", "against on demand"], ways));
        if let Some(saving) = &advice.over_term {
            out += &format!("over the term, with such demand: {} saved\n", cents(saving));
        }
        out + &shared_text(&advice.shared, advice.rates.parts_from)
    }

    /// The points that people are shown: all of a short curve; of a long one the ends, the best and its neighbours, and some between.
    fn shown(&self, advice: &Advice) -> Vec<usize> {
        let (count, best) = (advice.curve.points.len(), advice.curve.best);
        if count <= MOST_LINES {
            return (0..count).collect();
        }
        let step = count.div_ceil(MOST_LINES - 4);
        (0..count).filter(|at| at % step == 0 || at.abs_diff(best) <= 1 || at + 1 == count).collect()
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        let period = &self.asked.period;
        let without = |(group, missing): &(Group, NoRate)| {
            let why = if *missing == NoRate::OnDemand { "unpriced" } else { "no_reserved_rate" };
            json!({ "gpu_model": group.gpu_model, "whose": group.whose.to_string(), "why": why })
        };
        json!({
            "from": period.local(period.from),
            "to": period.local(period.to),
            "month": period.month,
            "time_zone": period.zone_name(),
            "slot": if self.asked.slot == Slot::Hour { "hour" } else { "minute" },
            "currency": self.book.currency,
            "prices": self.book.id(),
            "plans": self.advice.iter().map(|advice| self.advice_json(advice)).collect::<Vec<_>>(),
            "without": self.without.iter().map(without).collect::<Vec<_>>(),
            "simulated": self.simulated(),
            "notes": self.notes,
        })
    }

    fn advice_json(&self, advice: &Advice) -> Value {
        let (curve, demand) = (&advice.curve, &advice.demand);
        let rates = self.spans.iter().zip(&advice.rates.rates).map(|(span, rates)| {
            json!({
                "from": self.asked.period.local(span.0),
                "on_demand": decimal(rates.on_demand),
                "reserved": hourly(&rates.reserved),
                "parts": decimal(rates.parts),
            })
        });
        let reached = |gpus: u32| json!({ "gpus": gpus, "hours": millionths(&Amount::new(demand.reached(gpus).into(), &3_600_000.into())) });
        json!({
            "gpu_model": advice.group.gpu_model,
            "whose": advice.group.whose.to_string(),
            "hours": millionths(&curve.hours),
            "gpu_hours": millionths(&Amount::new(demand.held().into(), &hour())),
            "most_gpus": demand.most(),
            "reached": (1..=demand.most()).map(reached).collect::<Vec<_>>(),
            "rates": rates.collect::<Vec<_>>(),
            "reserved_rate_from": advice.rates.reserved_from,
            "points": curve.points.iter().map(|point| point_json(advice, point)).collect::<Vec<_>>(),
            "best": curve.best().gpus,
            "saving": millionths(&curve.saving()),
            "saving_exact": curve.saving().reduced().to_string(),
            "saving_over_term": advice.over_term.as_ref().map(millionths),
            "break_even_hours": curve.break_even.as_ref().map(millionths),
            "ways": {
                "on_demand": millionths(&curve.nothing().total),
                "best": millionths(&curve.best().total),
                "all_reserved": millionths(&curve.everything().total),
                "shared": millionths(&advice.shared.cost),
            },
            "shared": shared_json(&advice.shared, advice.rates.parts_from),
        })
    }
}

/// A reserved rate, in `10^-24`, to 12 digits after the point.
fn hourly(reserved: &BigInt) -> String {
    let rounded: BigInt = (reserved + ONE / 2) / ONE;
    rounded.to_i128().map_or_else(|| rounded.to_string(), decimal)
}

fn point_json(advice: &Advice, point: &Point) -> Value {
    json!({
        "gpus": point.gpus,
        "reserved": millionths(&point.reserved),
        "on_demand": millionths(&point.on_demand),
        "total": millionths(&point.total),
        "total_exact": point.total.reduced().to_string(),
        "used_gpu_hours": millionths(&point.used),
        "used_permille": advice.curve.use_of(point),
        "hours_of_the_last": millionths(&point.last_used),
        "pays": point.pays,
    })
}

fn shared_text(shared: &Shared, parts_from: &str) -> String {
    let mut out = format!("in parts: {} GPU-hours, at {parts_from}", cents(&shared.gpu_hours));
    if !shared.unknown.is_zero() {
        out += &format!("; {} of what was held counts as it was, since its use is unknown", cents(&shared.unknown));
    }
    out += &match shared.fit {
        0 => ". A part would do for no owner whose use is known\n".to_owned(),
        fit => format!(". A part would do for {fit} owners, who held {}\n", cents(&shared.fit_held)),
    };
    let rows = shared.owners.iter().map(|fit| vec![name(fit), cents(&fit.held), enough(fit, shared.whole)]);
    if !shared.owners.is_empty() {
        out += &format!("{}\n", table(&["owner", "GPU-hours", "enough in 95 % of the time"], rows));
    }
    if shared.more > 0 {
        out += &format!("and {} more owners\n", shared.more);
    }
    out
}

fn enough(fit: &Fit, whole: u32) -> String {
    match fit.parts {
        None => "has a part already".to_owned(),
        Some(_) if fit.unknown => "use unknown".to_owned(),
        Some(parts) if parts >= whole => "a whole GPU".to_owned(),
        Some(parts) => format!("{parts}/{whole} of a GPU"),
    }
}

/// An owner in a few words.
fn name(fit: &Fit) -> String {
    let owner = &fit.owner;
    let last = [&owner.job, &owner.pod, &owner.container, &owner.command, &owner.user];
    let words = [&owner.department, &owner.project, &owner.experiment, &owner.service]
        .into_iter()
        .chain(last.into_iter().find(|word| !word.is_empty()))
        .filter(|word| !word.is_empty());
    let words: Vec<&str> = words.map(String::as_str).collect();
    if words.is_empty() { "(unattributed)".to_owned() } else { words.join(" / ").chars().take(60).collect() }
}

fn shared_json(shared: &Shared, parts_from: &str) -> Value {
    let owner = |fit: &Fit| {
        json!({
            "owner": name(fit),
            "gpu_hours": millionths(&fit.held),
            "parts": fit.parts,
            "fits": fit.parts.map(|parts| parts < shared.whole),
            "use_unknown": fit.unknown,
        })
    };
    json!({
        "of": shared.whole,
        "rate_from": parts_from,
        "cost": millionths(&shared.cost),
        "gpu_hours": millionths(&shared.gpu_hours),
        "unknown_gpu_hours": millionths(&shared.unknown),
        "fitting_owners": shared.fit,
        "fitting_gpu_hours": millionths(&shared.fit_held),
        "owners": shared.owners.iter().map(owner).collect::<Vec<_>>(),
        "more_owners": shared.more,
    })
}
