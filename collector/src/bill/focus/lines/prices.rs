//! What of a row is priced, used, bought or left unused.

use num_traits::ToPrimitive;

use super::row::name;
use super::spans::Span;
use super::what::{What, gpus};
use crate::bill::commitments::Commitment;
use crate::bill::decimal::{self, Millionths};
use crate::bill::facts::Device;
use crate::bill::focus::row::{Row, cost, qualified};
use crate::bill::focus::value::{CommitmentCategory, PricingCategory, Properties, Reserved, Trillionths};
use crate::bill::prices::{ANY, Rate};
use crate::bill::rate::Key;
use crate::bill::rate::price::is_by_instance;
use crate::bill::settle::Amounts;
use crate::bill::statement::Statement;

const GPU_HOURS: &str = "GPU-Hours";
const INSTANCE_HOURS: &str = "Instance-Hours";

/// The part of a line that a row is of.
pub(super) struct Of<'a> {
    pub statement: &'a Statement,
    pub key: &'a Key,
    pub what: &'a What<'a>,
    pub amounts: &'a Amounts,
    pub span: &'a Span,
}

/// What is priced: a price of `10^-12` of a currency unit, for how many of which unit, called what, of which meter.
struct Priced {
    price: i128,
    quantity: Millionths,
    unit: &'static str,
    sku: String,
    meter: &'static str,
}

/// Fills in prices, quantities and commitments; amounts have none of them.
pub(super) fn fill(row: &mut Row, of: &Of<'_>) {
    let Some(priced) = of.priced() else { return };
    let (price, quantity) = (Trillionths(priced.price), trillionths(&priced.quantity));
    row.list_unit_price = Some(price);
    row.contracted_unit_price = Some(price);
    row.list_cost = cost(price, quantity);
    row.contracted_cost = row.list_cost.clone();
    row.pricing_quantity = Some(quantity);
    row.pricing_unit = Some(priced.unit.to_owned());
    row.pricing_category = Some(match of.what {
        What::Used(_) | What::Unused(_) => PricingCategory::Committed,
        What::Gpus if of.is_unpriced() => PricingCategory::Other,
        _ => PricingCategory::Standard,
    });
    let sku_price = format!("{}/{}/{}", priced.sku, priced.unit, decimal::format(priced.price));
    row.sku_price_id = Some(qualified("price", if of.is_unpriced() { &priced.sku } else { &sku_price }));
    row.sku_id = Some(qualified("sku", &priced.sku));
    row.sku_meter = Some(priced.meter.to_owned());
    if of.is_unpriced() {
        row.sku_price_details = Some(Properties([("x_Unpriced".to_owned(), "true".to_owned())].into()));
        row.tags.get_or_insert_default().0.insert("contador:unpriced".to_owned(), "true".to_owned());
    }
    let consumed = match of.what {
        What::Unused(_) | What::Purchase(_) => None,
        What::Energy | What::Storage(_) | What::Network(_) => Some((quantity, priced.unit)),
        _ => Some((trillionths(&of.amounts.gpu_hours), GPU_HOURS)),
    };
    (row.consumed_quantity, row.consumed_unit) = consumed.map(|(of, unit)| (of, unit.to_owned())).unzip();
    of.commitment(row, quantity, priced.unit);
}

fn trillionths(amount: &Millionths) -> Trillionths {
    // What has more digits than any file can hold becomes the greatest number, which is refused.
    let exact = amount.0.to_i128().and_then(|amount| amount.checked_mul(1_000_000));
    Trillionths(exact.unwrap_or(i128::MAX))
}

