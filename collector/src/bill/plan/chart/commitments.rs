//! The curve of costs, and the GPUs that were held: a row for each plan.

use std::collections::BTreeMap;

use num_bigint::BigInt;

use super::{Panel, drawing, float, text};
use crate::bill::decimal::ONE;
use crate::bill::plan::advice::{Advice, Plan};
use crate::bill::plan::show::cents;
use crate::bill::rate::exact::Amount;

/// Most plans that are drawn: those that cost most.
const MOST_ROWS: usize = 8;

const WIDTH: f64 = 960.0;
const ROW: f64 = 330.0;

impl Plan {
    /// The plans as a drawing.
    pub fn to_svg(&self) -> String {
        let mut advice: Vec<&Advice> = self.advice.iter().collect();
        advice.sort_by(|a, b| float(&b.curve.nothing().total).total_cmp(&float(&a.curve.nothing().total)));
        advice.truncate(MOST_ROWS);
        let (mut inside, mut top, mut label) = (String::new(), 0.0, Vec::new());
        for advice in advice {
            let title = format!("{}, {}", advice.group.gpu_model, advice.group.whose);
            inside += &text(24.0, top + 26.0, "head", "start", &title);
            inside += &self.costs(advice, top);
            inside += &self.duration(advice, top);
            label.push(format!(
                "{title}: reserve {}, {} {}",
                advice.curve.best().gpus,
                cents(&advice.curve.best().total),
                self.book.currency
            ));
            top += ROW;
        }
        drawing(WIDTH, top.max(60.0), &label.join("; "), &inside)
    }

    /// What each number of reserved GPUs costs.
    fn costs(&self, advice: &Advice, top: f64) -> String {
        let (curve, best) = (&advice.curve, advice.curve.best());
        let most_y = curve.points.iter().map(|point| float(&point.total)).fold(0.0, f64::max);
        let panel = Panel {
            left: 74.0,
            top: top + 84.0,
            width: 380.0,
            height: ROW - 140.0,
            most_x: f64::from(curve.everything().gpus).max(1.0),
            most_y: if most_y > 0.0 { most_y * 1.05 } else { 1.0 },
            least: (1.0, 0.0),
        };
        let mut out = panel.axes("GPUs reserved", "");
        let of = |amount: fn(&crate::bill::plan::commitments::Point) -> f64| {
            curve.points.iter().map(move |point| (f64::from(point.gpus), amount(point))).collect::<Vec<_>>()
        };
        out += &panel.line("second", of(|point| float(&point.reserved)));
        out += &panel.line("third", of(|point| float(&point.on_demand)));
        out += &panel.line("main", of(|point| float(&point.total)));
        let (x, cost) = (f64::from(best.gpus), float(&best.total));
        let place = panel.at(x, cost);
        out += &panel.mark((x, 0.0), (x, panel.most_y));
        out += &format!("<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"/>", place.0, place.1);
        let anchor = if x > panel.most_x * 0.6 { ("end", -8.0) } else { ("start", 8.0) };
        let words = format!("{}: {}", best.gpus, cents(&best.total));
        out += &text(place.0 + anchor.1, panel.top + 12.0, "head", anchor.0, &words);
        for (at, class, name) in [(0.0, "main", "total"), (76.0, "second", "reserved"), (176.0, "third", "on demand")] {
            let (x, y) = (panel.left + at, top + 46.0);
            out += &format!(
                "<line class=\"line {class}\" x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                x + 18.0
            );
            out += &text(x + 24.0, y + 4.0, "", "start", name);
        }
        out + &text(panel.left, top + 70.0, "soft", "start", &format!("cost, {}", self.book.currency))
    }

    /// GPUs that were held, the busiest hours first. A step is the mean of the slots between two whole numbers of GPUs, so that the area is
    /// what was held.
    fn duration(&self, advice: &Advice, top: f64) -> String {
        let hours = float(&advice.curve.hours);
        let most = advice.demand.most().max(1);
        let panel = Panel {
            left: 540.0,
            top: top + 84.0,
            width: 380.0,
            height: ROW - 140.0,
            most_x: hours.max(1e-9),
            most_y: f64::from(most) * 1.05,
            least: (0.0, 1.0),
        };
        let mut levels: BTreeMap<u32, (i64, i128)> = BTreeMap::new();
        for level in advice.demand.spans.iter().flatten() {
            let sums = levels.entry(level.gpus).or_default();
            (sums.0, sums.1) = (sums.0 + level.ms, sums.1 + level.held);
        }
        let (mut steps, mut until) = (Vec::new(), 0.0);
        for (ms, held) in levels.into_values().rev().filter(|(ms, _)| *ms > 0) {
            let mean = float(&Amount::new(held.into(), &(BigInt::from(ms) * ONE)));
            steps.push((until, mean));
            until += float(&Amount::new(ms.into(), &3_600_000.into()));
            steps.push((until, mean));
        }
        steps.push((until, 0.0));
        let area: Vec<String> = std::iter::once((0.0, 0.0))
            .chain(steps.iter().copied())
            .map(|(x, y)| panel.at(x, y))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let mut out = format!("<polygon class=\"area\" points=\"{}\"/>", area.join(" "));
        out += &panel.axes("hours", "");
        out += &panel.line("main", steps);
        out += &text(panel.left, top + 70.0, "soft", "start", "GPUs in use, the busiest hours first");
        let best = f64::from(advice.curve.best().gpus);
        out += &panel.mark((0.0, best), (hours, best));
        let (x, y) = panel.at(hours, best);
        out += &text(x, y - 5.0, "", "end", &format!("reserved: {}", advice.curve.best().gpus));
        if let Some(pays) = advice.curve.break_even.as_ref().map(float).filter(|pays| *pays <= hours) {
            out += &panel.mark((pays, 0.0), (pays, panel.most_y));
            let (x, _) = panel.at(pays, 0.0);
            let anchor = if pays > hours * 0.6 { ("end", -5.0) } else { ("start", 5.0) };
            out += &text(x + anchor.1, panel.top + 10.0, "", anchor.0, &format!("pays above {pays:.0} h"));
        }
        out
    }
}
