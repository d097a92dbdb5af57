//! The kubelet's pod-resources API, over its socket: asked one call at a time, with a limit on time and size.

use std::error::Error as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::allocation::{Allocation, Resources};
use super::lists::Lists;
use super::messages::{
    ALLOCATABLE, AllocatableResourcesRequest, AllocatableResourcesResponse, LIST, ListPodResourcesRequest,
    RawListPodResourcesResponse,
};
use super::outage::{Backoff, Outage};
use crate::run::clock::now_ms;

/// How long the kubelet may take for one question.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How long it may take to tell into which replicas devices are cut: its list does not wait for that.
const REPLICAS_TIMEOUT: Duration = Duration::from_secs(1);

/// Greatest answer in bytes, which is what the kubelet's own clients take.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// How often the kubelet is asked for the replicas of its devices without need.
const REPLICAS_EVERY: Duration = Duration::from_secs(60);

/// Longest wait after a failure.
const MAX_WAIT: Duration = Duration::from_secs(8);

/// What the kubelet told last.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Who was given what.
    pub allocations: Arc<Vec<Allocation>>,
    /// When that was told: for measuring its age, and in Unix milliseconds.
    pub told: Option<(Instant, i64)>,
    /// Why it could not be told again.
    pub outage: Option<Outage>,
}

/// A connection to the kubelet, made when it is needed.
#[derive(Debug)]
struct Kubelet {
    channel: Channel,
    lists: Lists,
    /// When the replicas were asked for; an answer that there are none to be told counts, too.
    replicas_at: Option<Instant>,
}

/// Asks the kubelet at `socket` every `interval`, for ever, and tells `listing` what it says. After failures it waits longer.
pub async fn follow(socket: &Path, resources: Resources, interval: Duration, listing: watch::Sender<Listing>) {
    let mut kubelet = match Kubelet::new(socket, resources) {
        Ok(kubelet) => kubelet,
        Err(fault) => {
            listing.send_modify(|listing| listing.outage = Some(Outage::now(fault)));
            return;
        }
    };
    let mut backoff = Backoff::new(interval, MAX_WAIT.max(interval));
    loop {
        let began = Instant::now();
        let answer = match tokio::time::timeout(TIMEOUT, kubelet.ask()).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
        let wait = match answer {
            Ok(allocations) => {
                backoff.reset();
                listing.send_modify(|listing| {
                    listing.allocations = allocations;
                    listing.told = Some((Instant::now(), now_ms()));
                    listing.outage = None;
                });
                interval.saturating_sub(began.elapsed())
            }
            Err(reason) => {
                let reason = format!("kubelet at {}: {reason}", socket.display());
                listing.send_modify(|listing| Outage::go_on(&mut listing.outage, reason));
                backoff.wait()
            }
        };
        tokio::time::sleep(wait).await;
    }
}

impl Kubelet {
    fn new(socket: &Path, resources: Resources) -> Result<Self, String> {
        let unusable = |reason: &str| format!("kubelet at {}: {reason}, expected a socket's path", socket.display());
        let path = socket.to_str().ok_or_else(|| unusable("not UTF-8"))?;
        let endpoint = Endpoint::from_shared(format!("unix:{path}")).map_err(|error| unusable(&error.to_string()))?;
        let channel = endpoint.connect_timeout(TIMEOUT).connect_lazy();
        Ok(Self { channel, lists: Lists::new(resources), replicas_at: None })
    }

    async fn ask(&mut self) -> Result<Arc<Vec<Allocation>>, String> {
        let list: RawListPodResourcesResponse =
            self.call(LIST, ListPodResourcesRequest {}).await.map_err(|status| say(&status))?;
        self.lists.take(list)?;
        let age = self.replicas_at.map(|at| at.elapsed());
        // A device may be new; but a kubelet that does not know its replicas is not asked at each tick.
        let is_asked =
            |age: Duration| age < REPLICAS_EVERY && !(age >= REPLICAS_EVERY / 10 && self.lists.wants_replicas());
        if age.is_some_and(is_asked) {
            return Ok(Arc::clone(self.lists.allocations()));
        }
        self.replicas_at = Some(Instant::now());
        let answer = self.call::<_, AllocatableResourcesResponse>(ALLOCATABLE, AllocatableResourcesRequest {});
        let answer = tokio::time::timeout(REPLICAS_TIMEOUT, answer).await;
        match answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("it takes too long"))) {
            Ok(answer) => self.lists.learn(&answer)?,
            // Kubelets before 1.23 don't have it; shares are even then.
            Err(status) if status.code() == Code::Unimplemented => {}
            Err(status) => tracing::debug!(reason = say(&status), "the kubelet did not tell its devices"),
        }
        Ok(Arc::clone(self.lists.allocations()))
    }

    async fn call<Q, A>(&mut self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut client = Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let path = PathAndQuery::from_static(path);
        Ok(client.unary(Request::new(question), path, ProstCodec::<Q, A>::default()).await?.into_inner())
    }
}

/// A status as a text, with the cause that is behind it.
fn say(status: &Status) -> String {
    let mut cause = status.source();
    while let Some(next) = cause.and_then(|cause| cause.source()) {
        cause = Some(next);
    }
    match cause.map(ToString::to_string).filter(|cause| *cause != status.message()) {
        Some(cause) => format!("{} ({cause})", status.message()),
        None => format!("{} ({:?})", status.message(), status.code()),
    }
}