impl Of<'_> {
    /// Whether it is time on GPUs that the book has no price for.
    fn is_unpriced(&self) -> bool {
        *self.what == What::Gpus && self.key.unit_price.is_none()
    }

    fn priced(&self) -> Option<Priced> {
        let (key, amounts) = (self.key, self.amounts);
        let price = key.unit_price.unwrap_or(0);
        let quantity = amounts.quantity.clone();
        let of_gpus = |price, quantity, unit| Priced {
            price,
            quantity,
            unit,
            sku: format!("gpu/{}", gpus(key)),
            meter: "time on GPUs",
        };
        let of = |sku, unit, meter| Priced { price, quantity: amounts.quantity.clone(), unit, sku, meter };
        Some(match self.what {
            What::Amount(..) => return None,
            What::Gpus if self.is_unpriced() => of_gpus(0, amounts.unpriced.clone(), GPU_HOURS),
            What::Gpus if self.is_of_instances(price) => of_gpus(price, quantity, INSTANCE_HOURS),
            What::Gpus => of_gpus(price, quantity, GPU_HOURS),
            What::Resting(_) => of_gpus(price, Millionths::default(), GPU_HOURS),
            What::Used(id) | What::Unused(id) => of_gpus(self.on_demand(id, price), quantity, self.unit(id)),
            What::Purchase(id) => of(format!("reservation/{}", gpus(key)), self.unit(id), "reserved time"),
            What::Energy => of("energy".to_owned(), "kWh", "energy"),
            What::Storage(class) => of(format!("storage/{class}"), "GiB-Months", "stored data"),
            What::Network(class) => of(format!("network/{class}"), "GiB", "moved data"),
        })
    }

    /// Whether the price is that of an hour of a MIG instance: the book has such a rate for its profile.
    fn is_of_instances(&self, price: i128) -> bool {
        let key = self.key;
        let of_model = |rate: &Rate| rate.gpu_model == ANY || *rate.gpu_model == *key.gpu_model;
        let is_it = |rate: &&Rate| {
            rate.hourly == price && rate.mig_profile.as_deref() == Some(&*key.mig_profile) && of_model(rate)
        };
        !key.mig_profile.is_empty() && self.statement.book.rates.iter().any(|rate| is_it(&rate))
    }

    fn agreed(&self, id: &str) -> Option<&Commitment> {
        self.statement.agreements.commitments.iter().find(|commitment| commitment.id == id)
    }

    fn unit(&self, id: &str) -> &'static str {
        let of_instances = self.agreed(id).is_some_and(|commitment| commitment.mig_profile.is_some());
        if of_instances { INSTANCE_HOURS } else { GPU_HOURS }
    }

    /// What an hour would have cost without the commitment, at the start of the charge period; the commitment's own price if the
    /// book has none for the same unit.
    fn on_demand(&self, id: &str, own: i128) -> i128 {
        let (key, book) = (self.key, &self.statement.book);
        let device = Device {
            gpu_model: key.gpu_model.to_string(),
            mig_profile: key.mig_profile.to_string(),
            ..Device::default()
        };
        let is_part = !key.mig_profile.is_empty();
        let consumption = key.consumption.unwrap_or_else(|| book.consumption_of(&key.owner, &key.gpu_model, is_part));
        let rate = book.rate(&device, &key.owner, Some(consumption), self.span.charge[0]);
        let same_unit = |rate: &&Rate| is_by_instance(rate) == (self.unit(id) == INSTANCE_HOURS);
        rate.filter(same_unit).map_or(own, |rate| rate.hourly)
    }

    fn commitment(&self, row: &mut Row, quantity: Trillionths, unit: &str) {
        let Some(id) = self.what.commitment() else { return };
        let status = match self.what {
            What::Used(_) => Some(Reserved::Used),
            What::Unused(_) => Some(Reserved::Unused),
            _ => None,
        };
        row.commitment_id = Some(qualified("commitment", id));
        row.commitment_name = Some(name("commitment", id));
        row.commitment_category = Some(CommitmentCategory::Usage);
        row.commitment_type = Some("Reservation".to_owned());
        row.commitment_status = status;
        if !self.span.is_correction {
            row.commitment_quantity = Some(quantity);
            row.commitment_unit = Some(unit.to_owned());
        }
        if status.is_some() {
            row.reservation_id.clone_from(&row.commitment_id);
            row.reservation_status = status;
        }
    }
}
