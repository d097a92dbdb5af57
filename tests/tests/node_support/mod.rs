//! A node whose ticks are driven by hand, on the simulator and on a kernel that is a folder; its spool is read by hand.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it, and a fault here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use contador_agent::config::{Config, Overrides};
use contador_agent::http::Health;
use contador_agent::outbox::Keeper;
use contador_agent::outbox::pack::plain;
use contador_agent::run::Options;
use contador_agent::run::node::Node;
use contador_agent::sensors::NvmlLibrary;
use contador_agent::telemetry::Telemetry;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Text;
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use prost::Message as _;
use tempfile::TempDir;

/// A folder that stands for `/proc`.
pub struct Kernel(TempDir);

impl Kernel {
    pub fn new() -> Self {
        let kernel = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(kernel.path().join("sys/kernel")).unwrap();
        kernel.version("6.1.0-test");
        kernel
    }

    pub fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    pub fn version(&self, version: &str) {
        fs::write(self.path().join("sys/kernel/osrelease"), format!("{version}\n")).unwrap();
    }

    /// A living process with these entries of its environment.
    pub fn process(&self, pid: u32, environ: &[&str]) {
        let dir = self.path().join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let stat = format!("{pid} (python3) S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 {pid}00 0 0");
        fs::write(dir.join("stat"), stat).unwrap();
        fs::write(dir.join("environ"), environ.join("\0")).unwrap();
    }

    /// The process is in this control group (v2).
    pub fn group(&self, pid: u32, path: &str) {
        fs::write(self.path().join(pid.to_string()).join("cgroup"), format!("0::{path}\n")).unwrap();
    }

    /// The process has ended.
    pub fn end(&self, pid: u32) {
        fs::remove_dir_all(self.path().join(pid.to_string())).unwrap();
    }
}

/// An agent's node.
pub struct Agent {
    pub node: Node,
    pub telemetry: Telemetry,
    pub health: Health,
    keeper: Keeper,
}

impl Agent {
    /// Starts on this state; `change` may set what is not the default.
    pub async fn start(state: &Path, library: &Path, kernel: &Kernel, change: impl FnOnce(&mut Config)) -> Self {
        let overrides =
            Overrides { state_dir: Some(state.to_owned()), node: Some("n1".into()), ..Overrides::default() };
        let mut config = Config::load(None, &overrides).unwrap();
        config.roots.proc = kernel.path();
        // Those of the machine that this runs on have nothing to do with it.
        (config.kubernetes.socket, config.slurm.scontrol) =
            ("/nonexistent/kubelet.sock".into(), "/nonexistent/scontrol".into());
        change(&mut config);
        let (telemetry, health) = (Telemetry::new().unwrap(), Health::default());
        let keeper = Keeper::open(&config.spool_dir, config.spool, telemetry.clone()).unwrap();
        let options = Options { library: NvmlLibrary::at(library), ..Options::default() };
        let mut node = Node::start(&config, &options, keeper.clone(), telemetry.clone(), health.clone()).unwrap();
        node.started().await;
        Self { node, telemetry, health, keeper }
    }

    /// Everything in the spool, which is empty then.
    pub async fn handed_on(&self) -> Vec<ExportMetricsServiceRequest> {
        let mut all = Vec::new();
        while let Some((lane, batch)) = self.keeper.peek(1_000, 1 << 24).await.unwrap() {
            let requests = batch.records.iter().map(|record| record.payload.as_slice());
            all.extend(requests.map(|payload| ExportMetricsServiceRequest::decode(&*plain(payload).unwrap()).unwrap()));
            self.keeper.acknowledge(lane, *batch.ends.last().unwrap()).await.unwrap();
        }
        all
    }
}

/// The points of every metric of this name, in order.
pub fn points(requests: &[ExportMetricsServiceRequest], name: &str) -> Vec<NumberDataPoint> {
    let resources = requests.iter().flat_map(|request| &request.resource_metrics);
    let metrics = resources.flat_map(|resource| &resource.scope_metrics).flat_map(|scope| &scope.metrics);
    let points = metrics.filter(|metric| metric.name == name).flat_map(|metric| match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.clone(),
        Some(Data::Sum(sum)) => sum.data_points.clone(),
        _ => Vec::new(),
    });
    points.collect()
}

/// An attribute as text; empty when it is not there.
pub fn attribute<'p>(point: &'p NumberDataPoint, name: &str) -> &'p str {
    let found = point.attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Text::StringValue(text)) => text,
        _ => "",
    }
}

/// A point's whole number.
pub fn whole(point: &NumberDataPoint) -> u64 {
    match point.value {
        Some(Value::AsInt(value)) => u64::try_from(value).unwrap(),
        _ => panic!("a whole number, not {point:?}"),
    }
}
