//! Puts requests, throughput and held GPUs together: how large the pool of a service has to be, and how large it is.

use contador_schemas::owner::Owner;
use jiff::tz::TimeZone;
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Zero;
use thiserror::Error;

use super::capacity::{HOURS, Needed, Peak, Sizing, needed};
use super::load::{self, Counted, Held, Service};
use super::throughput::{Measured, Missing, Target, WINDOW_S, measure};
use crate::bill::StoreError;
use crate::bill::decimal::ONE;
use crate::bill::facts::Device;
use crate::bill::prices::{Consumption, PriceBook};
use crate::bill::rate::exact::Amount;
use crate::latency;
use crate::store::Store;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Of which service, and when.
    pub service: Service,
    /// Requests a second of one GPU, if they are not to be measured.
    pub per_gpu: Option<BigRational>,
    /// What is to be met, where they are.
    pub target: Option<Target>,
    /// In at least so many windows of five minutes.
    pub least: usize,
    /// What is added to the peak: a part of it, times `10^12`.
    pub headroom: i128,
    /// What counts as the peak.
    pub peak: Peak,
    /// Length of the windows among which the peak is, seconds: it divides [`WINDOW_S`].
    pub window_s: u32,
    /// In which hours of the week are told.
    pub zone: TimeZone,
}

/// How large a pool is, in GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// In the last five minutes in which it held any.
    pub last: BigRational,
    /// Start of these, Unix seconds.
    pub at: i64,
    /// The most, in any five minutes.
    pub most: BigRational,
    /// The model of which it held most.
    pub gpu_model: String,
    /// How many models there were.
    pub models: usize,
}

/// What an hour of a GPU costs on demand, and what that makes of a week: currency units.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// ISO 4217.
    pub currency: String,
    /// Of which model.
    pub gpu_model: String,
    /// As many as now, if any.
    pub now: Option<Amount>,
    /// As many as the peak needs, always.
    pub peak: Amount,
    /// As many as each hour of the week needs.
    pub by_hour: Amount,
}

/// What a service needs.
#[derive(Clone, Debug)]
pub struct Pool {
    /// What was asked.
    pub asked: Asked,
    /// Where requests were counted.
    pub counted: Counted,
    /// First and last instant with traffic, Unix seconds.
    pub seen: (i64, i64),
    /// What a GPU can do, and what is kept free.
    pub sizing: Sizing,
    /// What was measured of that, if it was.
    pub measured: Option<Measured>,
    /// What is needed.
    pub needed: Needed,
    /// What there is; nothing if the service is not known to have held GPUs.
    pub size: Option<Size>,
    /// What it costs, where the book has a price.
    pub cost: Option<Cost>,
    /// Whether some of it was made up.
    pub simulated: bool,
    /// What to know about it, for people.
    pub notes: Vec<String>,
}

/// Why there is no plan.
#[derive(Debug, Error)]
pub enum PoolError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Latencies can't be told.
    #[error(transparent)]
    Latency(#[from] latency::Error),
    /// What a GPU can do is not known.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Neither was asked.
    #[error("what a GPU can do is not told: expected --per-gpu-rps, or --target to measure it")]
    NoThroughput,
    /// There were no requests.
    #[error(
        "--service {service:?}: no requests in this time, expected rows of it in served that count them, or latencies of {metric}{elsewhere}"
    )]
    NoTraffic {
        /// The service.
        service: String,
        /// The metric.
        metric: String,
        /// Services that have latencies, for people.
        elsewhere: String,
    },
}

/// Finds out what a service needs.
///
/// # Errors
/// [`PoolError`].
pub async fn build(store: &Store, asked: Asked, book: Option<&PriceBook>) -> Result<Pool, PoolError> {
    if asked.per_gpu.is_none() && asked.target.is_none() {
        return Err(PoolError::NoThroughput);
    }
    let service = &asked.service;
    let served = load::told(store, service, Counted::Served).await?;
    let counted = if served.counted > 0 { Counted::Served } else { Counted::Latency };
    let told = if counted == Counted::Served { served } else { load::told(store, service, counted).await? };
    let traffic = load::traffic(store, service, counted, asked.window_s).await?;
    let (Some(first), Some(last)) = (traffic.windows.first(), traffic.windows.last()) else {
        return Err(no_traffic(store, service).await?);
    };
    let seen = (first.at, last.at + i64::from(asked.window_s));
    let held = load::held(store, service).await?;
    let measured = match asked.target {
        None => None,
        Some(target) => {
            let by_window = load::traffic(store, service, counted, WINDOW_S).await?;
            let answers = load::answers(store, service, target).await?;
            let measured = measure(&load::windows(&by_window, &held, answers), target, asked.least);
            // Beside what was given, what is not measured is no fault.
            if asked.per_gpu.is_some() { measured.ok() } else { Some(measured?) }
        }
    };
    let per_gpu = asked.per_gpu.clone().or_else(|| measured.as_ref().map(|measured| measured.per_gpu.clone()));
    let sizing = Sizing { per_gpu: per_gpu.unwrap_or_else(BigRational::zero), headroom: asked.headroom };
    let needed = needed(&traffic, &sizing, asked.peak, &asked.zone);
    let size = size(&held);
    let cost =
        book.zip(size.as_ref()).and_then(|(book, size)| cost(book, size, &needed, i64::from(service.to) * 1_000));
    let mut pool = Pool {
        counted,
        seen,
        sizing,
        measured,
        needed,
        size,
        cost,
        simulated: told.simulated,
        notes: Vec::new(),
        asked: asked.clone(),
    };
    pool.note(told.uncounted);
    Ok(pool)
}

