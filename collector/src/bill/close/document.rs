//! What a month is rated with as documents: a price book and agreements as JSON with decimals in quotes, a directory as the CSV
//! that `contador directory load` reads. Each reads back to an equal one, so a month can be rated again from them alone.

use contador_schemas::mapping::Glob;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::bill::commitments::{Agreements, Budget, Commitment, Slot};
use crate::bill::decimal;
use crate::bill::directory::{Directory, date, file};
use crate::bill::prices::{
    Basis, Consumption, ConsumptionRule, Energy, NetworkRate, Percentage, Policy, PriceBook, Rate, Spread, StorageRate,
};

/// A number times `10^12`, as a decimal in quotes.
#[derive(Clone, Copy)]
struct Decimal(i128);

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&decimal::format(self.0))
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (sign, digits) = text.strip_prefix('-').map_or((1, text.as_str()), |digits| (-1, digits));
        let value =
            decimal::parse(digits).map_err(|expected| de::Error::custom(format!("{text:?}: expected {expected}")))?;
        Ok(Self(sign * value))
    }
}

#[derive(Deserialize, Serialize)]
struct Book {
    currency: String,
    time_zone: String,
    issuer: String,
    decimals: u8,
    rates: Vec<Hourly>,
    consumption: Vec<Rule>,
    energy: Vec<Tariff>,
    energy_is_a_line: bool,
    storage: Vec<Bytes>,
    network: Vec<Bytes>,
    markups: Vec<Percent>,
    taxes: Vec<Percent>,
    policy: Policies,
}

#[derive(Deserialize, Serialize)]
struct Hourly {
    gpu_model: String,
    mig_profile: Option<String>,
    environment: Option<String>,
    consumption: Option<String>,
    valid_from: u32,
    hourly: Decimal,
    basis: String,
    increment_ms: u32,
    minimum_ms: u32,
    derivation: String,
    source: String,
}

#[derive(Deserialize, Serialize)]
struct Rule {
    model: String,
    matches: Vec<(String, String)>,
}

#[derive(Deserialize, Serialize)]
struct Tariff {
    valid_from: u32,
    nodes: Vec<String>,
    tariff: Decimal,
    pue: Decimal,
    carbon_g_per_kwh: Option<Decimal>,
    source: String,
}

/// A storage rate, with the hours of its month, or a network rate.
#[derive(Deserialize, Serialize)]
struct Bytes {
    class: String,
    department: String,
    project: String,
    valid_from: u32,
    per_gib: Decimal,
    month_hours: Option<u32>,
}

#[derive(Deserialize, Serialize)]
struct Percent {
    name: String,
    percent: Decimal,
    departments: Vec<String>,
    valid_from: u32,
    valid_to: Option<u32>,
}

#[derive(Deserialize, Serialize)]
struct Policies {
    idle: String,
    stranded: String,
    unattributed: String,
    unmetered: String,
    gaps_to_last_owner: bool,
    split_over_allocation: bool,
    platform: String,
}

#[derive(Deserialize, Serialize)]
struct Agreed {
    currency: String,
    commitments: Vec<Committed>,
    budgets: Vec<Budgeted>,
}

#[derive(Deserialize, Serialize)]
struct Committed {
    id: String,
    department: String,
    gpu_model: String,
    mig_profile: Option<String>,
    gpus: u32,
    hourly: Decimal,
    from: u32,
    to: Option<u32>,
    slot: String,
}

#[derive(Deserialize, Serialize)]
struct Budgeted {
    department: String,
    from_month: String,
    monthly: Decimal,
}

const BASES: [(Basis, &str); 3] = [(Basis::Allocated, "allocated"), (Basis::Used, "used"), (Basis::Greater, "greater")];
const SPREADS: [(Spread, &str); 4] = [
    (Spread::Show, "show"),
    (Spread::Proportional, "proportional"),
    (Spread::Even, "even"),
    (Spread::Platform, "platform"),
];
const SLOTS: [(Slot, &str); 2] = [(Slot::Hour, "hour"), (Slot::Minute, "minute")];

