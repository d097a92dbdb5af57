//! Plans of capacity.

use std::cmp::Ordering;

use jiff::Timestamp;
use num_rational::BigRational;
use num_traits::{Signed, Zero};
use serde_json::{Value, json};

use super::{cents, millionths, number, table};
use crate::bill::decimal::format as decimal;
use crate::bill::plan::capacity::Peak;
use crate::bill::plan::pool::Pool;
use crate::bill::plan::throughput::Target;
use crate::bill::rate::exact::Amount;

/// Days from Monday on.
pub(in crate::bill::plan) const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// What to say of GPUs held above those needed.
fn verdict(over: &BigRational) -> String {
    let words = match over.cmp(&BigRational::zero()) {
        Ordering::Less => "  too few by",
        Ordering::Equal => "  as many as needed",
        Ordering::Greater => "  more than needed by",
    };
    words.to_owned()
}

/// Unix seconds, RFC 3339.
fn utc(second: i64) -> String {
    Timestamp::from_second(second).map_or_else(|_| second.to_string(), |time| time.to_string())
}

/// Such as `p99 within 200 ms`.
pub(in crate::bill::plan) fn target(target: Target) -> String {
    let percent = f64::from(target.quantile.ppm()) / 1e4;
    format!("p{percent} within {} ms", target.us / 1e3)
}

/// Such as `20 %`.
pub(in crate::bill::plan) fn percentage(part: i128) -> String {
    let text = decimal(part * 100);
    format!("{} %", text.strip_suffix(".00").unwrap_or(&text))
}

impl Pool {
    /// For people.
    pub fn to_text(&self) -> String {
        let (asked, needed) = (&self.asked, &self.needed);
        let model =
            if asked.service.model.is_empty() { String::new() } else { format!(", model {}", asked.service.model) };
        let mut out = format!(
            "{}{model}, {} to {}, {}\n\n",
            asked.service.name,
            utc(self.seen.0),
            utc(self.seen.1),
            self.counted.as_str()
        );
        let of_peak = match asked.peak {
            Peak::Greatest => format!("most of {} s", asked.window_s),
            Peak::Quantile(quantile) => format!("p{} of {} s", f64::from(quantile.ppm()) / 1e4, asked.window_s),
        };
        let [most, usual, median] = &needed.told;
        let mut rows = vec![
            vec![format!("peak, requests/s ({of_peak})"), number(&needed.peak)],
            vec!["  most, p99.9, median".to_owned(), [most, usual, median].map(number).join(", ")],
            vec![
                format!("one GPU, requests/s ({})", if asked.per_gpu.is_some() { "given" } else { "measured" }),
                number(&self.sizing.per_gpu),
            ],
            vec!["headroom".to_owned(), percentage(self.sizing.headroom)],
            vec!["GPUs needed at the peak".to_owned(), needed.gpus.to_string()],
            vec!["GPUs needed in the quietest hour of the week".to_owned(), needed.floor().to_string()],
        ];
        if let (Some(size), Some(over)) = (&self.size, self.over()) {
            rows.push(vec![format!("GPUs held at {}", utc(size.at)), number(&size.last)]);
            rows.push(vec!["  most in five minutes".to_owned(), number(&size.most)]);
            rows.push(vec![verdict(&over), number(&over.abs())]);
        }
        out += &format!("{}\n{}", table(&["what", "value"], rows), self.measured_text());
        if let Some(cost) = &self.cost {
            let week = |name: &str, amount: &Amount| vec![name.to_owned(), cents(amount)];
            let mut rows: Vec<Vec<String>> = cost.now.iter().map(|now| week("as many as now", now)).collect();
            rows.push(week("as many as the peak needs, always", &cost.peak));
            rows.push(week("as many as each hour needs", &cost.by_hour));
            let head = format!("a week, {}, on demand, {}", cost.gpu_model, cost.currency);
            out += &format!("\n{}\n", table(&[&head, "cost"], rows));
        }
        out += &format!("\nGPUs by hour of the week ({})\n{}\n", self.zone(), self.grid());
        if self.simulated {
            out += "\nnote: part of this was generated, not measured\n";
        }
        for note in &self.notes {
            out += &format!("note: {note}\n");
        }
        out
    }

