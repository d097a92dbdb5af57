//! What sections have in common: the figures at their top, and tables of what was done.

use maud::{Markup, html};
use num_bigint::BigInt;
use num_traits::{Signed, Zero};

use super::{Page, chart};
use crate::bill::decimal::Millionths;
use crate::bill::report::lang::{Lang, tenths};
use crate::bill::report::view::shown::{Matrix, fit, rounded};
use crate::bill::report::view::{Efficiency, Outlook, Scope};

impl Page<'_> {
    /// The figures of the fleet or of a department: its total, as it is shown, and what that is to be compared with.
    pub(super) fn figures(&self, scope: &Scope, total: &BigInt) -> Markup {
        let words = self.words;
        let is_open = scope.outlook != Outlook::Over;
        html! {
            div class="figures" {
                div class="figure main" {
                    span class="what" { (match (&self.report.statement.standing.invoice, is_open) {
                        (Some(_), _) => words.total_due,
                        (None, true) => words.so_far,
                        (None, false) => words.total,
                    }) }
                    span class="value" { (self.large(total)) }
                    span class="more" { (self.against_last(scope)) }
                }
                @if let Some(budget) = &scope.budget { (self.budget(scope, budget, total)) }
                @match &scope.outlook {
                    Outlook::Over => {},
                    Outlook::TooFew => div class="figure" {
                        span class="what" { (words.forecast) }
                        span class="more" { (words.forecast_few) }
                    },
                    Outlook::Expected { forecast, .. } => div class="figure" {
                        span class="what" { (words.forecast) }
                        span class="value" { (self.large(&rounded(&forecast.point, self.digits()))) }
                        span class="more" {
                            (words.forecast_between) ": " (self.amount(&rounded(&forecast.low, self.digits()))) " – "
                            (self.amount(&rounded(&forecast.high, self.digits())))
                        }
                    },
                }
                div class="figure" {
                    span class="what" { (words.gpu_hours) }
                    span class="value" { (self.lang.number(&rounded(&scope.efficiency.held, 1), 1)) }
                    @if let Some(busy) = scope.efficiency.utilisation() {
                        span class="more" { (words.utilisation) ": " (self.lang.percent(&busy)) }
                    }
                }
                @if scope.efficiency.metered { (self.energy(&scope.efficiency)) }
            }
        }
    }

    /// An amount in large digits, with its currency in small letters.
    fn large(&self, units: &BigInt) -> Markup {
        html! {
            (self.amount(units))
            @if self.currency() != crate::bill::prices::NO_CURRENCY { " " small { (self.currency()) } }
        }
    }

    fn against_last(&self, scope: &Scope) -> Markup {
        let Some(last) = &scope.last else {
            return html! { @if self.report.beside.last.is_some() { (self.words.no_last) } };
        };
        let amount = self.money(&rounded(last, self.digits()));
        let change = tenths(&(&scope.total.cost.0 - &last.0), &last.0.abs());
        html! {
            // A month in progress is less than a whole one, which says nothing.
            @if let (Some(change), true) = (change, scope.outlook == Outlook::Over) {
                span { (self.lang.change(&change)) } " " (self.words.against_last) " (" (amount) ")"
            } @else {
                (self.words.last_month) ": " (amount)
            }
        }
    }

    fn budget(&self, scope: &Scope, budget: &Millionths, total: &BigInt) -> Markup {
        let words = self.words;
        let spent = tenths(&scope.total.cost.0, &budget.0);
        let over = &rounded(&scope.total.cost, self.digits()) - rounded(budget, self.digits());
        html! {
            div class="figure" {
                span class="what" { (words.budget) }
                span class="value" { (self.large(&rounded(budget, self.digits()))) }
                (chart::bullet(self, scope, budget, total))
                span class={ "more" @if over.is_positive() { " over" } } {
                    @if over.is_positive() {
                        (self.money(&over)) " " (words.over_budget)
                    } @else if let Some(spent) = &spent {
                        (self.lang.percent(spent)) " " (words.of_budget)
                    }
                }
            }
        }
    }

    fn energy(&self, of: &Efficiency) -> Markup {
        let kwh = if of.site_energy.is_zero() { &of.energy } else { &of.site_energy };
        html! {
            div class="figure" {
                span class="what" { (self.words.energy) }
                span class="value" { (self.lang.number(&rounded(kwh, 0), 0)) " " small { "kWh" } }
                @if self.tells_carbon() {
                    span class="more" { (self.lang.number(&kilograms(&of.carbon), 0)) " kg CO₂e" }
                }
            }
        }
    }

    /// Whether the book says what a kWh causes.
    pub(super) fn tells_carbon(&self) -> bool {
        self.report.statement.book.energy.iter().any(|energy| energy.carbon_g_per_kwh.is_some())
    }

    /// What departments did with what they held.
    pub(super) fn efficiency(&self, scopes: &[&Scope]) -> Markup {
        let (words, digits) = (self.words, self.digits());
        let of: Vec<&Efficiency> = scopes.iter().map(|scope| &scope.efficiency).collect();
        let with_unused = of.iter().any(|of| !of.unused.is_zero());
        let with_energy = of.iter().any(|of| of.metered);
        let with_carbon = with_energy && self.tells_carbon();
        let rows: Vec<Vec<Millionths>> =
            of.iter().map(|of| vec![of.busy.clone(), of.idle.clone(), of.unknown.clone()]).collect();
        let hours = Matrix::new(&rows, 3, 1);
        let fitted = |amount: fn(&Efficiency) -> &Millionths, digits| {
            let amounts: Vec<&Millionths> = of.iter().map(|of| amount(of)).collect();
            fit(&amounts, &rounded(&amounts.iter().copied().sum(), digits), digits)
        };
        let waste = fitted(|of| &of.waste, digits);
        let unused = fitted(|of| &of.unused_cost, digits);
        let energy = fitted(|of| &of.energy, 1);
        let mut columns = vec![
            Column::of(words.allocated, 1),
            Column::of(words.busy, 1),
            Column::of(words.held_idle, 1),
            Column::of(words.unknown, 1),
            Column::rate(words.utilisation),
            Column::of(words.waste, digits),
        ];
        let optional = [
            (with_unused, words.unused_cost, digits),
            (with_energy, words.energy_kwh, 1),
            (with_carbon, words.carbon, 0),
        ];
        columns.extend(optional.iter().filter(|column| column.0).map(|(_, label, digits)| Column::of(label, *digits)));
        let row = |(at, scope): (usize, &&Scope)| {
            let of = &scope.efficiency;
            let mut row = vec![Some(hours.row(at))];
            row.extend((0..3).map(|column| Some(hours.cell(at, column))));
            row.extend([of.utilisation(), Some(waste[at].clone())]);
            let metered = |units: BigInt| of.metered.then_some(units);
            let optional = [Some(unused[at].clone()), metered(energy[at].clone()), metered(kilograms(&of.carbon))];
            row.extend(
                [with_unused, with_energy, with_carbon]
                    .iter()
                    .zip(optional)
                    .filter(|(with, _)| **with)
                    .map(|(_, units)| units),
            );
            (html! { (self.name(scope)) }, row)
        };
        let all = of.iter().fold(Efficiency::default(), |mut sum, of| {
            sum.held.0 += &of.held.0;
            sum.busy.0 += &of.busy.0;
            sum.unknown.0 += &of.unknown.0;
            sum
        });
        let rows = scopes.iter().enumerate().map(row).collect();
        let grid = Grid { what: words.department, columns, rows, wholes: vec![all.utilisation()] };
        html! {
            (self.grid(&grid))
            p class="how" { (words.waste_how) }
        }
    }

    /// A table of numbers: its largest rows, what the others come to, and their sum.
    pub(super) fn grid(&self, grid: &Grid<'_>) -> Markup {
        let limit = if grid.rows.len() <= self.rows().saturating_add(1) { grid.rows.len() } else { self.rows() };
        let (shown, rest) = grid.rows.split_at(limit);
        let sum = |rows: &[(Markup, Vec<Option<BigInt>>)], column: usize| -> BigInt {
            rows.iter().filter_map(|(_, row)| row[column].as_ref()).sum()
        };
        let cell = |column: &Column<'_>, value: Option<&BigInt>| {
            let text = value.map_or_else(|| "–".to_owned(), |units| column.text(self.lang, units));
            let is_nothing = column.what == What::Amounts && value.is_some_and(Zero::is_zero);
            html! {
                td class={ "n" @if is_nothing { " z" } @if column.what == What::Totals { " t" } } data-label=(column.label) { (text) }
            }
        };
        let summed = |rows: &[(Markup, Vec<Option<BigInt>>)], wholes: &[Option<BigInt>]| -> Vec<Markup> {
            let mut wholes = wholes.iter();
            let value = |(at, column): (usize, &Column<'_>)| {
                let value = if column.adds_up() { Some(sum(rows, at)) } else { wholes.next().cloned().flatten() };
                cell(column, value.as_ref())
            };
            grid.columns.iter().enumerate().map(value).collect()
        };
        html! {
            table class=(match grid.columns.len() { 0..3 => "narrow", 3 => "plain", _ => "stack" }) {
                thead { tr {
                    th scope="col" { (grid.what) }
                    @for column in &grid.columns { th scope="col" class="n" { (column.label) } }
                } }
                tbody {
                    @for (name, row) in shown {
                        tr {
                            th scope="row" { (name) }
                            @for (column, value) in grid.columns.iter().zip(row) { (cell(column, value.as_ref())) }
                        }
                    }
                    @if !rest.is_empty() {
                        tr class="more" { th scope="row" { (self.more(rest.len())) } @for cell in summed(rest, &[]) { (cell) } }
                    }
                }
                @if grid.rows.len() > 1 {
                    tfoot { tr { th scope="row" { (self.words.total) } @for cell in summed(&grid.rows, &grid.wholes) { (cell) } } }
                }
            }
        }
    }
}

