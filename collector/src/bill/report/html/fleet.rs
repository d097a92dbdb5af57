//! The page of the whole fleet: what it comes to, for whom, on which days and GPUs, and that it adds up.

use std::collections::BTreeMap;

use contador_schemas::owner::OwnerKind;
use maud::{Markup, html};
use num_bigint::BigInt;
use num_traits::Signed;

use super::parts::{Column, Grid};
use super::{Page, SECTIONS, chart};
use crate::bill::decimal::Millionths;
use crate::bill::rate::Category;
use crate::bill::report::lang::tenths;
use crate::bill::report::view::series::series;
use crate::bill::report::view::shown::{fit, rounded, shares};
use crate::bill::report::view::{Outlook, Scope};
use crate::bill::report::{Dimension, named};
use crate::bill::settle::Amounts;

/// Parts of a chart, beside the others.
const PARTS: usize = 6;

impl Page<'_> {
    pub(super) fn fleet(&self) -> Markup {
        let words = self.words;
        let departments: Vec<(usize, &Scope)> =
            self.scopes.payers.iter().enumerate().filter(|(_, scope)| scope.kind() == OwnerKind::Workload).collect();
        let sections = if self.is_whole { departments.len() } else { SECTIONS };
        let scopes: Vec<&Scope> = departments.iter().map(|(_, scope)| *scope).collect();
        html! {
            section aria-labelledby="overview" {
                h2 id="overview" { (words.overview) }
                (self.figures(&self.scopes.fleet, &self.billed.total()))
                (self.fleet_by_day())
                (chart::outlook(self, &self.scopes.fleet, &self.billed.total()))
            }
            @if !self.scopes.payers.is_empty() {
                section aria-labelledby="departments" {
                    h2 id="departments" { (words.by_department) (self.unit()) }
                    (self.by_department(sections))
                    div class="keep" {
                        h3 { (words.reconciliation) (self.unit()) }
                        (self.reconciliation())
                    }
                }
                section aria-labelledby="categories" {
                    h2 id="categories" { (words.by_category) (self.unit()) }
                    (self.by_category())
                    h2 { (words.by_model) (self.unit()) }
                    (self.by_model())
                }
            }
            @if !scopes.is_empty() {
                section aria-labelledby="efficiency" {
                    h2 id="efficiency" { (words.efficiency) }
                    (self.efficiency(&scopes))
                    (self.served(None))
                }
            }
            @for (row, scope) in departments.iter().take(sections) {
                (self.department(*row, scope, true))
            }
            @if departments.len() > sections { p class="how" { (words.other_departments) } }
        }
    }

    /// What amounts of a table are in.
    pub(super) fn unit(&self) -> Markup {
        html! { " " span class="unit" { (self.words.amounts_in) " " (self.currency()) } }
    }

    fn fleet_by_day(&self) -> Markup {
        let statement = &self.report.statement;
        let name = |line: &crate::bill::settle::Line| match line.key.payer.kind {
            OwnerKind::Workload if line.key.payer.department.is_empty() => self.words.no_department.to_owned(),
            OwnerKind::Workload => named(&line.key.payer.department),
            _ => self.words.not_allocated.to_owned(),
        };
        let series = series(statement.lines.iter(), &statement.period, self.report.beside.now, PARTS, name);
        chart::by_day(self, &series, self.words.and_department)
    }

    fn by_department(&self, sections: usize) -> Markup {
        let words = self.words;
        use Category::{
            Adjustment, Commitment, Correction, Covered, Credit, Energy, Markup, Network, Share, Storage, Tax, Unused,
            Usage,
        };
        type Group = (&'static str, fn(Category) -> bool);
        let groups: [Group; 6] = [
            (words.group_use, |of| of == Usage),
            (words.group_reserved, |of| matches!(of, Covered | Commitment | Unused)),
            (words.group_shares, |of| matches!(of, Share(_))),
            (words.group_other, |of| matches!(of, Energy | Storage | Network)),
            (words.group_extra, |of| matches!(of, Markup | Tax)),
            (words.group_given, |of| matches!(of, Credit | Adjustment | Correction)),
        ];
        let groups: Vec<(&str, Vec<usize>)> = groups
            .into_iter()
            .map(|(name, of)| (name, self.columns(of)))
            .filter(|(_, columns)| !columns.is_empty())
            .collect();
        let with_last = self.scopes.fleet.last.is_some() && self.scopes.fleet.outlook == Outlook::Over;
        let mut columns: Vec<Column<'_>> = groups.iter().map(|(name, _)| Column::of(name, self.digits())).collect();
        columns.extend([Column::total(words.total, self.digits()), Column::share(words.share)]);
        if with_last {
            columns.push(Column::change(words.against_last));
        }
        let parts = shares(&(0..self.scopes.payers.len()).map(|row| self.billed.row(row)).collect::<Vec<_>>());
        let row = |(at, scope): (usize, &Scope)| {
            let mut row: Vec<Option<BigInt>> =
                groups.iter().map(|(_, columns)| Some(Self::cells(&self.billed, at, columns))).collect();
            let part = parts[at].as_ref();
            row.extend([Some(self.billed.row(at)), part.cloned()]);
            if with_last {
                row.push(change(scope));
            }
            let name = self.name(scope);
            let is_linked = scope.kind() == OwnerKind::Workload && at < sections;
            let name = html! {
                @if is_linked { a href={ "#d" (at) } { (name) } } @else { (name) }
                (chart::share(part))
            };
            (name, row)
        };
        let rows = self.scopes.payers.iter().enumerate().map(row).collect();
        self.grid(&Grid { what: words.department, columns, rows, wholes: vec![change(&self.scopes.fleet)] })
    }

    fn reconciliation(&self) -> Markup {
        let words = self.words;
        let of = |wanted: fn(OwnerKind) -> bool| -> BigInt {
            let rows = self.scopes.payers.iter().enumerate().filter(|(_, scope)| wanted(scope.kind()));
            rows.map(|(row, _)| self.billed.row(row)).sum()
        };
        let departments = of(|kind| kind == OwnerKind::Workload);
        let others = of(|kind| kind != OwnerKind::Workload);
        let bill = rounded(&self.report.fleet.cost, self.digits());
        let difference = &bill - &departments - &others;
        html! {
            table class="narrow sums" {
                tbody {
                    tr { th scope="row" { (words.departments_sum) } td class="n" { (self.amount(&departments)) } }
                    tr { th scope="row" { (words.not_allocated) } td class="n" { (self.amount(&others)) } }
                    tr class="sum" { th scope="row" { (words.bill_total) } td class="n" { (self.amount(&bill)) } }
                    tr { th scope="row" { (words.difference) } td class="n" { (self.amount(&difference)) } }
                }
            }
        }
    }

    fn by_category(&self) -> Markup {
        let words = self.words;
        let mut columns = vec![Column::of(words.billed, self.digits())];
        if self.with_effective {
            columns.push(Column::of(words.effective, self.digits()));
        }
        columns.push(Column::share(words.share));
        let parts = shares(&(0..self.categories.len()).map(|column| self.billed.column(column)).collect::<Vec<_>>());
        let row = |(at, category): (usize, &Category)| {
            let mut row = vec![Some(self.billed.column(at))];
            if self.with_effective {
                row.push(Some(self.effective.column(at)));
            }
            row.push(parts[at].clone());
            (html! { (self.lang.category(*category)) }, row)
        };
        let rows = self.categories.iter().enumerate().map(row).collect();
        self.grid(&Grid { what: words.category, columns, rows, wholes: Vec::new() })
    }

    fn by_model(&self) -> Markup {
        let words = self.words;
        let mut models: BTreeMap<String, Amounts> = BTreeMap::new();
        for line in &self.report.statement.lines {
            *models.entry(Dimension::GpuModel.of(&line.key).into_owned()).or_default() += &line.amounts;
        }
        let mut models: Vec<(String, Amounts)> = models.into_iter().collect();
        models.sort_by_key(|(model, amounts)| (model.is_empty(), -amounts.effective.0.clone()));
        let fitted = |amount: fn(&Amounts) -> &Millionths, whole: &BigInt, digits| {
            fit(&models.iter().map(|(_, amounts)| amount(amounts)).collect::<Vec<_>>(), whole, digits)
        };
        let fleet = &self.report.fleet;
        let hours = fitted(|of| &of.gpu_hours, &rounded(&fleet.gpu_hours, 1), 1);
        let billed = fitted(|of| &of.cost, &self.billed.total(), self.digits());
        let effective = fitted(|of| &of.effective, &self.effective.total(), self.digits());
        let mut columns = vec![Column::of(words.gpu_hours, 1), Column::of(words.billed, self.digits())];
        if self.with_effective {
            columns.push(Column::of(words.effective, self.digits()));
        }
        let row = |(at, (model, amounts)): (usize, &(String, Amounts))| {
            let mut row = vec![(!model.is_empty()).then(|| hours[at].clone()), Some(billed[at].clone())];
            if self.with_effective {
                row.push(Some(effective[at].clone()));
            }
            let name = if model.is_empty() { words.other_charges.to_owned() } else { named(model) };
            let name = html! {
                (name)
                @if !amounts.unpriced.is_zero() { " " span class="badge warn" { (words.unpriced) } }
            };
            (name, row)
        };
        let rows = models.iter().enumerate().map(row).collect();
        self.grid(&Grid { what: words.gpu_model, columns, rows, wholes: Vec::new() })
    }
}

/// What changed since last month, in tenths of a hundredth; `None` where there was nothing.
fn change(scope: &Scope) -> Option<BigInt> {
    let last = scope.last.as_ref()?;
    tenths(&(&scope.total.cost.0 - &last.0), &last.0.abs())
}
