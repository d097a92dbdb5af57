//! Latencies that others recorded: read from a file, shifted to the recent past, and told by hour; and what would have been
//! told of them by fixed buckets.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

use anyhow::{Context, ensure};

/// Seconds of an hour.
pub const HOUR: u64 = 3_600;

/// Upper bounds in seconds of vLLM's `vllm:e2e_request_latency_seconds`.
pub const VLLM: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];

/// Upper bounds in seconds that OpenTelemetry's conventions advise for `http.server.request.duration`.
pub const OTEL: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// When it ended, whole Unix seconds.
    pub at: u64,
    /// How long it took, milliseconds.
    pub milliseconds: f64,
    /// Which replica answered.
    pub instance: String,
}

/// Reads lines `time,milliseconds,replica` below a header, gzipped.
///
/// # Errors
/// What is wrong, and in which line.
pub fn read(gzipped: impl Read) -> anyhow::Result<Vec<Request>> {
    let mut requests = Vec::new();
    for (index, line) in BufReader::new(flate2::read::GzDecoder::new(gzipped)).lines().enumerate() {
        let line = line.context("inflate the file")?;
        if index == 0 {
            continue;
        }
        let wrong = || format!("line {} is {line:?}, expected seconds,milliseconds,replica", index + 1);
        let mut fields = line.split(',');
        let mut field = || fields.next().with_context(wrong);
        let (at, milliseconds, instance) = (field()?, field()?, field()?);
        let seconds: f64 = at.parse().with_context(wrong)?;
        let milliseconds: f64 = milliseconds.parse().with_context(wrong)?;
        ensure!((0.0..4e9).contains(&seconds) && milliseconds >= 0.0, wrong());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 4e9")]
        requests.push(Request { at: seconds as u64, milliseconds, instance: instance.to_owned() });
    }
    Ok(requests)
}

/// Moves all requests by whole hours, so that the last hour is the one before that of `now`, Unix seconds.
///
/// # Errors
/// There is none.
pub fn shift(requests: &mut [Request], now: u64) -> anyhow::Result<()> {
    let last = requests.iter().map(|request| request.at / HOUR).max().context("no request is in the file")?;
    let wanted = now / HOUR - 1;
    for request in requests {
        request.at = request.at + wanted * HOUR - last * HOUR;
    }
    Ok(())
}

/// Milliseconds by hour and replica.
pub fn by_hour(requests: &[Request]) -> BTreeMap<u64, BTreeMap<&str, Vec<f64>>> {
    let mut hours: BTreeMap<u64, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for Request { at, milliseconds, instance } in requests {
        hours.entry(at / HOUR * HOUR).or_default().entry(instance).or_default().push(*milliseconds);
    }
    hours
}

/// The least of `sorted` values that has a part `q` of them at or below it.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    sorted.get(rank(sorted.len(), q) - 1).copied()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "few values")]
fn rank(n: usize, q: f64) -> usize {
    // A product such as 0.99 × 100 is a little above 99.
    ((q * n as f64 - 1e-9).ceil() as usize).max(1)
}

/// What Prometheus's `histogram_quantile` says of sorted seconds in buckets with these upper bounds: the rank is spread evenly
/// over its bucket, and above the last bound that bound is told
/// (<https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile>).
#[expect(clippy::cast_precision_loss, reason = "few values")]
pub fn interpolated(sorted: &[f64], bounds: &[f64], q: f64) -> Option<f64> {
    let rank = q * sorted.len() as f64;
    let mut before = (0.0, 0.0);
    for bound in bounds {
        let upto = sorted.partition_point(|value| value <= bound) as f64;
        let (lower, below) = before;
        if upto >= rank && upto > 0.0 {
            return Some(lower + (bound - lower) * (rank - below) / (upto - below));
        }
        before = (*bound, upto);
    }
    bounds.last().copied().filter(|_| !sorted.is_empty())
}

/// How far estimates are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Off {
    /// Mean of the distances, as a part of the true value.
    pub mean: f64,
    /// The estimate that is farthest off, less the true value, as a part of it.
    pub worst: f64,
}

/// How far each estimate is from its true value.
#[expect(clippy::cast_precision_loss, reason = "few values")]
pub fn off(pairs: &[(f64, f64)]) -> Off {
    let parts: Vec<f64> = pairs.iter().map(|(estimate, truth)| (estimate - truth) / truth).collect();
    let worst = parts.iter().copied().max_by(|one, other| one.abs().total_cmp(&other.abs())).unwrap_or_default();
    Off { mean: parts.iter().map(|part| part.abs()).sum::<f64>() / parts.len().max(1) as f64, worst }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

    use std::io::Write as _;

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_file_is_read_shifted_and_put_together_by_hour() {
        let text = "t,value,ip\n7199.0,200.5,a\n7200.0,100.0,a\n10799.0,300.0,b\n10000.0,50.0,a\n";
        let mut requests = read(gzip(text).as_slice()).unwrap();
        assert_eq!(requests[0], Request { at: 7_199, milliseconds: 200.5, instance: "a".into() });
        // The last hour of the file, the third, becomes the 99th: the one before the 100th.
        shift(&mut requests, 100 * HOUR + 59).unwrap();
        let hours = by_hour(&requests);
        assert_eq!(hours.keys().copied().collect::<Vec<_>>(), [98 * HOUR, 99 * HOUR]);
        assert_eq!(hours[&(99 * HOUR)], BTreeMap::from([("a", vec![100.0, 50.0]), ("b", vec![300.0])]));
        assert_eq!(requests[1].at, 99 * HOUR);
        let error = read(gzip("t,v,i\n1,2,a\n1,x,a\n").as_slice()).unwrap_err().to_string();
        assert!(error.starts_with("line 3 is \"1,x,a\", expected seconds"), "{error}");
        assert!(shift(&mut [], 1).is_err() && read(gzip("t\n1").as_slice()).is_err() && read(&b"no"[..]).is_err());
    }

    #[test]
    fn ranks_are_those_of_sorting_and_interpolation_is_that_of_prometheus() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| quantile(&sorted, q).unwrap()), [1.0, 50.0, 99.0, 100.0]);
        assert_eq!(quantile(&[], 0.5), None);
        // promtool: histogram_quantile(0.9) of le 1: 2, le 2: 4, le 5: 10 is 2 + 3 × (9 - 4) / 6.
        let values = [0.5, 0.5, 1.5, 1.5, 3.0, 3.0, 3.0, 4.0, 4.0, 4.0];
        assert_eq!(interpolated(&values, &[1.0, 2.0, 5.0], 0.9), Some(4.5));
        // Above the last bound, that is told.
        assert_eq!(interpolated(&values, &[1.0, 2.0], 0.9), Some(2.0));
        assert_eq!(interpolated(&[], &[1.0], 0.9), None);
        assert_eq!(off(&[(1.5, 1.0), (0.25, 1.0)]), Off { mean: 0.625, worst: -0.75 });
    }
}
