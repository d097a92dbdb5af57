//! The part of one department: its statement, its days, its charges, and what it did with what it held.

use maud::{Markup, html};
use num_bigint::BigInt;
use num_integer::Integer;

use super::parts::{Column, Grid};
use super::{Page, chart};
use crate::bill::decimal::Millionths;
use crate::bill::rate::Category;
use crate::bill::report::Dimension;
use crate::bill::report::view::series::series;
use crate::bill::report::view::shown::{fit, rounded};
use crate::bill::report::view::tree::{self, Row, tree};
use crate::bill::report::view::{Scope, Served, of_payer};
use crate::bill::settle::Line;

impl Page<'_> {
    /// A department's section; `row` is its place among the payers.
    pub(super) fn department(&self, row: usize, scope: &Scope, with_title: bool) -> Markup {
        let words = self.words;
        let total = self.billed.row(row);
        let id = format!("d{row}");
        let has_lines = !self.lines(scope).is_empty();
        html! {
            section class={ @if with_title { "department" } } aria-labelledby=(id) {
                h2 id=(id) {
                    @if with_title { (self.name(scope)) } @else { (words.statement) }
                    " " span class="unit" { (self.lang.period(&self.report.statement.period)) }
                }
                (self.figures(scope, &total))
                @if has_lines {
                    h3 { (words.summary) (self.unit()) }
                    (self.summary(row))
                    (self.department_by_day(scope))
                    (chart::outlook(self, scope, &total))
                    h3 { (words.lines) (self.unit()) }
                    (self.tree(row, scope))
                    @if !with_title {
                        h3 { (words.efficiency) }
                        (self.efficiency(&[scope]))
                    }
                    @if !with_title { (self.served(Some(scope.department()))) }
                } @else {
                    p class="empty" { (words.empty) }
                }
            }
        }
    }

    fn lines(&self, scope: &Scope) -> &[Line] {
        scope.payer.as_ref().map_or(&[], |payer| of_payer(&self.report.statement.lines, payer))
    }

    /// What the department pays for, by category.
    fn summary(&self, row: usize) -> Markup {
        let words = self.words;
        let mut columns = vec![Column::of(words.billed, self.digits())];
        if self.with_effective {
            columns.push(Column::of(words.effective, self.digits()));
        }
        let mut rows = Vec::new();
        for (at, category) in self.categories.iter().enumerate() {
            let (billed, effective) = (self.billed.cell(row, at), self.effective.cell(row, at));
            if !self.scopes.payers[row].categories.contains_key(category) {
                continue;
            }
            let mut cells = vec![Some(billed)];
            if self.with_effective {
                cells.push(Some(effective));
            }
            rows.push((html! { (self.lang.category(*category)) }, cells));
        }
        self.grid(&Grid { what: words.category, columns, rows, wholes: Vec::new() })
    }

    fn department_by_day(&self, scope: &Scope) -> Markup {
        let statement = &self.report.statement;
        let name = |line: &Line| match line.key.category {
            category if tree::is_of_a_workload(category) => {
                self.label(&tree::Label::Named(Dimension::Project.of(&line.key).into_owned()))
            }
            category => self.lang.category(category).to_owned(),
        };
        let series = series(self.lines(scope).iter(), &statement.period, self.report.beside.now, 5, name);
        chart::by_day(self, &series, self.words.and_project)
    }

    fn tree(&self, row: usize, scope: &Scope) -> Markup {
        let words = self.words;
        let nodes = tree(self.lines(scope).iter(), self.limits());
        // Workloads are shown as what their categories are shown as above.
        let is_whole = |node: &tree::Node| matches!(node.label, tree::Label::Category(_));
        let first_whole = nodes.iter().position(is_whole).unwrap_or(nodes.len());
        let (projects, wholes) = nodes.split_at(first_whole);
        let shown = |of: &dyn Fn(Category) -> bool| {
            let columns = self.columns(of);
            (Self::cells(&self.billed, row, &columns), Self::cells(&self.effective, row, &columns))
        };
        let hours: Vec<Millionths> = vec![
            projects.iter().map(|node| &node.amounts.gpu_hours).sum(),
            wholes.iter().map(|node| &node.amounts.gpu_hours).sum(),
        ];
        let hours = fit(&hours.iter().collect::<Vec<_>>(), &rounded(&scope.total.gpu_hours, 1), 1);
        let (billed, effective) = shown(&tree::is_of_a_workload);
        let mut rows = tree::rows(projects, [&billed, &effective, &hours[0]], self.digits());
        let of_wholes: Vec<&Millionths> = wholes.iter().map(|node| &node.amounts.gpu_hours).collect();
        let of_wholes = fit(&of_wholes, &hours[1], 1);
        for (node, hours) in wholes.iter().zip(&of_wholes) {
            let tree::Label::Category(wanted) = node.label else { continue };
            let (billed, effective) = shown(&|category| category == wanted);
            rows.extend(tree::rows(std::slice::from_ref(node), [&billed, &effective, hours], self.digits()));
        }
        let total = [self.billed.row(row), self.effective.row(row), rounded(&scope.total.gpu_hours, 1)];
        html! {
            table class="lines" {
                thead { tr {
                    th scope="col" { (words.item) }
                    th scope="col" class="n" { (words.gpu_hours) }
                    th scope="col" class="n" { (words.utilisation) }
                    th scope="col" class="n" { (words.billed) }
                    @if self.with_effective { th scope="col" class="n" { (words.effective) } }
                } }
                tbody { @for row in &rows { (self.tree_row(row)) } }
                tfoot { tr {
                    th scope="row" { (words.total) }
                    td class="n" { (self.lang.number(&total[2], 1)) }
                    td class="n" { (scope.efficiency.utilisation().map_or_else(String::new, |part| self.lang.percent(&part))) }
                    td class="n" { (self.amount(&total[0])) }
                    @if self.with_effective { td class="n" { (self.amount(&total[1])) } }
                } }
            }
        }
    }

    fn tree_row(&self, row: &Row) -> Markup {
        let is_more = matches!(row.label, tree::Label::More(_));
        let billed = if row.is_unpriced && row.cost == BigInt::ZERO {
            self.words.unpriced.to_owned()
        } else {
            self.amount(&row.cost)
        };
        let has_hours = row.hours != BigInt::ZERO;
        html! {
            tr class={ "l" (row.depth.min(2)) @if is_more { " more" } } {
                th scope="row" { (self.label(&row.label)) }
                td class="n" { @if has_hours { (self.lang.number(&row.hours, 1)) } }
                td class="n" { @if let Some(busy) = &row.busy { (self.lang.percent(busy)) } }
                td class="n" { (billed) }
                @if self.with_effective { td class="n" { (self.amount(&row.effective)) } }
            }
        }
    }

    /// What services have served, and what that cost, of a department or of all.
    pub(super) fn served(&self, department: Option<&str>) -> Markup {
        let words = self.words;
        let is_shown =
            |served: &&Served| department.is_none_or(|only| served.department == only) && served.requests > 0;
        let served: Vec<&Served> = self.report.beside.served.iter().filter(is_shown).collect();
        html! {
            @if !served.is_empty() {
                h3 { (words.served_cost) (self.unit()) }
                table class="plain" {
                    thead { tr {
                        th scope="col" { (words.served) }
                        th scope="col" class="n" { (words.requests) }
                        th scope="col" class="n" { (words.per_thousand) }
                        th scope="col" class="n" { (words.per_million) }
                    } }
                    tbody { @for served in served { (self.served_row(served)) } }
                }
            }
        }
    }

    fn served_row(&self, served: &Served) -> Markup {
        let words = self.words;
        let is_of = |line: &&Line| {
            tree::is_of_a_workload(line.key.category)
                && *line.key.payer.department == *served.department
                && line.key.owner.service == served.service
        };
        let lines = self.report.statement.lines.iter().filter(is_of);
        let cost: Millionths = lines.map(|line| &line.amounts.effective).sum();
        // Small amounts: with all six digits.
        // What cost nothing that is known is not free.
        let is_known = !cost.is_zero();
        let each = |of: u64, units: u64| (is_known && of > 0).then(|| (&cost.0 * units).div_floor(&BigInt::from(of)));
        let text =
            |amount: Option<BigInt>| amount.map_or_else(|| "–".to_owned(), |amount| self.lang.number(&amount, 6));
        html! {
            tr {
                th scope="row" { (served.department) " / " (served.service) }
                td class="n" data-label=(words.requests) { (self.lang.number(&served.requests.into(), 0)) }
                td class="n" data-label=(words.per_thousand) { (text(each(served.requests, 1_000))) }
                td class="n" data-label=(words.per_million) { (text(each(served.tokens, 1_000_000))) }
            }
        }
    }
}
