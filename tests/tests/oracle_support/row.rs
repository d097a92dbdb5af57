//! What is compared: exact amounts by everything that tells one line from another.

use std::collections::BTreeMap;

use contador::bill::rate::Rated;
use contador::bill::rate::exact::Exact;
use contador_schemas::owner::OwnerKind;

use super::fraction::Fraction;

/// GPU-hours, priced quantity, unpriced, busy, unknown, kWh, kWh of the site, grams of CO2, cost, effective cost.
pub type Amounts = [Fraction; 10];

pub const HELD: usize = 0;
pub const QUANTITY: usize = 1;
pub const UNPRICED: usize = 2;
pub const BUSY: usize = 3;
pub const UNKNOWN: usize = 4;
pub const ENERGY: usize = 5;
pub const SITE: usize = 6;
pub const CARBON: usize = 7;
pub const COST: usize = 8;
pub const EFFECTIVE: usize = 9;

/// What a line is for.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Row {
    pub kind: OwnerKind,
    pub department: String,
    pub category: String,
    pub item: String,
    pub project: String,
    pub environment: String,
    pub centre: String,
    pub model: String,
    pub profile: String,
    pub consumption: String,
    pub price: Option<i128>,
    pub day: Option<u16>,
    pub imported: bool,
}

pub type Rows = BTreeMap<Row, Amounts>;

/// Adds an amount to one measure of a row.
pub fn add(rows: &mut Rows, row: &Row, measure: usize, amount: &Fraction) {
    rows.entry(row.clone()).or_default()[measure].add(amount);
}

/// What the engine rated, in the oracle's words.
pub fn of_engine(rated: &Rated) -> Rows {
    let mut rows = Rows::new();
    for (key, exact) in &rated.charges {
        let row = Row {
            kind: key.payer.kind,
            department: key.payer.department.to_string(),
            category: key.category.as_str().to_owned(),
            item: key.item.to_string(),
            project: key.owner.project.clone(),
            environment: key.owner.environment.clone(),
            centre: key.cost_centre.to_string(),
            model: key.gpu_model.to_string(),
            profile: key.mig_profile.to_string(),
            consumption: key.consumption.map_or("", |model| model.as_str()).to_owned(),
            price: key.unit_price,
            day: key.day,
            imported: key.imported,
        };
        assert!(rows.insert(row.clone(), amounts(exact)).is_none(), "two lines for {row:?}");
    }
    rows
}

/// What the engine rated for one line.
pub fn amounts(exact: &Exact) -> Amounts {
    exact.all().map(|amount| Fraction::new(amount.numerator.clone(), &amount.denominator))
}

/// The first row in which two bills differ, for people; a row of zeros is as good as none.
pub fn difference(oracle: &Rows, engine: &Rows) -> Option<String> {
    let nothing = Amounts::default();
    for row in oracle.keys().chain(engine.keys()) {
        let (expected, found) = (oracle.get(row).unwrap_or(&nothing), engine.get(row).unwrap_or(&nothing));
        for measure in 0..expected.len() {
            let (expected, found) = (&expected[measure], &found[measure]);
            if expected != found {
                let show = |of: &Fraction| format!("{}/{}", of.above, of.below);
                return Some(format!("{row:?}\nmeasure {measure}: expected {}, found {}", show(expected), show(found)));
            }
        }
    }
    None
}
