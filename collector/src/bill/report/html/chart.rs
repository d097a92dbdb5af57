//! Charts, as SVG in the page: stretched to the width that there is, with words beside and not in them, so that those stay readable.
//! Whole numbers alone: a chart of 100 by 100 has hundredths.

use maud::{Markup, html};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use super::Page;
use crate::bill::decimal::Millionths;
use crate::bill::directory;
use crate::bill::report::view::series::Series;
use crate::bill::report::view::shown::rounded;
use crate::bill::report::view::{Outlook, Scope};

/// What is as high as the chart: a round number that is not much more.
fn ceiling(most: &BigInt) -> BigInt {
    let mut power = BigInt::from(1);
    loop {
        for times in [10, 12, 15, 20, 25, 30, 40, 50, 60, 80] {
            let ceiling = &power * times;
            if ceiling >= *most {
                return ceiling;
            }
        }
        power *= 10;
    }
}

/// A part of a whole as a number from 0 to 100 with two digits after the point; what is less or more is cut.
fn hundredth(part: &BigInt, whole: &BigInt) -> String {
    let part = if whole.is_positive() { BigInt::div_floor(&(part * 10_000), whole) } else { BigInt::zero() };
    let part = part.to_i64().unwrap_or(i64::MAX).clamp(0, 10_000);
    format!("{}.{:02}", part / 100, part % 100)
}

/// A coordinate that goes down: that of an amount, from the top of a chart.
fn from_top(amount: &BigInt, ceiling: &BigInt) -> String {
    hundredth(&(ceiling - amount), ceiling)
}

impl Page<'_> {
    /// A millionths' amount on an axis: with no more digits than it needs.
    fn on_axis(&self, amount: &BigInt) -> String {
        let needs = |digits: &u8| amount.mod_floor(&BigInt::from(10_u32.pow(6 - u32::from(*digits)))).is_zero();
        let digits = (0..=6).find(needs).unwrap_or(6);
        self.lang.number(&rounded(&Millionths(amount.clone()), digits), digits)
    }

    fn axis(&self, ceiling: &BigInt) -> Markup {
        html! {
            div class="y" aria-hidden="true" {
                span { (self.on_axis(ceiling)) } span { (self.on_axis(&(ceiling / 2))) } span { "0" }
            }
        }
    }

    fn dates(&self, days: &[directory::Day]) -> Markup {
        let last = days.len().saturating_sub(1);
        let mut places = vec![0, last / 4, last / 2, last * 3 / 4, last];
        places.dedup();
        html! {
            div class="x" aria-hidden="true" {
                @for at in places { span { (self.lang.short_date(directory::date(days[at]))) } }
            }
        }
    }
}

/// Costs by day, stacked; `of` says what its parts are.
pub(super) fn by_day(page: &Page<'_>, series: &Series, of: &str) -> Markup {
    let sum =
        |at: usize| -> BigInt { series.parts.iter().map(|(_, costs)| costs[at].0.clone().max(BigInt::zero())).sum() };
    let sums: Vec<BigInt> = (0..series.days.len()).map(sum).collect();
    let most = sums.iter().max().cloned().unwrap_or_default();
    if most.is_zero() {
        return html! {};
    }
    let ceiling = ceiling(&most);
    let words = page.words;
    let title = if page.with_effective { words.by_day_effective } else { words.by_day };
    html! {
        figure class="chart" {
            figcaption { (title) " " (of) (page.unit()) }
            div class="plot" {
                (page.axis(&ceiling))
                svg viewBox={ "0 0 " (series.days.len() * 10) " 100" } preserveAspectRatio="none" role="img"
                    aria-label={ (title) ". " (words.days_charted) } {
                    title { (title) }
                    desc { (words.days_charted) }
                    path class="grid" d={ "M0 0H" (series.days.len() * 10) "M0 50H" (series.days.len() * 10) "M0 100H" (series.days.len() * 10) } {}
                    @for (at, day) in series.days.iter().enumerate() { (bar(page, series, at, *day, &sums[at], &ceiling)) }
                }
                (page.dates(&series.days))
            }
            (legend(page, series))
            @if series.is_part { p class="how" { (words.by_day_without) } }
        }
    }
}

fn bar(page: &Page<'_>, series: &Series, at: usize, day: directory::Day, sum: &BigInt, ceiling: &BigInt) -> Markup {
    let mut below = BigInt::zero();
    let mut rects = Vec::new();
    for (number, (name, costs)) in series.parts.iter().enumerate() {
        let cost = &costs[at].0;
        if !cost.is_positive() {
            continue;
        }
        let (low, high) = (below.clone(), &below + cost);
        // Its height is between two rounded edges, so that no gap is left between two parts.
        let top = from_top(&high, ceiling);
        let class = if name.is_some() { format!("c{number}") } else { "rest".to_owned() };
        rects.push((class, top, from_top(&low, ceiling)));
        below = high;
    }
    let x = at * 10 + 1;
    html! {
        g {
            title { (page.lang.short_date(directory::date(day))) ": " (page.amount(&rounded(&Millionths(sum.clone()), page.digits()))) }
            @for (class, top, bottom) in rects { path class=(class) d={ "M" (x) " " (bottom) "V" (top) "h8V" (bottom) "z" } {} }
        }
    }
}

