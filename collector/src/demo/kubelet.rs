//! A kubelet that is none: over the kubelet's own API, on a socket, it tells that pods were given simulated GPUs. No container
//! runs.
//!
//! Source of the messages: `k8s.io/kubelet/pkg/apis/podresources/v1/api.proto` of Kubernetes, service `PodResourcesLister`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::task::{Context, Poll};

use anyhow::Context as _;
use prost::Message as _;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;

use crate::ingest::receive::grpc;

/// A pod with one container.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod {
    pub(super) namespace: &'static str,
    pub(super) name: &'static str,
    pub(super) resource: &'static str,
    /// What it was given, as device plugins write it: `nvidia<minor>`, `nvidia<minor>/gi<n>`, `nvidia<minor>/vgpu<n>`.
    pub(super) device: &'static str,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ListPodResourcesResponse {
    #[prost(message, repeated, tag = "1")]
    pods: Vec<PodResources>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PodResources {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(message, repeated, tag = "3")]
    containers: Vec<ContainerResources>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainerResources {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    devices: Vec<ContainerDevices>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ContainerDevices {
    #[prost(string, tag = "1")]
    resource: String,
    #[prost(string, repeated, tag = "2")]
    ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AllocatableResourcesResponse {
    #[prost(message, repeated, tag = "1")]
    devices: Vec<ContainerDevices>,
}

/// Listens until it is dropped.
pub(super) struct Kubelet {
    folder: TempDir,
    _stop: DropGuard,
}

impl Kubelet {
    /// Tells of these pods, and that devices could be given as `allocatable` (resource and id) says.
    pub(super) fn start(pods: &[Pod], allocatable: &[(&str, &str)]) -> anyhow::Result<Self> {
        // A folder of its own: the path of a socket must be short.
        let folder = tempfile::Builder::new().prefix("contador-").tempdir().context("make a temporary directory")?;
        let socket = folder.path().join("kubelet.sock");
        let listener = UnixListener::bind(&socket).with_context(|| format!("listen on {}", socket.display()))?;
        let stop = CancellationToken::new();
        let serving = tonic::transport::Server::builder()
            .add_service(Lister::new(pods, allocatable))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop.clone().cancelled_owned());
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the demo's kubelet stopped");
            }
        });
        Ok(Self { folder, _stop: stop.drop_guard() })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("kubelet.sock")
    }
}

#[derive(Clone)]
struct Lister {
    list: Vec<u8>,
    allocatable: Vec<u8>,
}

impl Lister {
    fn new(pods: &[Pod], allocatable: &[(&str, &str)]) -> Self {
        let devices = |resource: &str, id: &str| {
            vec![ContainerDevices { resource: resource.to_owned(), ids: vec![id.to_owned()] }]
        };
        let pods = pods.iter().map(|pod| PodResources {
            name: pod.name.to_owned(),
            namespace: pod.namespace.to_owned(),
            containers: vec![ContainerResources {
                name: "main".to_owned(),
                devices: devices(pod.resource, pod.device),
            }],
        });
        let devices = allocatable.iter().flat_map(|(resource, id)| devices(resource, id)).collect();
        Self {
            list: ListPodResourcesResponse { pods: pods.collect() }.encode_to_vec(),
            allocatable: AllocatableResourcesResponse { devices }.encode_to_vec(),
        }
    }
}

impl NamedService for Lister {
    const NAME: &'static str = "v1.PodResourcesLister";
}

impl tower::Service<http::Request<Body>> for Lister {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    /// The questions have nothing in them.
    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        std::future::ready(Ok(match request.uri().path() {
            "/v1.PodResourcesLister/List" => grpc::success(&self.list),
            "/v1.PodResourcesLister/GetAllocatableResources" => grpc::success(&self.allocatable),
            _ => Status::unimplemented("expected List or GetAllocatableResources").into_http(),
        }))
    }
}