async fn no_traffic(store: &Store, service: &Service) -> Result<PoolError, latency::Error> {
    let mut known: Vec<String> = latency::services(store, service.from, service.to)
        .await?
        .into_iter()
        .map(|(name, _)| format!("{name:?}"))
        .collect();
    known.dedup();
    known.truncate(20);
    let elsewhere =
        if known.is_empty() { String::new() } else { format!("; services that have some: {}", known.join(", ")) };
    Ok(PoolError::NoTraffic { service: service.name.clone(), metric: service.metric.clone(), elsewhere })
}

/// How large the pool is.
fn size(held: &Held) -> Option<Size> {
    let gpus = |held: i128| BigRational::new(held.into(), BigInt::from(WINDOW_S) * 1_000 * ONE);
    let at = |window: i64| -> i128 { held.values().filter_map(|of_model| of_model.get(&window)).sum() };
    let windows = || held.values().flat_map(|of_model| of_model.keys().copied());
    let last = windows().max()?;
    let (gpu_model, _) = held.iter().max_by_key(|(_, of_model)| of_model.values().sum::<i128>())?;
    Some(Size {
        last: gpus(at(last)),
        at: last,
        most: gpus(windows().map(at).max()?),
        gpu_model: gpu_model.clone(),
        models: held.len(),
    })
}

fn cost(book: &PriceBook, size: &Size, needed: &Needed, at_ms: i64) -> Option<Cost> {
    let device = Device { gpu_model: size.gpu_model.clone(), ..Device::default() };
    let hourly = book.rate(&device, &Owner::default(), Some(Consumption::TimeSharing), at_ms)?.hourly;
    let week = BigInt::from(hourly) * HOURS;
    let of = |hours: BigInt| Amount::new(hours * hourly, &ONE.into());
    Some(Cost {
        currency: book.currency.clone(),
        gpu_model: size.gpu_model.clone(),
        now: Some(Amount::new(week * size.last.numer(), &(size.last.denom() * ONE))),
        peak: of(BigInt::from(needed.gpus) * HOURS),
        by_hour: of(needed.week().into()),
    })
}

impl Pool {
    fn note(&mut self, uncounted: u64) {
        let mut note = |note: String| self.notes.push(note);
        if uncounted > 0 {
            note(format!("{uncounted} rows of this service count no requests: the peaks may be higher"));
        }
        if let Some(measured) = self.measured.as_ref().filter(|measured| measured.missed == 0) {
            note(format!(
                "no window missed the target ({} met it): a GPU may bear more than it ever had to",
                measured.met
            ));
        }
        if let Some(below) = self.measured.as_ref().map(|measured| measured.missed_below).filter(|below| *below > 0) {
            note(format!("{below} windows with no more requests a GPU missed the target: something else slowed them"));
        }
        if let Some(size) = self.size.as_ref().filter(|size| size.models > 1) {
            note(format!("GPUs of {} models are counted alike; most are {}", size.models, size.gpu_model));
        }
        if self.needed.by_hour.iter().any(Option::is_none) {
            note("not every hour of the week had traffic: those without are taken for the peak".to_owned());
        }
        if self.asked.window_s < WINDOW_S && self.seen.1 - self.seen.0 < 7 * 86_400 {
            note("less than a week of traffic: peaks of other days are not in it".to_owned());
        }
    }

    /// GPUs held now above those needed; `None` if it is not known how many are held.
    pub fn over(&self) -> Option<BigRational> {
        self.size.as_ref().map(|size| &size.last - BigRational::from(BigInt::from(self.needed.gpus)))
    }
}