    fn zone(&self) -> &str {
        self.asked.zone.iana_name().unwrap_or("UTC")
    }

    /// How what a GPU can do was measured.
    fn measured_text(&self) -> String {
        let (Some(measured), Some(of)) = (&self.measured, self.asked.target) else { return String::new() };
        let all = measured.met + measured.missed + measured.unknown;
        let mut out = format!(
            "measured: {} was met in {} of {all} windows of 5 min, in {} of them at {} requests/s and GPU or more",
            target(of),
            measured.met,
            measured.at_least,
            number(&measured.per_gpu)
        );
        if measured.unknown > 0 {
            out += &format!("; of {} it is not known", measured.unknown);
        }
        out + "\n"
    }

    /// Days by hours.
    fn grid(&self) -> String {
        let width = self.needed.gpus.to_string().len().max(2);
        let mut out = "    ".to_owned();
        for hour in 0..24 {
            out += &format!(" {hour:>width$}");
        }
        for (day, hours) in DAYS.iter().zip(self.needed.by_hour.chunks(24)) {
            out += &format!("\n{day} ");
            for gpus in hours {
                let gpus = gpus.map_or_else(|| "–".to_owned(), |gpus| gpus.to_string());
                out += &format!(" {gpus:>width$}");
            }
        }
        out
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        let rate = |rate: &BigRational| json!(millionths(&Amount::new(rate.numer().clone(), rate.denom())));
        let (asked, needed) = (&self.asked, &self.needed);
        let [most, usual, median] = &needed.told;
        let measured = self.measured.as_ref().map(|measured| {
            json!({
                "per_gpu_rps": rate(&measured.per_gpu), "windows_met": measured.met, "windows_at_least": measured.at_least,
                "windows_missed": measured.missed, "windows_missed_below": measured.missed_below, "windows_unknown": measured.unknown,
            })
        });
        let size = self.size.as_ref().map(|size| {
            json!({ "gpus": rate(&size.last), "at": utc(size.at), "most": rate(&size.most), "gpu_model": size.gpu_model, "models": size.models })
        });
        let cost = self.cost.as_ref().map(|cost| {
            json!({
                "currency": cost.currency, "gpu_model": cost.gpu_model, "now": cost.now.as_ref().map(millionths),
                "peak": millionths(&cost.peak), "by_hour": millionths(&cost.by_hour),
            })
        });
        json!({
            "service": asked.service.name,
            "model": asked.service.model,
            "from": utc(asked.service.from.into()),
            "to": utc(asked.service.to.into()),
            "seen": { "from": utc(self.seen.0), "to": utc(self.seen.1) },
            "counted": if self.counted == crate::bill::plan::load::Counted::Served { "served" } else { "latency" },
            "window_s": asked.window_s,
            "peak_rps": rate(&needed.peak),
            "most_rps": rate(most),
            "p999_rps": rate(usual),
            "median_rps": rate(median),
            "per_gpu_rps": rate(&self.sizing.per_gpu),
            "per_gpu_rps_exact": self.sizing.per_gpu.to_string(),
            "headroom_percent": decimal(self.sizing.headroom * 100),
            "target": asked.target.map(target),
            "measured": measured,
            "gpus": needed.gpus,
            "floor": needed.floor(),
            "by_hour_of_week": needed.by_hour,
            "time_zone": self.zone(),
            "gpu_hours_a_week": { "peak": needed.gpus.saturating_mul(168), "by_hour": needed.week() },
            "held": size,
            "over": self.over().as_ref().map(rate),
            "cost_a_week": cost,
            "simulated": self.simulated,
            "notes": self.notes,
        })
    }
}
