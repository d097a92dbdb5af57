//! A bill as a page: one file with everything in it, to be read on a screen or a telephone, to be printed, and to be kept.
//!
//! It fetches nothing and runs nothing, which its own policy makes sure of. Whatever comes from labels is escaped by the template
//! (`maud`). Amounts have the digits that the book gives payers ([`super::view::shown`]), and every table adds up as it is shown.

mod chart;
mod department;
mod fleet;
mod parts;

use std::borrow::Cow;

use contador_schemas::owner::OwnerKind;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use num_bigint::BigInt;
use num_traits::Zero;

use super::lang::{Lang, Words};
use super::view::shown::Matrix;
use super::view::tree::{self, Limits};
use super::view::{Scope, Scopes};
use super::{Report, named};
use crate::bill::close::Status;
use crate::bill::decimal::Millionths;
use crate::bill::rate::Category;
use crate::bill::settle::Amounts;

const STYLE: &str = include_str!("style.css");

/// Departments that have a section of their own, where not everything is asked for.
const SECTIONS: usize = 40;

/// Rows of a table that are shown, where not everything is asked for.
const ROWS: usize = 30;

/// What a page is made from.
struct Page<'a> {
    report: &'a Report,
    lang: Lang,
    words: &'static Words,
    /// Everything is asked for, whatever it takes.
    is_whole: bool,
    scopes: Scopes,
    /// Categories that occur, the columns of what is shown.
    categories: Vec<Category>,
    /// What payers are billed by category, as it is shown.
    billed: Matrix,
    /// The same, effectively.
    effective: Matrix,
    with_effective: bool,
}

/// The version of the program that closed the month, or of this one.
fn version(statement: &crate::bill::statement::Statement) -> &str {
    statement.standing.invoice.as_ref().map_or(env!("CARGO_PKG_VERSION"), |invoice| &invoice.version)
}

impl Report {
    /// The bill as a page in a language. `is_whole` has everything in it, and not only the largest of many.
    pub fn to_html(&self, lang: Lang, is_whole: bool) -> String {
        Page::new(self, lang, is_whole).page().into_string()
    }
}

impl<'a> Page<'a> {
    fn new(report: &'a Report, lang: Lang, is_whole: bool) -> Self {
        let scopes = Scopes::of(report);
        let mut categories: Vec<Category> =
            scopes.payers.iter().flat_map(|scope| scope.categories.keys().copied()).collect();
        categories.sort_unstable();
        categories.dedup();
        let rows = |amount: fn(&Amounts) -> &Millionths| -> Vec<Vec<Millionths>> {
            let cell =
                |scope: &Scope, category| scope.categories.get(category).map(amount).cloned().unwrap_or_default();
            let row = |scope: &Scope| categories.iter().map(|category| cell(scope, category)).collect();
            scopes.payers.iter().map(row).collect()
        };
        let digits = report.statement.book.decimals;
        let billed = Matrix::new(&rows(|amounts| &amounts.cost), categories.len(), digits);
        let is_of_commitments =
            |category| matches!(category, Category::Covered | Category::Commitment | Category::Unused);
        let differ: Vec<usize> = (0..categories.len()).filter(|at| is_of_commitments(categories[*at])).collect();
        let effective = billed.with(&differ, &rows(|amounts| &amounts.effective), digits);
        let with_effective = report.has_commitments();
        let words = lang.words();
        Self { report, lang, words, is_whole, scopes, categories, billed, effective, with_effective }
    }

    fn digits(&self) -> u8 {
        self.report.statement.book.decimals
    }

    fn currency(&self) -> &str {
        &self.report.statement.book.currency
    }

    /// An amount that stands alone, with its currency.
    fn money(&self, units: &BigInt) -> String {
        self.lang.money(units, self.digits(), self.currency())
    }

    /// An amount of a table.
    fn amount(&self, units: &BigInt) -> String {
        self.lang.number(units, self.digits())
    }

