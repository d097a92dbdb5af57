//! Plans as SVG that can stand alone or in a page: [`commitments`] draws the curve of costs and how many GPUs were held,
//! [`capacity`] the GPUs of each hour of the week. Numbers are floating point here, since they become pixels.

pub mod capacity;
pub mod commitments;

use num_rational::BigRational;
use num_traits::ToPrimitive;

use crate::bill::rate::exact::Amount;

/// Colours for light and dark, of this drawing alone.
const STYLE: &str = "\
.contador-plan{--paper:#fff;--ink:#1b2733;--soft:#5b6875;--rule:#dfe4e9;--main:#0b66c3;--second:#b4530a;--third:#4d7c0f;--fill:#cfe3f7;\
font-family:system-ui,sans-serif;font-size:12px}\
@media (prefers-color-scheme:dark){.contador-plan{--paper:#14191f;--ink:#e6ebf0;--soft:#9aa7b4;--rule:#2c3640;--main:#6cb2f5;\
--second:#f0a35e;--third:#a3d65c;--fill:#1d3a57}}\
.contador-plan .paper{fill:var(--paper)}.contador-plan text{fill:var(--ink)}.contador-plan .soft{fill:var(--soft)}\
.contador-plan .head{font-weight:600;font-size:14px}.contador-plan .rule{stroke:var(--rule)}.contador-plan .line{fill:none;stroke-width:2}\
.contador-plan .main{stroke:var(--main)}.contador-plan .second{stroke:var(--second)}.contador-plan .third{stroke:var(--third)}\
.contador-plan .area{fill:var(--fill)}.contador-plan .mark{stroke:var(--ink);stroke-dasharray:4 3;stroke-width:1}\
.contador-plan .dot,.contador-plan .cell{fill:var(--main)}";

/// A drawing of this size, with what it shows in words for those who don't see it.
pub(super) fn drawing(width: f64, height: f64, label: &str, inside: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"contador-plan\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{}\"><style>{STYLE}</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>{inside}</svg>\n",
        escaped(label)
    )
}

/// Text as it may stand in an element or an attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            character if character.is_control() => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

/// Text at a place; `anchor` is `start`, `middle` or `end`.
pub(super) fn text(x: f64, y: f64, class: &str, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{}</text>", escaped(text))
}

/// A pixel's worth of an exact number.
pub(super) fn float(amount: &Amount) -> f64 {
    fraction(&amount.reduced())
}

/// A pixel's worth of an exact number.
pub(super) fn fraction(value: &BigRational) -> f64 {
    value.to_f64().filter(|value| value.is_finite()).unwrap_or_default()
}

/// A panel with axes from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    /// Left edge of what is drawn.
    pub left: f64,
    /// Its upper edge.
    pub top: f64,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// The value at its right edge; positive.
    pub most_x: f64,
    /// The value at its upper edge; positive.
    pub most_y: f64,
    /// The least step between numbers of each axis: 1 for what is counted.
    pub least: (f64, f64),
}

impl Panel {
    /// Where a value is.
    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.left + x / self.most_x * self.width, self.top + self.height - y / self.most_y * self.height)
    }

    /// Rules and numbers of both axes, and what they are.
    pub fn axes(&self, of_x: &str, of_y: &str) -> String {
        let mut out = String::new();
        for value in ticks(self.most_y, self.least.1) {
            let (_, y) = self.at(0.0, value);
            out += &format!(
                "<line class=\"rule\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                self.left,
                self.left + self.width
            );
            out += &text(self.left - 6.0, y + 4.0, "soft", "end", &short(value));
        }
        for value in ticks(self.most_x, self.least.0) {
            let (x, y) = self.at(value, 0.0);
            out += &text(x, y + 16.0, "soft", "middle", &short(value));
        }
        out += &text(self.left + self.width, self.top + self.height + 32.0, "soft", "end", of_x);
        out + &text(self.left, self.top - 8.0, "soft", "start", of_y)
    }

    /// A line through values.
    pub fn line(&self, class: &str, values: impl IntoIterator<Item = (f64, f64)>) -> String {
        let points: Vec<String> =
            values.into_iter().map(|(x, y)| self.at(x, y)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        format!("<polyline class=\"line {class}\" points=\"{}\"/>", points.join(" "))
    }

    /// A dashed line between two values.
    pub fn mark(&self, from: (f64, f64), to: (f64, f64)) -> String {
        let ((x1, y1), (x2, y2)) = (self.at(from.0, from.1), self.at(to.0, to.1));
        format!("<line class=\"mark\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>")
    }
}

/// Round numbers from 0 up to the most, at least so far apart: at most seven.
fn ticks(most: f64, least: f64) -> Vec<f64> {
    let rough = (most / 5.0).max(least);
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    (0..=7).map(|number| f64::from(number) * step).take_while(|value| *value <= most * 1.000_001).collect()
}

/// A round number in few letters.
fn short(value: f64) -> String {
    let trimmed = |value: f64, unit: &str| {
        let text = format!("{value:.2}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match value {
        value if value >= 1e6 => trimmed(value / 1e6, "M"),
        value if value >= 1e4 => trimmed(value / 1e3, "k"),
        value => trimmed(value, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_text_is_escaped() {
        assert_eq!(ticks(10.0, 0.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(744.0, 0.0), [0.0, 200.0, 400.0, 600.0]);
        assert_eq!(ticks(2.1, 1.0), [0.0, 1.0, 2.0]);
        for most in [0.003, 1.0, 7.3, 99.0, 123_456.0] {
            assert!((2..=7).contains(&ticks(most, 0.0).len()), "{most}: {:?}", ticks(most, 0.0));
        }
        assert_eq!([0.5, 200.0, 12_000.0, 2.5e6].map(short), ["0.5", "200", "12k", "2.5M"]);
        assert_eq!(escaped("<a href=\"x\">&\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&amp;\u{fffd}");
    }
}