fn legend(page: &Page<'_>, series: &Series) -> Markup {
    html! {
        ul class="legend" {
            @for (number, (name, costs)) in series.parts.iter().enumerate() {
                li {
                    i class={ @if name.is_some() { "c" (number) } @else { "rest" } } aria-hidden="true" {}
                    (name.as_deref().unwrap_or(page.words.others)) " "
                    b { (page.amount(&rounded(&costs.iter().sum(), page.digits()))) }
                }
            }
        }
    }
}

/// The part of the bill that something is, as a bar.
pub(super) fn share(tenths: Option<&BigInt>) -> Markup {
    let Some(tenths) = tenths.filter(|tenths| tenths.is_positive()) else { return html! {} };
    html! {
        svg class="share" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" {
            path class="back" d="M0 0H100V4H0z" {}
            path class="c0" d={ "M0 0H" (hundredth(tenths, &BigInt::from(1_000))) "V4H0z" } {}
        }
    }
}

/// What was spent of a budget, and how much of it is to be expected.
pub(super) fn bullet(page: &Page<'_>, scope: &Scope, budget: &Millionths, total: &BigInt) -> Markup {
    let words = page.words;
    let expected = match &scope.outlook {
        Outlook::Expected { forecast, .. } => Some(forecast),
        _ => None,
    };
    let spent = &scope.total.cost.0;
    let high = expected.map(|forecast| &forecast.high.0);
    let most = [Some(spent), Some(&budget.0), high].into_iter().flatten().max().cloned().unwrap_or_default();
    let at = |amount: &BigInt| hundredth(amount, &most);
    let mut label = format!(
        "{}: {}. {}: {}.",
        words.budget,
        page.amount(&rounded(budget, page.digits())),
        words.spent,
        page.amount(total)
    );
    if let Some(forecast) = expected {
        label += &format!(" {}: {}.", words.forecast, page.amount(&rounded(&forecast.point, page.digits())));
    }
    html! {
        svg class="bullet" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label=(label) {
            title { (label) }
            path class="back" d="M0 3H100V9H0z" {}
            @if let Some(forecast) = expected {
                path class="band" d={ "M" (at(&forecast.low.0)) " 3H" (at(&forecast.high.0)) "V9H" (at(&forecast.low.0)) "z" } {}
            }
            path class={ @if spent > &budget.0 { "bad" } @else { "c0" } } d={ "M0 3H" (at(spent)) "V9H0z" } {}
            path class="mark" d={ "M" (at(&budget.0)) " 0V12" } {}
        }
    }
}

/// What was spent so far, day by day, and the interval in which the month will end.
pub(super) fn outlook(page: &Page<'_>, scope: &Scope, total: &BigInt) -> Markup {
    let Outlook::Expected { forecast, path } = &scope.outlook else { return html! {} };
    let period = &page.report.statement.period;
    let day = |at| crate::bill::rate::local_day(at, &period.zone);
    let (Some(first), Some(last)) = (day(period.from), day(period.to - 1)) else { return html! {} };
    let days: Vec<directory::Day> = (first..=last).collect();
    let budget = scope.budget.as_ref();
    let most = path.iter().chain([&forecast.high]).chain(budget).map(|amount| &amount.0).max().cloned();
    let ceiling = ceiling(&most.unwrap_or_default());
    let y = |amount: &Millionths| from_top(&amount.0, &ceiling);
    // The middle of a day is where its amount is.
    let (x, end) = (path.len() * 10 - 5, days.len() * 10);
    let points = path.iter().enumerate().map(|(at, amount)| format!("{} {}", at * 10 + 5, y(amount)));
    let line = format!("M{}", points.collect::<Vec<_>>().join("L"));
    let start = path.last().map(y).unwrap_or_default();
    let words = page.words;
    let amount = |amount: &Millionths| page.amount(&rounded(amount, page.digits()));
    let label = format!("{}: {}. {}: {}.", words.so_far, page.amount(total), words.forecast, amount(&forecast.point));
    html! {
        figure class="chart" {
            figcaption { (words.forecast) (page.unit()) }
            div class="plot" {
                (page.axis(&ceiling))
                svg viewBox={ "0 0 " (end) " 100" } preserveAspectRatio="none" role="img" aria-label=(label) {
                    title { (label) }
                    path class="grid" d={ "M0 0H" (end) "M0 50H" (end) "M0 100H" (end) } {}
                    path class="band" d={ "M" (x) " " (start) "L" (end) " " (y(&forecast.high)) "V" (y(&forecast.low)) "z" } {}
                    path class="line" d=(line) {}
                    path class="line dashed" d={ "M" (x) " " (start) "L" (end) " " (y(&forecast.point)) } {}
                    @if let Some(budget) = budget { path class="line budget" d={ "M0 " (y(budget)) "H" (end) } {} }
                }
                (page.dates(&days))
            }
            ul class="legend" {
                li { i class="c0" aria-hidden="true" {} (words.spent) " " b { (page.amount(total)) } }
                li {
                    i class="band" aria-hidden="true" {} (words.forecast_between) " "
                    b { (amount(&forecast.low)) " – " (amount(&forecast.high)) }
                }
                @if let Some(budget) = budget {
                    li { i class="mark" aria-hidden="true" {} (words.budget) " " b { (amount(budget)) } }
                }
            }
            p class="how" { (words.forecast_how.replace("{}", &forecast.days.to_string())) }
        }
    }
}
