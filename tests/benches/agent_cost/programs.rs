//! The programs that are compared, and how each is started on the simulator.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// What a program has to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Simulated GPUs.
    pub gpus: u32,
    /// Time between samples, or scrapes.
    pub interval: Duration,
}

/// A program that can be started.
pub struct Program {
    kind: Kind,
    path: PathBuf,
    simulator: PathBuf,
    sink: SocketAddr,
    /// The agent's configuration.
    config: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Agent,
    NodeExporter,
    NvitopExporter,
    AllSmi,
    Floor,
}

/// A started program, ended when dropped.
pub struct Running {
    child: Child,
    scraped: Option<SocketAddr>,
    _folder: TempDir,
}

/// Every program, or why it can't be compared. The agent sends to `sink`, and is configured by `config`.
pub fn all(agent: Option<&Path>, sink: SocketAddr, config: &str) -> Vec<Result<Program, String>> {
    let simulator = contador_nvml_simulator::library::find();
    let agent = agent.map_or_else(
        || contador_tests::binary("contador-agent").map_err(|error| error.to_string()),
        |path| Ok(path.to_owned()),
    );
    let on_path = |kind, name: &str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let peers = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/test-deps/peers/bin");
        let folders = std::env::split_paths(&paths).chain([PathBuf::from(peers)]).collect::<Vec<_>>();
        let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        (kind, found.ok_or_else(|| format!("{name} is not installed: see docs/benchmarks.md")))
    };
    let found = [
        (Kind::Agent, agent),
        on_path(Kind::NodeExporter, "prometheus-node-exporter"),
        on_path(Kind::NvitopExporter, "nvitop-exporter"),
        on_path(Kind::AllSmi, "all-smi"),
    ];
    let floor = (Kind::Floor, std::env::current_exe().map_err(|error| error.to_string()));
    let found = found.into_iter().chain([floor]);
    let config = config.to_owned();
    let programs = found.map(|(kind, path)| {
        Ok(Program { kind, path: path?, simulator: simulator.clone()?, sink, config: config.clone() })
    });
    programs.collect()
}

impl Program {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Agent => "contador-agent",
            Kind::NodeExporter => "prometheus-node-exporter",
            Kind::NvitopExporter => "nvitop-exporter",
            Kind::AllSmi => "all-smi",
            Kind::Floor => "floor",
        }
    }

    /// What it is measured with. One that knows no GPUs has none.
    pub fn loads(&self) -> Vec<Load> {
        let load = |gpus, ms| Load { gpus, interval: Duration::from_millis(ms) };
        match self.kind {
            Kind::Agent => vec![load(0, 1_000), load(8, 1_000), load(16, 1_000), load(8, 100), load(16, 100)],
            Kind::NodeExporter => vec![load(0, 1_000)],
            Kind::Floor => vec![load(8, 1_000), load(8, 100)],
            Kind::NvitopExporter | Kind::AllSmi => vec![load(8, 1_000), load(16, 1_000)],
        }
    }

    /// Whether it is the agent.
    pub fn is_agent(&self) -> bool {
        self.kind == Kind::Agent
    }

    /// Whether it only touches as many `pages` as the agent.
    pub fn is_floor(&self) -> bool {
        self.kind == Kind::Floor
    }

    /// Starts it on a machine with so many GPUs, each half busy and held by this process; the floor, with so many pages.
    pub fn start(&self, load: Load, pages: u64) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let scenario = folder.path().join("scenario.toml");
        let gpus = format!(
            "[[gpu]]\nmodel = \"h100-80gb\"\ncount = {}\nutilization = 50\nmemory_mib = 40960\n\
             [[gpu.process]]\npid = {}\nmemory_mib = 40960\nsm_util = 50\n",
            load.gpus,
            std::process::id()
        );
        std::fs::write(&scenario, if load.gpus == 0 { String::new() } else { gpus }).unwrap();
        // Clients of the driver look for its library by this name.
        std::os::unix::fs::symlink(&self.simulator, folder.path().join("libnvidia-ml.so.1")).unwrap();
        let mut command = Command::new(&self.path);
        command
            .env("CONTADOR_NVML_SCENARIO", &scenario)
            .env("LD_LIBRARY_PATH", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let interval = format!("{}ms", load.interval.as_millis());
        let seconds = load.interval.as_secs().max(1).to_string();
        match self.kind {
            Kind::Agent => {
                command.args(["run", "--node", "bench", "--interval", &interval, "--listen", &address.to_string()]);
                command.arg("--endpoint").arg(format!("http://{}", self.sink));
                command.arg("--state-dir").arg(folder.path().join("state"));
                let file = folder.path().join("agent.toml");
                std::fs::write(&file, &self.config).unwrap();
                command.arg("--config").arg(file);
                if load.gpus > 0 {
                    command.arg("--simulate").arg(&scenario).env("CONTADOR_NVML_SIMULATOR", &self.simulator);
                }
            }
            Kind::Floor => super::floor::configure(&mut command, pages, load.interval),
            Kind::NodeExporter => _ = command.arg(format!("--web.listen-address={address}")),
            Kind::NvitopExporter => {
                command.args(["--bind-address", "127.0.0.1", "--port", &address.port().to_string()]);
                command.args(["--interval", &seconds]);
            }
            Kind::AllSmi => {
                command.args(["api", "--port", &address.port().to_string(), "--interval", &seconds]);
            }
        }
        let child = command.spawn().unwrap();
        let scraped = (!self.is_agent() && !self.is_floor()).then_some(address);
        Running { child, scraped, _folder: folder }
    }
}

impl Running {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it run until `end`; an exporter is scraped every `interval`.
    pub fn scrape_until(&self, end: Instant, interval: Duration) {
        while Instant::now() < end {
            if let Some(address) = self.scraped {
                _ = scrape(address);
            }
            std::thread::sleep(interval.min(end.saturating_duration_since(Instant::now())));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// `GET /metrics`, read to its end.
fn scrape(address: SocketAddr) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    stream.read_to_end(&mut Vec::new())
}
