//! `contador plan capacity`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use contador_schemas::quantile::Quantile;
use num_bigint::BigInt;
use num_rational::BigRational;

use super::super::{Failure, print, usage};
use super::{book, exact, percentage, write};
use crate::bill::decimal::ONE;
use crate::bill::period;
use crate::bill::plan::capacity::Peak;
use crate::bill::plan::load::Service;
use crate::bill::plan::pool::{self, Asked, PoolError};
use crate::bill::plan::throughput::{Target, WINDOW_S};
use crate::latency::read;
use crate::store::StoreArgs;
use crate::store::watch::chain;

/// What is said below the flags.
const ABOUT: &str = "GPUs = peak × (1 + headroom) / requests a second of one GPU, rounded up. Without --per-gpu-rps, what a GPU can do is \
                     measured: the most requests a second and held GPU at which the target was met.";

/// Arguments of `contador plan capacity`.
#[derive(clap::Args, Debug)]
#[command(after_help = ABOUT)]
pub struct Args {
    /// Service (service.name)
    #[arg(long, value_name = "NAME")]
    service: String,
    /// Only requests of this machine-learning model
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    model: String,
    /// What is timed, for the target; and counted, where requests are not
    #[arg(long, value_name = "NAME", default_value = "request_duration")]
    metric: String,
    /// How far back to look: a number and s, m, h or d
    #[arg(long, value_name = "DURATION", default_value = "28d", value_parser = read::duration, conflicts_with = "from")]
    last: u32,
    /// From when: such as 2026-11-30T12:00:00Z, or Unix seconds; times are widened to whole five minutes
    #[arg(long, value_name = "TIME", value_parser = read::from)]
    from: Option<u32>,
    /// Until when [default: the last whole five minutes]
    #[arg(long, value_name = "TIME", value_parser = read::to)]
    to: Option<u32>,
    /// Requests a second that one GPU can do
    #[arg(long, value_name = "RATE", value_parser = exact)]
    per_gpu_rps: Option<i128>,
    /// What must be met where that is measured, such as p99=200ms or p95=50ms
    #[arg(long, value_name = "QUANTILE=TIME", value_parser = target)]
    target: Option<Target>,
    /// Fewest windows of five minutes that must have met it
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    least_windows: u32,
    /// What is added to the peak
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = percentage)]
    headroom: i128,
    /// What counts as the peak: max, or a quantile of the windows such as p99.9
    #[arg(long, value_name = "PEAK", default_value = "max", value_parser = peak)]
    peak: Peak,
    /// Length of the windows among which the peak is: 10s, or a whole part of 5m
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = window)]
    window: u32,
    /// Time zone of the hours of the week
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// Price by the book in this file instead of by the one in the store
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// For machines: one JSON object
    #[arg(long)]
    json: bool,
    /// Draw the hours of the week to this file
    #[arg(long, value_name = "FILE.svg")]
    chart: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

/// A quantile such as `p99.9`.
fn quantile(text: &str) -> Option<Quantile> {
    let percent = exact(text.strip_prefix('p')?).ok()?;
    let ppm = percent.checked_mul(10_000)? / ONE;
    // At most four digits after the point are told.
    if ppm * ONE != percent * 10_000 || ppm == 0 || ppm >= 1_000_000 {
        return None;
    }
    Quantile::from_ppm(u32::try_from(ppm).ok()?)
}

fn target(text: &str) -> Result<Target, String> {
    let expected = || format!("{text:?}, expected a quantile, =, and a time in us, ms or s, such as p99=200ms");
    let (name, time) = text.split_once('=').ok_or_else(expected)?;
    let quantile = quantile(name).ok_or_else(expected)?;
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((time.strip_suffix(name)?, unit))).ok_or_else(expected)?;
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = number
        .parse::<f64>()
        .ok()
        .filter(|number| plain && *number > 0.0 && number.is_finite())
        .ok_or_else(expected)?;
    Ok(Target { quantile, us: number * unit })
}

fn peak(text: &str) -> Result<Peak, String> {
    if text == "max" {
        return Ok(Peak::Greatest);
    }
    quantile(text).map(Peak::Quantile).ok_or_else(|| format!("{text:?}, expected max, or a quantile such as p99.9"))
}

fn window(text: &str) -> Result<u32, String> {
    let seconds = read::duration(text)?;
    if seconds >= 10 && WINDOW_S.is_multiple_of(seconds) {
        return Ok(seconds);
    }
    Err(format!("{text:?}, expected 10s or more, of which 5m are a multiple, such as 10s, 30s or 1m"))
}

impl Args {
    fn asked(&self) -> Result<Asked, Failure> {
        let now = u32::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
        let to = self.to.map_or(now - now % WINDOW_S, |to| to.div_ceil(WINDOW_S).saturating_mul(WINDOW_S));
        let from = self.from.unwrap_or_else(|| to.saturating_sub(self.last));
        let from = from - from % WINDOW_S;
        if from >= to {
            return Err(usage(format!("--to {to}: expected a time after from, which is {from}")));
        }
        if self.per_gpu_rps == Some(0) {
            return Err(usage("--per-gpu-rps 0: expected more than nothing"));
        }
        Ok(Asked {
            service: Service {
                name: self.service.clone(),
                model: self.model.clone(),
                metric: self.metric.clone(),
                from,
                to,
            },
            per_gpu: self.per_gpu_rps.map(|rate| BigRational::new(rate.into(), BigInt::from(ONE))),
            target: self.target,
            least: usize::try_from(self.least_windows)?,
            headroom: self.headroom,
            peak: self.peak,
            window_s: self.window,
            zone: period::zone(&self.time_zone).map_err(usage)?,
        })
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let asked = args.asked()?;
    let store = args.store.open()?;
    let pool = super::super::runtime()?.block_on(async {
        let book = book(&store, args.prices.as_ref()).await?;
        pool::build(&store, asked, book.as_ref()).await.map_err(|error| match error {
            PoolError::NoThroughput | PoolError::NoTraffic { .. } => usage(error),
            // The client's errors repeat their sources.
            error => Failure::Running(anyhow::anyhow!(chain(&error))),
        })
    })?;
    if let Some(path) = &args.chart {
        write(path, &pool.to_svg())?;
    }
    print(&if args.json {
        serde_json::to_string_pretty(&pool.to_json())?
    } else {
        pool.to_text().trim_end().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_peaks_and_windows_are_read() {
        assert_eq!(target("p95=50ms"), Ok(Target { quantile: Quantile::P95, us: 50_000.0 }));
        assert_eq!(target("p99.9=1.5s"), Ok(Target { quantile: Quantile::P999, us: 1.5e6 }));
        for bad in ["", "p99", "99=1s", "p100=1s", "p0=1s", "p99=1", "p99=-1s", "p99=0ms", "p99=1e3ms", "p99.99999=1s"]
        {
            assert!(target(bad).is_err(), "{bad}");
        }
        assert_eq!(peak("p99.9"), Ok(Peak::Quantile(Quantile::P999)));
        assert!(peak("mean").is_err());
        assert_eq!((window("10s"), window("1m"), window("5m")), (Ok(10), Ok(60), Ok(300)));
        assert!(["7s", "1s", "10m", "1h"].into_iter().all(|bad| window(bad).is_err()));
    }
}
