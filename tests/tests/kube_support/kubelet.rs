//! The kubelet's pod-resources API on a socket.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use contador_agent::owners::kubernetes::messages::{
    ALLOCATABLE, AllocatableResourcesRequest, AllocatableResourcesResponse, CdiDevice, ClaimResource, ContainerDevices,
    ContainerResources, DynamicResource, LIST, ListPodResourcesRequest, ListPodResourcesResponse, PodResources,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// A pod as a file has it.
#[derive(Clone, Deserialize)]
pub struct ListedPod {
    namespace: String,
    name: String,
    containers: Vec<ListedContainer>,
}

#[derive(Clone, Deserialize)]
struct ListedContainer {
    name: String,
    #[serde(default)]
    devices: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    claims: Vec<ListedClaim>,
}

#[derive(Clone, Deserialize)]
struct ListedClaim {
    driver: String,
    pool: String,
    device: String,
    cdi: Vec<String>,
}

/// How a kubelet answers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Manner {
    /// As it should.
    #[default]
    Well,
    /// Never.
    Never,
    /// What can be given: never. All else as it should.
    Partly,
    /// What is no list of pods.
    Garbage,
    /// That it has failed.
    Failing,
    /// As before 1.23: it does not know what can be given.
    Old,
}

#[derive(Default)]
struct State {
    manner: Mutex<Manner>,
    list: Mutex<ListPodResourcesResponse>,
    allocatable: Mutex<AllocatableResourcesResponse>,
    calls: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
}

/// A kubelet. It ends with this.
pub struct Kubelet {
    dir: TempDir,
    state: Arc<State>,
    /// A runtime of its own, so that its connections end with it.
    server: Mutex<Option<Runtime>>,
}

impl Kubelet {
    pub fn start(allocatable: &BTreeMap<String, Vec<String>>) -> Self {
        let kubelet = Self { dir: super::socket_dir(), state: Arc::default(), server: Mutex::default() };
        kubelet.state.allocatable.lock().unwrap().devices = allocatable.iter().map(devices).collect();
        kubelet.up();
        kubelet
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("kubelet.sock")
    }

    /// Listens, on a socket of its own as after each start.
    pub fn up(&self) {
        self.down();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (path, lister) = (self.socket(), Lister(Arc::clone(&self.state)));
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(path).unwrap()
        };
        let incoming = futures::stream::unfold(listener, |listener| async {
            let stream = listener.accept().await.map(|(stream, _)| stream);
            Some((stream, listener))
        });
        let serving = Server::builder().add_service(lister).serve_with_incoming(Box::pin(incoming));
        runtime.spawn(serving.map(|ended| ended.unwrap()));
        *self.server.lock().unwrap() = Some(runtime);
    }

    /// Its process ends, and its socket with it.
    pub fn down(&self) {
        if let Some(server) = self.server.lock().unwrap().take() {
            server.shutdown_background();
        }
        let _ = std::fs::remove_file(self.socket());
    }

    pub fn answer(&self, manner: Manner) {
        *self.state.manner.lock().unwrap() = manner;
    }

    /// What it lists from now on.
    pub fn list(&self, pods: &[ListedPod]) {
        self.state.list.lock().unwrap().pod_resources = pods.iter().map(pod).collect();
    }

    /// The same, as messages.
    pub fn list_messages(&self, pods: Vec<PodResources>) {
        self.state.list.lock().unwrap().pod_resources = pods;
    }

    /// How many calls there were.
    pub fn calls(&self) -> usize {
        self.state.calls.load(Ordering::SeqCst)
    }

    /// How many calls were open at a time, at most.
    pub fn most_open(&self) -> usize {
        self.state.most_open.load(Ordering::SeqCst)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.down();
    }
}

fn devices((resource, ids): (&String, &Vec<String>)) -> ContainerDevices {
    ContainerDevices { resource_name: resource.clone(), device_ids: ids.clone() }
}

/// Each in a message of its own, as a kubelet tells what a container has.
fn devices_alone((resource, ids): (&String, &Vec<String>)) -> Vec<ContainerDevices> {
    ids.iter().map(|id| ContainerDevices { resource_name: resource.clone(), device_ids: vec![id.clone()] }).collect()
}

