//! What a row says beside quantities and prices: whose it is, when, what for, and its costs.

use std::collections::BTreeMap;

use contador_schemas::owner::OwnerKind;

use super::spans::{Span, month_name};
use super::what::{What, gpus, original};
use crate::bill::decimal::Millionths;
use crate::bill::focus::check::is_guessed;
use crate::bill::focus::row::{Row, qualified};
use crate::bill::focus::value::{ChargeClass, ConsumptionModel, Properties, Time};
use crate::bill::prices::Consumption;
use crate::bill::rate::Key;
use crate::bill::settle::Amounts;
use crate::bill::statement::Statement;

/// Who issues the bill where the price book does not tell.
const ISSUER: &str = "GPU platform";

/// Labels of an owner that have no column.
const LABELS: [&str; 7] = ["cluster", "namespace", "pod", "container", "job", "model", "command"];

/// The row of a line's part in a span. What has no price is billed, effectively, by list and by contract the same.
pub(super) fn row(statement: &Statement, key: &Key, what: &What<'_>, span: &Span, amounts: &Amounts) -> Row {
    let issuer = text(&statement.book.issuer).map_or_else(|| ISSUER.to_owned(), |issuer| name("issuer", &issuer));
    let (service_name, subcategory) = what.service();
    let mut row = Row {
        billing_account_id: qualified("account", "organisation"),
        billing_account_name: issuer.clone(),
        billing_account_type: "Organisation".to_owned(),
        billing_currency: statement.book.currency.clone(),
        billing_period_start: Time(span.billing[0]),
        billing_period_end: Time(span.billing[1]),
        invoice_issuer_name: issuer.clone(),
        provider_name: issuer.clone(),
        publisher_name: issuer,
        charge_category: what.charge(),
        charge_class: span.is_correction.then_some(ChargeClass::Correction),
        charge_description: what.describe(key),
        charge_frequency: what.frequency(original(key).0),
        charge_period_start: Time(span.charge[0]),
        charge_period_end: Time(span.charge[1]),
        billed_cost: amounts.cost.clone(),
        effective_cost: amounts.effective.clone(),
        list_cost: amounts.cost.clone(),
        contracted_cost: amounts.cost.clone(),
        service_name: service_name.to_owned(),
        service_category: subcategory.category(),
        service_subcategory: subcategory,
        tags: Some(tags(key)),
        origin_month: month_name(span.charge[0], &statement.period).filter(|_| span.is_correction),
        simulated: key.simulated,
        ..Row::default()
    };
    owner(&mut row, key);
    resource(&mut row, key, what);
    if !key.gpu_model.is_empty() {
        row.energy_kwh = Some(amounts.energy.clone()).filter(|amount| !Millionths::is_zero(amount));
        row.gco2e = Some(amounts.carbon.clone()).filter(|amount| !Millionths::is_zero(amount));
    }
    row
}

/// A text that says something.
pub(super) fn text(value: &str) -> Option<String> {
    (!value.trim().is_empty()).then(|| value.to_owned())
}

/// A name that readers of CSV do not take for a number: with what it is of before it, where they would.
pub(super) fn name(of: &str, value: &str) -> String {
    if is_guessed(value.trim()) { format!("{of} {value}") } else { value.to_owned() }
}

/// Who pays, for whose workload. Nobody's time has no sub-account: it is the platform's own.
fn owner(row: &mut Row, key: &Key) {
    if key.payer.kind != OwnerKind::Workload {
        return;
    }
    let owner = &key.owner;
    row.department = text(&key.payer.department);
    if let Some(department) = &row.department {
        row.sub_account_id = Some(qualified("department", department));
        row.sub_account_name = Some(name("department", department));
        row.sub_account_type = Some("Department".to_owned());
    }
    row.cost_centre = text(&key.cost_centre);
    row.project = text(&owner.project);
    row.experiment = text(&owner.experiment);
    row.user = text(&owner.user);
    row.service = text(&owner.service);
    row.environment = text(&owner.environment);
}

/// Labels of the owner, and what the line is called in reports.
fn tags(key: &Key) -> Properties {
    let mut tags = BTreeMap::from([("contador:category".to_owned(), key.category.as_str().to_owned())]);
    if key.payer.kind != OwnerKind::Workload {
        tags.insert("contador:holder".to_owned(), key.payer.kind.as_str().to_owned());
    }
    if key.imported {
        tags.insert("contador:imported".to_owned(), "true".to_owned());
    }
    let labels =
        key.owner.attributes().into_iter().filter(|(label, value)| LABELS.contains(label) && !value.is_empty());
    tags.extend(labels.map(|(label, value)| (label.to_owned(), value.to_owned())));
    Properties(tags)
}

/// Lines are not of one device, but of all of a model: those are the resource.
fn resource(row: &mut Row, key: &Key, what: &What<'_>) {
    let (of, id, name_of) = match what {
        What::Amount(..) => return,
        What::Storage(class) => ("storage", (*class).to_owned(), "Storage class"),
        What::Network(class) => ("network", (*class).to_owned(), "Network class"),
        What::Purchase(id) | What::Unused(id) => ("commitment", (*id).to_owned(), "Reservation"),
        _ => ("gpus", gpus(key), "GPU pool"),
    };
    row.resource_id = Some(qualified(of, &id));
    row.resource_name = text(&name(of, &id));
    row.resource_type = Some(name_of.to_owned());
    if matches!(of, "gpus" | "commitment") {
        row.gpu_model = text(&key.gpu_model);
        row.mig_profile = text(&key.mig_profile);
        row.consumption_model = key.consumption.map(|model| match model {
            Consumption::Exclusive => ConsumptionModel::Exclusive,
            Consumption::TimeSharing => ConsumptionModel::TimeSharing,
            Consumption::Fraction => ConsumptionModel::Fraction,
        });
    }
}