fn name<T: PartialEq>(names: &[(T, &'static str)], value: &T) -> String {
    names.iter().find(|(known, _)| known == value).map_or("", |(_, name)| name).to_owned()
}

fn value<T: Copy>(names: &[(T, &'static str)], name: &str) -> Result<T, String> {
    let found = names.iter().find(|(_, known)| *known == name).map(|(value, _)| *value);
    found.ok_or_else(|| {
        format!("{name:?}: expected one of {:?}", names.iter().map(|(_, name)| *name).collect::<Vec<_>>())
    })
}

fn glob(text: &str) -> Result<Glob, String> {
    Glob::parse(text).map_err(|expected| format!("{text:?}: expected {expected}"))
}

fn consumption(name: &str) -> Result<Consumption, String> {
    Consumption::parse(name).ok_or_else(|| format!("{name:?}: expected a consumption model"))
}

/// A price book as a document.
pub fn of_book(book: &PriceBook) -> String {
    let percents = |percents: &[Percentage]| {
        let percent = |percent: &Percentage| Percent {
            name: percent.name.clone(),
            percent: Decimal(percent.percent),
            departments: percent.departments.iter().cloned().collect(),
            valid_from: percent.valid_from,
            valid_to: percent.valid_to,
        };
        percents.iter().map(percent).collect()
    };
    let mut rates = book.rates.clone();
    rates.sort_by(|a, b| a.key().cmp(&b.key()));
    let written = Book {
        currency: book.currency.clone(),
        time_zone: book.time_zone.clone(),
        issuer: book.issuer.clone(),
        decimals: book.decimals,
        rates: rates.into_iter().map(hourly).collect(),
        consumption: book.consumption.iter().map(rule).collect(),
        energy: book.energy.iter().map(tariff).collect(),
        energy_is_a_line: book.energy_is_a_line,
        storage: book.storage.iter().map(storage).collect(),
        network: book.network.iter().map(network).collect(),
        markups: percents(&book.markups),
        taxes: percents(&book.taxes),
        policy: policies(&book.policy),
    };
    text(&written)
}

fn text(document: &impl Serialize) -> String {
    // Nothing in it can fail: its keys are texts, and there are no floats.
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

fn hourly(rate: Rate) -> Hourly {
    Hourly {
        gpu_model: rate.gpu_model,
        mig_profile: rate.mig_profile,
        environment: rate.environment,
        consumption: rate.consumption.map(|model| model.as_str().to_owned()),
        valid_from: rate.valid_from,
        hourly: Decimal(rate.hourly),
        basis: name(&BASES, &rate.basis),
        increment_ms: rate.increment_ms,
        minimum_ms: rate.minimum_ms,
        derivation: rate.derivation,
        source: rate.source,
    }
}

fn rule(rule: &ConsumptionRule) -> Rule {
    let pairs = rule.matches.iter().map(|(name, glob)| (name.clone(), glob.as_str().to_owned()));
    Rule { model: rule.model.as_str().to_owned(), matches: pairs.collect() }
}

fn tariff(energy: &Energy) -> Tariff {
    Tariff {
        valid_from: energy.valid_from,
        nodes: energy.nodes.iter().map(|glob| glob.as_str().to_owned()).collect(),
        tariff: Decimal(energy.tariff),
        pue: Decimal(energy.pue),
        carbon_g_per_kwh: energy.carbon_g_per_kwh.map(Decimal),
        source: energy.source.clone(),
    }
}

fn storage(rate: &StorageRate) -> Bytes {
    Bytes {
        class: rate.class.as_str().to_owned(),
        department: rate.department.clone(),
        project: rate.project.clone(),
        valid_from: rate.valid_from,
        per_gib: Decimal(rate.per_gib_month),
        month_hours: Some(rate.month_hours),
    }
}

fn network(rate: &NetworkRate) -> Bytes {
    Bytes {
        class: rate.class.as_str().to_owned(),
        department: rate.department.clone(),
        project: rate.project.clone(),
        valid_from: rate.valid_from,
        per_gib: Decimal(rate.per_gib),
        month_hours: None,
    }
}

fn policies(policy: &Policy) -> Policies {
    Policies {
        idle: name(&SPREADS, &policy.idle),
        stranded: name(&SPREADS, &policy.stranded),
        unattributed: name(&SPREADS, &policy.unattributed),
        unmetered: name(&SPREADS, &policy.unmetered),
        gaps_to_last_owner: policy.gaps_to_last_owner,
        split_over_allocation: policy.split_over_allocation,
        platform: policy.platform.clone(),
    }
}

/// Reads a price book's document.
///
/// # Errors
/// What is wrong with it.
pub fn to_book(document: &str) -> Result<PriceBook, String> {
    let read: Book = serde_json::from_str(document).map_err(|error| error.to_string())?;
    let percents = |percents: Vec<Percent>| {
        let percent = |percent: Percent| Percentage {
            name: percent.name,
            percent: percent.percent.0,
            departments: percent.departments.into_iter().collect(),
            valid_from: percent.valid_from,
            valid_to: percent.valid_to,
        };
        percents.into_iter().map(percent).collect()
    };
    Ok(PriceBook {
        currency: read.currency,
        time_zone: read.time_zone,
        issuer: read.issuer,
        decimals: read.decimals,
        rates: read.rates.into_iter().map(to_rate).collect::<Result<_, _>>()?,
        consumption: read.consumption.into_iter().map(to_rule).collect::<Result<_, _>>()?,
        energy: read.energy.into_iter().map(to_energy).collect::<Result<_, _>>()?,
        energy_is_a_line: read.energy_is_a_line,
        storage: read.storage.into_iter().map(to_storage).collect::<Result<_, _>>()?,
        network: read.network.into_iter().map(to_network).collect::<Result<_, _>>()?,
        markups: percents(read.markups),
        taxes: percents(read.taxes),
        policy: to_policy(read.policy)?,
    })
}

fn to_rate(rate: Hourly) -> Result<Rate, String> {
    Ok(Rate {
        gpu_model: rate.gpu_model,
        mig_profile: rate.mig_profile,
        environment: rate.environment,
        consumption: rate.consumption.as_deref().map(consumption).transpose()?,
        valid_from: rate.valid_from,
        hourly: rate.hourly.0,
        basis: value(&BASES, &rate.basis)?,
        increment_ms: rate.increment_ms,
        minimum_ms: rate.minimum_ms,
        derivation: rate.derivation,
        source: rate.source,
    })
}

fn to_rule(rule: Rule) -> Result<ConsumptionRule, String> {
    let pairs = rule.matches.into_iter().map(|(name, text)| Ok((name, glob(&text)?)));
    Ok(ConsumptionRule { model: consumption(&rule.model)?, matches: pairs.collect::<Result<_, String>>()? })
}

fn to_energy(energy: Tariff) -> Result<Energy, String> {
    Ok(Energy {
        valid_from: energy.valid_from,
        nodes: energy.nodes.iter().map(|text| glob(text)).collect::<Result<_, _>>()?,
        tariff: energy.tariff.0,
        pue: energy.pue.0,
        carbon_g_per_kwh: energy.carbon_g_per_kwh.map(|carbon| carbon.0),
        source: energy.source,
    })
}

fn to_storage(rate: Bytes) -> Result<StorageRate, String> {
    Ok(StorageRate {
        class: glob(&rate.class)?,
        department: rate.department,
        project: rate.project,
        valid_from: rate.valid_from,
        per_gib_month: rate.per_gib.0,
        month_hours: rate.month_hours.ok_or("a storage rate without month_hours")?,
    })
}

fn to_network(rate: Bytes) -> Result<NetworkRate, String> {
    Ok(NetworkRate {
        class: glob(&rate.class)?,
        department: rate.department,
        project: rate.project,
        valid_from: rate.valid_from,
        per_gib: rate.per_gib.0,
    })
}

fn to_policy(policy: Policies) -> Result<Policy, String> {
    Ok(Policy {
        idle: value(&SPREADS, &policy.idle)?,
        stranded: value(&SPREADS, &policy.stranded)?,
        unattributed: value(&SPREADS, &policy.unattributed)?,
        unmetered: value(&SPREADS, &policy.unmetered)?,
        gaps_to_last_owner: policy.gaps_to_last_owner,
        split_over_allocation: policy.split_over_allocation,
        platform: policy.platform,
    })
}

/// Agreements as a document.
pub fn of_agreements(agreements: &Agreements) -> String {
    let commitment = |commitment: &Commitment| Committed {
        id: commitment.id.clone(),
        department: commitment.department.clone(),
        gpu_model: commitment.gpu_model.clone(),
        mig_profile: commitment.mig_profile.clone(),
        gpus: commitment.gpus,
        hourly: Decimal(commitment.hourly),
        from: commitment.from,
        to: commitment.to,
        slot: name(&SLOTS, &commitment.slot),
    };
    let budget = |budget: &Budget| Budgeted {
        department: budget.department.clone(),
        from_month: budget.from_month.clone(),
        monthly: Decimal(budget.monthly),
    };
    text(&Agreed {
        currency: agreements.currency.clone(),
        commitments: agreements.commitments.iter().map(commitment).collect(),
        budgets: agreements.budgets.iter().map(budget).collect(),
    })
}

/// Reads agreements' document.
///
/// # Errors
/// What is wrong with it.
pub fn to_agreements(document: &str) -> Result<Agreements, String> {
    let read: Agreed = serde_json::from_str(document).map_err(|error| error.to_string())?;
    let commitment = |commitment: Committed| {
        Ok::<_, String>(Commitment {
            id: commitment.id,
            department: commitment.department,
            gpu_model: commitment.gpu_model,
            mig_profile: commitment.mig_profile,
            gpus: commitment.gpus,
            hourly: commitment.hourly.0,
            from: commitment.from,
            to: commitment.to,
            slot: value(&SLOTS, &commitment.slot)?,
        })
    };
    let budget = |budget: Budgeted| Budget {
        department: budget.department,
        from_month: budget.from_month,
        monthly: budget.monthly.0,
    };
    Ok(Agreements {
        currency: read.currency,
        commitments: read.commitments.into_iter().map(commitment).collect::<Result<_, _>>()?,
        budgets: read.budgets.into_iter().map(budget).collect(),
    })
}

/// A directory as a document.
///
/// # Errors
/// When the writer fails, which writing to memory does not.
pub fn of_directory(directory: &Directory) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(file::HEADER)?;
    for (project, from, entry, _) in directory.entries() {
        let until = entry.until.map(|until| date(until).to_string()).unwrap_or_default();
        let from = date(from).to_string();
        writer.write_record([project, &entry.department, &entry.cost_centre, &from, &until])?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a directory's document.
///
/// # Errors
/// What is wrong with it.
pub fn to_directory(document: &str) -> Result<Directory, String> {
    file::parse("directory", document.as_bytes()).map_err(|error| error.to_string())
}