    fn limits(&self) -> &'static Limits {
        if self.is_whole { &tree::ALL } else { &tree::SHORT }
    }

    /// The most rows of a table.
    fn rows(&self) -> usize {
        if self.is_whole { usize::MAX } else { ROWS }
    }

    /// What a department, or nobody's time, is called.
    fn name(&self, scope: &Scope) -> Cow<'static, str> {
        match scope.kind() {
            OwnerKind::Workload if scope.department().is_empty() => self.words.no_department.into(),
            OwnerKind::Workload => named(scope.department()).into(),
            kind => self.lang.kind(kind).into(),
        }
    }

    fn label(&self, label: &tree::Label) -> String {
        match label {
            tree::Label::Named(name) if name.is_empty() => self.words.without_name.to_owned(),
            tree::Label::Named(name) => named(name),
            tree::Label::Category(category) => self.lang.category(*category).to_owned(),
            tree::Label::More(count) => self.more(*count),
        }
    }

    fn more(&self, count: usize) -> String {
        self.words.and_more.replace("{}", &self.lang.number(&count.into(), 0))
    }

    fn page(&self) -> Markup {
        let (words, statement) = (self.words, &self.report.statement);
        let period = self.lang.period(&statement.period);
        let title = match &self.report.department {
            Some(department) => format!("{} – {} – {period}", words.title, named(department)),
            None => format!("{} – {period}", words.title),
        };
        let version = version(statement);
        html! {
            (DOCTYPE)
            html lang=(self.lang.code()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                    meta name="color-scheme" content="light dark";
                    meta name="generator" content={ "contador " (version) };
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    (self.head(&period))
                    main {
                        (self.notes())
                        @match &self.report.department {
                            None => (self.fleet()),
                            Some(_) => (self.only_department()),
                        }
                    }
                    (self.foot())
                }
            }
        }
    }

    fn head(&self, period: &str) -> Markup {
        let (words, statement) = (self.words, &self.report.statement);
        html! {
            header class="cover" {
                div {
                    @if !statement.book.issuer.is_empty() { p class="issuer" { (statement.book.issuer) } }
                    h1 { (words.title) }
                    p class="period" {
                        @if let Some(department) = &self.report.department { (named(department)) " · " }
                        (period)
                    }
                }
                dl class="facts" {
                    div {
                        dt { (words.status) }
                        dd { (self.status()) @if statement.made.simulated { " " span class="badge warn" { (words.simulated) } } }
                    }
                    div {
                        dt { (words.period) }
                        dd { (self.lang.span(&statement.period)) " (" (statement.period.zone_name()) ")" }
                    }
                    div { dt { (words.currency) } dd { (self.currency()) } }
                }
            }
        }
    }

    fn status(&self) -> Markup {
        let is_open = self.report.beside.now.is_some_and(|now| now < self.report.statement.period.to);
        let (class, status) = match self.report.status() {
            Status::Closed => ("badge good", self.words.closed),
            Status::Accepted => ("badge good", self.words.accepted),
            Status::Disputed => ("badge warn", self.words.disputed),
            Status::Draft if is_open => ("badge", self.words.open),
            Status::Draft => ("badge", self.words.draft),
        };
        html! {
            span class=(class) { (status) }
            @if let Some(invoice) = &self.report.statement.standing.invoice { " " (self.words.number) " " (invoice.number) }
        }
    }

    fn notes(&self) -> Markup {
        let notes = self.report.notes_in(self.lang);
        html! {
            @if !notes.is_empty() {
                aside class="notes" aria-label=(self.words.notes) {
                    ul { @for note in notes { li { (note) } } }
                }
            }
        }
    }

    fn foot(&self) -> Markup {
        let (words, statement) = (self.words, &self.report.statement);
        let made = &statement.made;
        let count = |count: u64| self.lang.number(&count.into(), 0);
        html! {
            footer {
                p { (words.made_how) @if self.with_effective { " " (words.effective_how) } }
                dl class="made" {
                    div {
                        dt { (words.facts) }
                        dd {
                            (count(made.allocations)) " " (words.allocations) ", " (count(made.ledger_rows)) " " (words.ledger_rows)
                        }
                    }
                    div { dt { (words.prices) } dd class="id" { (statement.book.id()) } }
                    div { dt { (words.directory) } dd class="id" { (made.directory.as_deref().unwrap_or(words.directory_none)) } }
                    @if let Some(invoice) = &statement.standing.invoice {
                        div { dt { (words.hash) } dd class="id" { (invoice.hash) } }
                    }
                    div { dt { (words.generated) } dd { "contador " (version(statement)) } }
                }
            }
        }
    }

    /// The page of one department: its part, and what the fleet comes to.
    fn only_department(&self) -> Markup {
        html! {
            @if let Some(scope) = self.scopes.payers.first() {
                (self.department(0, scope, false))
                p class="fleet" {
                    (self.words.whole_fleet) ": "
                    b { (self.money(&super::view::shown::rounded(&self.report.fleet.cost, self.digits()))) }
                    @if let Some(part) = super::lang::tenths(&self.report.total.cost.0, &self.report.fleet.cost.0) {
                        " (" (self.words.share) ": " (self.lang.percent(&part)) ")"
                    }
                }
            } @else {
                p class="empty" { (self.words.empty) }
            }
        }
    }

    /// The columns that some payer has something in.
    fn columns(&self, of: impl Fn(Category) -> bool) -> Vec<usize> {
        (0..self.categories.len()).filter(|at| of(self.categories[*at])).collect()
    }

    /// The sum of some cells of a row.
    fn cells(matrix: &Matrix, row: usize, columns: &[usize]) -> BigInt {
        columns.iter().fold(BigInt::zero(), |sum, column| sum + matrix.cell(row, *column))
    }
}