fn pod(pod: &ListedPod) -> PodResources {
    let claim = |claim: &ListedClaim| DynamicResource {
        claim_name: "claim".into(),
        claim_namespace: pod.namespace.clone(),
        claim_resources: vec![ClaimResource {
            cdi_devices: claim.cdi.iter().map(|name| CdiDevice { name: name.clone() }).collect(),
            driver_name: claim.driver.clone(),
            pool_name: claim.pool.clone(),
            device_name: claim.device.clone(),
        }],
    };
    let container = |container: &ListedContainer| ContainerResources {
        name: container.name.clone(),
        devices: container.devices.iter().flat_map(devices_alone).collect(),
        dynamic_resources: container.claims.iter().map(claim).collect(),
    };
    PodResources {
        name: pod.name.clone(),
        namespace: pod.namespace.clone(),
        containers: pod.containers.iter().map(container).collect(),
    }
}

/// The service, as generated code would have it.
#[derive(Clone)]
struct Lister(Arc<State>);

impl NamedService for Lister {
    const NAME: &'static str = "v1.PodResourcesLister";
}

impl Service<http::Request<Body>> for Lister {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let state = Arc::clone(&self.0);
        let manner = *state.manner.lock().unwrap();
        Box::pin(async move {
            state.calls.fetch_add(1, Ordering::SeqCst);
            let _open = Open::new(&state);
            let path = request.uri().path().to_owned();
            match manner {
                Manner::Never => std::future::pending().await,
                Manner::Partly if path == ALLOCATABLE => std::future::pending().await,
                Manner::Failing => {
                    let codec = ProstCodec::<ListPodResourcesResponse, ListPodResourcesRequest>::default();
                    let fails = Answer(|_: ListPodResourcesRequest| Err(Status::internal("checkpoint is corrupt")));
                    Ok(Grpc::new(codec).unary(fails, request).await)
                }
                // A string is where a pod should be.
                Manner::Garbage => {
                    let codec = ProstCodec::<CdiDevice, ListPodResourcesRequest>::default();
                    let garbage = Answer(|_: ListPodResourcesRequest| Ok(CdiDevice { name: "garbage".into() }));
                    Ok(Grpc::new(codec).unary(garbage, request).await)
                }
                Manner::Well | Manner::Old | Manner::Partly if path == LIST => {
                    let mut list = state.list.lock().unwrap().clone();
                    turn(&mut list, state.calls.load(Ordering::SeqCst));
                    let codec = ProstCodec::<ListPodResourcesResponse, ListPodResourcesRequest>::default();
                    let lists = Answer(move |_: ListPodResourcesRequest| Ok(list.clone()));
                    Ok(Grpc::new(codec).unary(lists, request).await)
                }
                Manner::Well if path == ALLOCATABLE => {
                    let all = state.allocatable.lock().unwrap().clone();
                    let codec = ProstCodec::<AllocatableResourcesResponse, AllocatableResourcesRequest>::default();
                    let lists = Answer(move |_: AllocatableResourcesRequest| Ok(all.clone()));
                    Ok(Grpc::new(codec).unary(lists, request).await)
                }
                Manner::Well | Manner::Old | Manner::Partly => Ok(Status::unimplemented("unknown method").into_http()),
            }
        })
    }
}

/// Another order each time, of pods and of what a container has.
fn turn(list: &mut ListPodResourcesResponse, by: usize) {
    let pods = &mut list.pod_resources;
    let first = by % pods.len().max(1);
    pods.rotate_left(first);
    for container in pods.iter_mut().flat_map(|pod| &mut pod.containers) {
        let (devices, claims) = (&mut container.devices, &mut container.dynamic_resources);
        let (device, claim) = (by % devices.len().max(1), by % claims.len().max(1));
        devices.rotate_left(device);
        claims.rotate_left(claim);
    }
}

/// A call, until it is answered or given up.
struct Open(Arc<State>);

impl Open {
    fn new(state: &Arc<State>) -> Self {
        let open = state.open.fetch_add(1, Ordering::SeqCst) + 1;
        state.most_open.fetch_max(open, Ordering::SeqCst);
        Self(Arc::clone(state))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Answer<F>(F);

impl<Q, A, F: FnMut(Q) -> Result<A, Status>> UnaryService<Q> for Answer<F>
where
    A: Send + 'static,
{
    type Response = A;
    type Future = BoxFuture<'static, Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let answer = (self.0)(request.into_inner()).map(Response::new);
        Box::pin(async move { answer })
    }
}