/// A column of a [`Grid`].
pub(super) struct Column<'a> {
    label: &'a str,
    digits: u8,
    what: What,
}

/// What a column has.
#[derive(Clone, Copy, Eq, PartialEq)]
enum What {
    Amounts,
    /// Sums of rows.
    Totals,
    /// Parts of a whole.
    Shares,
    /// Rates, which do not add up.
    Rates,
    /// Changes, which do not add up.
    Changes,
}

impl<'a> Column<'a> {
    /// Of amounts with so many digits.
    pub(super) const fn of(label: &'a str, digits: u8) -> Self {
        Self { label, digits, what: What::Amounts }
    }

    /// Of the sums of rows.
    pub(super) const fn total(label: &'a str, digits: u8) -> Self {
        Self { label, digits, what: What::Totals }
    }

    /// Of parts of a whole.
    pub(super) const fn share(label: &'a str) -> Self {
        Self { label, digits: 1, what: What::Shares }
    }

    /// Of rates, which do not add up.
    pub(super) const fn rate(label: &'a str) -> Self {
        Self { label, digits: 1, what: What::Rates }
    }

    /// Of changes, which do not add up.
    pub(super) const fn change(label: &'a str) -> Self {
        Self { label, digits: 1, what: What::Changes }
    }

    const fn adds_up(&self) -> bool {
        !matches!(self.what, What::Rates | What::Changes)
    }

    fn text(&self, lang: Lang, units: &BigInt) -> String {
        match self.what {
            What::Amounts | What::Totals => lang.number(units, self.digits),
            What::Shares | What::Rates => lang.percent(units),
            What::Changes => lang.change(units),
        }
    }
}

/// A table of numbers. What a row does not have is `None`, which is not nothing.
pub(super) struct Grid<'a> {
    /// What its rows are.
    pub(super) what: &'a str,
    pub(super) columns: Vec<Column<'a>>,
    /// Names, and units of the last digit of each column.
    pub(super) rows: Vec<(Markup, Vec<Option<BigInt>>)>,
    /// Of the whole, for the columns that do not add up.
    pub(super) wholes: Vec<Option<BigInt>>,
}

/// Grams to kilograms, rounded.
pub(super) fn kilograms(grams: &Millionths) -> BigInt {
    (&grams.0 + 500_000_000) / 1_000_000_000
}
