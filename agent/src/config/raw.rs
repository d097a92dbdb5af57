//! Every key of the configuration, with what it means, what it takes, and what is in force without it.
//!
//! The reference in `docs/configuration.md`, `agent.example.toml` and the flags of the command line are made of these
//! comments. A new key is one entry here, and its field in [`Config`](super::Config).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::key::{About, Default, Key, keys};
use super::read::{
    address, api, choice, count_from_1_to, count_to, endpoint, flag, interval, name, page_size, path, places, pods,
    poll, push_size, requests, resources, scrape_interval, size_from, texts, timeout, to_an_hour,
};
use super::{Compression, PodsScraped};
use crate::owners::kubernetes::request::Unit;

keys! {
    /// Name of this node in everything that is sent.
    NODE: String = "node", Default::Found("the host's name", "gpu-node-17"), name,
        "a name of this node of at most 256 bytes without control characters", flag "node" "NAME";
    /// Time between samples, aligned to the clock.
    INTERVAL: Duration = "interval", Default::Text("1s"), interval,
        "a duration from 100ms to 1m that divides a minute", flag "interval" "DURATION";
    /// Where the agent keeps what must survive a restart: the open minute of the ledger, and the spool. One agent a
    /// directory.
    STATE_DIR: PathBuf = "state_dir", Default::Text("/var/lib/contador"), path,
        "a directory", flag "state-dir" "DIR", variable "STATE_DIRECTORY";
    /// Any OTLP/gRPC receiver, without TLS: a contador collector, or the balancer in front of several.
    ENDPOINT: String = "collector.endpoint", Default::Text("http://127.0.0.1:4317"), endpoint,
        "an URL such as http://collector:4317", flag "endpoint" "URL";
    /// How requests are compressed. A collector that refuses one is asked again with the next simpler one.
    COMPRESSION: Compression = "collector.compression", Default::Text("zstd"), choice, "zstd, gzip or none";
    /// How long one request may take.
    TIMEOUT: Duration = "collector.timeout", Default::Text("10s"), timeout, "a duration of at least 100ms";
    /// Where records wait until the collector has them.
    SPOOL_DIR: PathBuf = "spool.dir", Default::Found("spool in state_dir", "/var/lib/contador/spool"), path, "a directory";
    /// Samples and records together. When it is full, the oldest samples are dropped; ledger rows and latencies never are.
    SPOOL_SIZE: u64 = "spool.max_size", Default::Text("1GiB"), size_from::<{ 1 << 20 }>, "a size of at least 1MiB";
    /// What is dropped at once.
    SEGMENT_SIZE: u64 = "spool.segment_size", Default::Found("4MiB, or a quarter of max_size", "4MiB"),
        size_from::<{ 64 << 10 }>, "a size of at least 64KiB and at most a quarter of max_size";
    /// Records that the collector refused for good, kept in the folder rejected.
    REJECTED_SIZE: u64 = "spool.rejected_size", Default::Text("64MiB"), size_from::<0>, "a size such as 64MiB";
    /// Where the agent listens: pushes of latencies, OTLP metrics, /metrics, /healthz and /readyz.
    LISTEN: SocketAddr = "http.listen", Default::Text("127.0.0.1:9746"), address,
        "an IP address and a port, such as 127.0.0.1:9746", flag "listen" "ADDRESS:PORT";
    /// Greatest body of a push or of a request of OTLP, before and after inflating.
    PUSH_SIZE: usize = "http.max_push_size", Default::Text("4MiB"), push_size, "a size from 1KiB to 64MiB";
    /// Show the last samples at /metrics by the names of dcgm-exporter, too, so that its dashboards go on working.
    DCGM: bool = "prometheus.dcgm", Default::Flag(false), flag, "true or false", flag "dcgm" "";
    /// The kernel's proc file system; another place for containers and tests.
    PROC: PathBuf = "sensors.proc", Default::Text("/proc"), path, "a directory";
    /// The kernel's sys file system.
    SYS: PathBuf = "sensors.sys", Default::Text("/sys"), path, "a directory";
    /// Where control groups are mounted: v2, or v1's controllers, each in a folder of its own.
    CGROUP: PathBuf = "sensors.cgroup", Default::Found("fs/cgroup in sys", "/sys/fs/cgroup"), path, "a directory";
    /// The file that maps user ids to names. Of users that the machine's own lacks, its C library is asked (LDAP, SSSD).
    PASSWD: PathBuf = "sensors.passwd", Default::Text("/etc/passwd"), path, "a file";
    /// The NVML library.
    NVML: PathBuf = "sensors.nvml", Default::Nothing("the driver's own, as the loader finds it", "libnvidia-ml.so.1"),
        path, "a file, or a name that the loader finds";
    /// Time between two probes of a mount. A probe that is not back by the next one makes its mount unreachable. NFS counters
    /// are read as often.
    MOUNT_INTERVAL: Duration = "sensors.mount_interval", Default::Text("5s"), to_an_hour, "a duration from 1s to 1h";
    /// Most mounts that are probed, each by a thread of its own; the rest is left out, and said once in the log. 0 switches
    /// it off.
    MAX_MOUNTS: usize = "sensors.max_mounts", Default::Whole(64), count_to::<1_024>, "a number from 0 to 1024";
    /// Mounts at these places and below them are left out, such as /var/lib/kubelet.
    EXCLUDE_MOUNTS: Vec<PathBuf> = "sensors.exclude_mounts", Default::List(&[]), places, "a list of absolute paths";
    /// Mounts of these types are left out; fuse stands for fuse.sshfs and the like too.
    EXCLUDE_TYPES: Vec<String> = "sensors.exclude_types", Default::List(&[]), texts, "a list of types of file systems";
    /// Read and send serial numbers of GPUs. Where they are not wanted: false.
    SERIAL_NUMBERS: bool = "sensors.serial_numbers", Default::Flag(true), flag, "true or false";
    /// The kubelet's socket that tells which container was given which GPU. Where its folder is not there, it
    /// is looked for every 30 s.
    KUBELET: PathBuf = "kubernetes.socket", Default::Text("/var/lib/kubelet/pod-resources/kubelet.sock"), path, "a socket";
    /// Name of this node in Kubernetes.
    KUBE_NODE: String = "kubernetes.node", Default::Found("node", "gpu-node-17"), name,
        "a name of this node of at most 256 bytes without control characters", variable "NODE_NAME";
    /// The API server, which tells pods with their labels and their ends. Without one, the kubelet's word alone counts.
    KUBE_API: String = "kubernetes.api", Default::Found("in a pod what the kubelet tells it, else none", "https://10.96.0.1:443"),
        api, "an URL such as https://10.96.0.1:443";
    /// The bearer token that is shown to the API server, read again for each question.
    KUBE_TOKEN: PathBuf = "kubernetes.token_file",
        Default::Found("the service account's in a pod and over https, else none",
            "/var/run/secrets/kubernetes.io/serviceaccount/token"), path, "a file";
    /// The certificates (PEM) of the authority that the API server's is checked with, read again for each question.
    KUBE_CA: PathBuf = "kubernetes.ca_file",
        Default::Found("the service account's in a pod, else none", "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"),
        path, "a file";
    /// Resources that are GPUs, beside those whose names begin with nvidia.com/: names, or beginnings that end with *. The
    /// device plugin must call devices by UUID or minor number, as NVIDIA's do.
    KUBE_RESOURCES: Vec<String> = "kubernetes.resources", Default::List(&[]), resources,
        "a list of names of resources, such as example.com/gpu or example.com/gpu-*";
    /// More words in which pods ask for a part of a GPU, in a container's limits or in an annotation of the pod, each with its
    /// unit: fraction, percent, milli, or a size of the GPU's memory. Those of docs/kubernetes.md are known; of these, the unit
    /// that is said here counts.
    KUBE_REQUESTS: Vec<(String, Unit)> = "kubernetes.requests", Default::List(&[]), requests,
        "a list of words with their units, such as example.com/gpu-share=percent or aliyun.com/gpu-mem=1MiB";
    /// How long the kubelet's last word counts when it does not answer. From then on nobody holds a GPU by it.
    KUBE_KEEP: Duration = "kubernetes.keep_for", Default::Text("1m"), to_an_hour, "a duration from 1s to 1h";
    /// The program that asks Slurm's controller about the jobs of this node: of new and changed jobs, and as often as
    /// slurm.poll says of the node. Where there is no such program, it is looked for every
    /// 30 s. squeue is taken from beside it.
    SCONTROL: PathBuf = "slurm.scontrol", Default::Text("scontrol"), path, "a file, or a name that PATH has";
    /// How long it may take for one answer. Who holds which GPU does not wait for it.
    SCONTROL_TIMEOUT: Duration = "slurm.timeout", Default::Text("5s"), timeout, "a duration of at least 100ms";
    /// How often the controller is asked for allocations without a process on this node, as salloc makes them: so late they, and
    /// their end, are seen at most. With PrologFlags=Contain they have a process, and are seen at once.
    SLURM_POLL: Duration = "slurm.poll", Default::Text("30s"), poll, "a duration of at least 1s";
    /// Time between two scrapes of a server. Windows of latencies are 10 s long: with 10s each has one row a series.
    SCRAPE_INTERVAL: Duration = "scrape.interval", Default::Text("10s"), scrape_interval,
        "a duration from 1s to 10s that divides 10s";
    /// How long one scrape may take. Others do not wait for it.
    SCRAPE_TIMEOUT: Duration = "scrape.timeout", Default::Found("3s, or scrape.interval where that is less", "3s"), timeout,
        "a duration of at least 100ms and at most scrape.interval";
    /// Greatest page of a server.
    SCRAPE_SIZE: usize = "scrape.max_size", Default::Text("4MiB"), page_size, "a size from 64KiB to 64MiB";
    /// Most servers that are scraped; the rest is left out, and said at /readyz.
    SCRAPE_TARGETS: usize = "scrape.max_targets", Default::Whole(64), count_from_1_to::<1_024>, "a number from 1 to 1024";
    /// Files with more targets, in the JSON of Prometheus's file_sd. They are read again when they change.
    SCRAPE_FILES: Vec<PathBuf> = "scrape.files", Default::List(&[]), places, "a list of absolute paths";
    /// Which pods of this node are scraped: gpu, those that have the annotation prometheus.io/scrape and hold a GPU, and those that
    /// have the annotation contador.io/scrape; annotated, those that have any of the two; or off. Needs kubernetes.api.
    SCRAPE_PODS: PodsScraped = "scrape.pods", Default::Text("gpu"), pods, "gpu, annotated or off";
    /// The certificates (PEM) that those of servers with https are checked with, where a target has no ca_file of its own. Read
    /// again for each scrape.
    SCRAPE_CA: PathBuf = "scrape.ca_file", Default::Nothing("none: no server with https is scraped", "/etc/ssl/certs/ca-certificates.crt"),
        path, "a file";
    /// Where the agent's own metrics are sent by OTLP/gRPC.
    TELEMETRY: String = "telemetry.otlp_endpoint",
        Default::Nothing("where OTEL_EXPORTER_OTLP_ENDPOINT says, if anywhere", "http://127.0.0.1:4317"), endpoint,
        "an URL such as http://collector:4317";
}

/// The key of this path; the compiler finds out if there is none.
const fn about(path: &str) -> &'static About {
    let mut index = 0;
    while index < KEYS.len() {
        if same(KEYS[index].path.as_bytes(), path.as_bytes()) {
            return KEYS[index];
        }
        index += 1;
    }
    panic!("no key of this path");
}

const fn same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}
