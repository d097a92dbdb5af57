//! Sending: one request at a time, the oldest first, records before samples.
//!
//! What waits goes out in as few requests as fit ([`MAX_BATCH_BYTES`]). While the collector is away, attempts are spread
//! out; at the first success the rest follows without waiting. A request that is refused for good is sent again record
//! by record, and only those that are refused by themselves are set aside.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use super::answer::{self, Answer, Cause};
use super::keeper::Keeper;
use super::pack;
use super::queue::{Batch, SpoolError};
use super::spool::Lane;
use super::wire::{self, Wire};
use crate::config::Compression;
use crate::errors::chain;
use crate::jitter::jittered;
use crate::telemetry::Telemetry;

/// Most bytes that one request is made of, before compression; a single greater record goes alone.
pub const MAX_BATCH_BYTES: usize = 1 << 20;

/// Most records that one request is made of.
pub const MAX_BATCH_RECORDS: usize = 512;

/// Longest wait between attempts, unless the collector asks for more.
pub const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Longest wait between attempts to reach a collector that does not answer at all.
const MAX_RECONNECT: Duration = Duration::from_secs(5);

/// Longest wait that a collector can ask for.
const MAX_ASKED: Duration = Duration::from_secs(300);

/// After so many failures that may be a record's fault, it counts as refused.
const MAX_SUSPICIONS: u32 = 8;

/// Where to send.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The collector.
    pub endpoint: Endpoint,
    /// How requests are compressed, if the collector takes that.
    pub compression: Compression,
}

/// Sends until `closing` is cancelled and then until the spool is empty or an attempt fails. Never fails: what can't be
/// sent stays in the spool.
pub async fn run(keeper: Keeper, destination: Destination, telemetry: Telemetry, closing: CancellationToken) {
    let mut sender = Sender {
        wire: Wire::new(destination.endpoint.connect_lazy()),
        compression: destination.compression,
        keeper,
        telemetry,
        failures: 0,
        suspicions: 0,
        singly: 0,
        following: None,
    };
    loop {
        let wait = match sender.step().await {
            Ok(Step::Sent) => continue,
            // What has come since it was looked, is sent still.
            Ok(Step::Nothing) if closing.is_cancelled() => match sender.keeper.is_empty().await {
                Ok(false) => continue,
                Ok(true) | Err(_) => return,
            },
            Ok(Step::Nothing) => {
                tokio::select! {
                    () = sender.keeper.more() => {}
                    () = closing.cancelled() => {}
                }
                continue;
            }
            Ok(Step::Failed(wait)) => wait,
            Err(error) => {
                sender.failures = sender.failures.saturating_add(1);
                if sender.failures.is_power_of_two() {
                    tracing::error!(error = chain(&error), attempts = sender.failures, "cannot use the spool");
                }
                jittered(backoff(sender.failures, MAX_BACKOFF))
            }
        };
        if closing.is_cancelled() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = closing.cancelled() => {}
        }
    }
}

enum Step {
    /// Something left the spool.
    Sent,
    /// There is nothing to send.
    Nothing,
    /// Wait for so long before the next attempt.
    Failed(Duration),
}

struct Sender {
    wire: Wire,
    compression: Compression,
    keeper: Keeper,
    telemetry: Telemetry,
    failures: u32,
    suspicions: u32,
    /// How many records are still to be sent one by one.
    singly: usize,
    /// What was found behind the last request, when that was looked at with it.
    following: Option<Option<(Lane, Batch)>>,
}

impl Sender {
    async fn step(&mut self) -> Result<Step, SpoolError> {
        let next = match self.following.take() {
            Some(following) => following,
            None => self.keeper.peek(self.most(), MAX_BATCH_BYTES).await?,
        };
        let Some((lane, mut batch)) = next else { return Ok(Step::Nothing) };
        batch.hold_to(MAX_BATCH_BYTES, |record| pack::plain_len(&record.payload));
        match self.ask(&batch).await {
            Answer::Accepted { rejected_points, message } => {
                self.count("accepted");
                if rejected_points > 0 {
                    self.telemetry.rejected_points.inc_by(rejected_points);
                    tracing::warn!(rejected_points, message, "the collector refused points");
                }
                for record in &batch.records {
                    self.telemetry.sent.with_label_values(&[record.kind.as_str()]).inc();
                }
                if self.failures > 0 {
                    tracing::info!(attempts = self.failures, "the collector answers again");
                }
                (self.failures, self.suspicions) = (0, 0);
                self.done(lane, &batch).await?;
                Ok(Step::Sent)
            }
            Answer::Later { after, cause, reason } => {
                self.count("later");
                if cause == Cause::Compression && self.compression != Compression::None {
                    self.compression = self.compression.simpler();
                    tracing::warn!(reason, next = self.compression.as_str(), "the collector lacks the compression");
                    return Ok(Step::Sent);
                }
                if cause == Cause::Suspect {
                    self.suspicions += 1;
                    if self.suspicions >= MAX_SUSPICIONS || !wire::is_request(&batch.records) {
                        return self.refused(lane, batch, &reason).await;
                    }
                }
                self.failures = self.failures.saturating_add(1);
                // The first failure, and then fewer and fewer.
                if self.failures.is_power_of_two() {
                    tracing::warn!(reason, attempts = self.failures, "cannot send, keeping what there is");
                }
                let most = if cause == Cause::Connection { MAX_RECONNECT } else { MAX_BACKOFF };
                let wait = jittered(backoff(self.failures, most));
                Ok(Step::Failed(after.map_or(wait, |after| after.min(MAX_ASKED).max(wait.min(after)))))
            }
            Answer::Refused(reason) => self.refused(lane, batch, &reason).await,
        }
    }

    /// Sends one request made of the whole batch.
    async fn ask(&mut self, batch: &Batch) -> Answer {
        answer::of(self.wire.export(self.compression, &batch.records).await)
    }

    async fn refused(&mut self, lane: Lane, batch: Batch, reason: &str) -> Result<Step, SpoolError> {
        self.count("refused");
        self.suspicions = 0;
        if batch.records.len() > 1 {
            self.singly = batch.records.len();
            return Ok(Step::Sent);
        }
        for record in &batch.records {
            let kind = record.kind.as_str();
            tracing::error!(kind, bytes = record.payload.len(), reason, "the collector refuses a record, set aside");
            self.telemetry.dropped.with_label_values(&[kind, "refused"]).inc();
            self.keeper.reject(record.clone()).await?;
        }
        self.done(lane, &batch).await?;
        Ok(Step::Sent)
    }

    async fn done(&mut self, lane: Lane, batch: &Batch) -> Result<(), SpoolError> {
        self.singly = self.singly.saturating_sub(batch.records.len());
        if let Some(&end) = batch.ends.last() {
            let following = self.keeper.acknowledge_and_peek(lane, end, self.most(), MAX_BATCH_BYTES).await?;
            self.following = Some(following);
        }
        Ok(())
    }

    /// Most records of the next request.
    fn most(&self) -> usize {
        if self.singly > 0 { 1 } else { MAX_BATCH_RECORDS }
    }

    fn count(&self, result: &str) {
        self.telemetry.requests.with_label_values(&[result]).inc();
    }
}

/// Half a second, doubled with each failure, up to `most`.
fn backoff(failures: u32, most: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    Duration::from_millis(500).saturating_mul(1 << doublings).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let waits: Vec<u128> = (1..=9).map(|failures| backoff(failures, MAX_BACKOFF).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
    }
}
