//! The demo from start to end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio::process::Command;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::agent::Agent;
use super::load::AgentUrl;
use super::ports::Ports;
use super::processes::{Process, beside};
use super::restarts::Restarts;
use super::service::Service;
use super::simulated::Simulated;
use super::summary::{Summary, count, engine_version};
use super::view::{Fixed, View};
use super::{conserve, live, load, owners, sample, visible, workloads};
use crate::engine;
use crate::failure::Failure;
use crate::store::{Store, StoreArgs};

/// What was asked for on the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// End after so long; otherwise when asked to.
    pub duration: Option<Duration>,
    /// For programs: nothing but the summary, as JSON.
    pub json: bool,
    /// Keep everything in this directory; otherwise in a temporary one that is removed at the end.
    pub data: Option<PathBuf>,
}

/// How often the live view is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(500);

/// Runs everything until the time is up, the user asks to end or `shutdown` is cancelled; then checks what was stored.
///
/// # Errors
/// When a part does not start, ends by itself, or does not end when asked to.
pub async fn run(options: Options, shutdown: CancellationToken) -> anyhow::Result<Summary> {
    // Fetched here, where it may take its time, so that the engine's start is quick.
    let library = tokio::task::spawn_blocking(engine::ensure_library).await??;
    let Some(directory) = &options.data else {
        let directory =
            tempfile::Builder::new().prefix("contador-demo-").tempdir().context("make a temporary directory")?;
        let ran = Box::pin(run_in(directory.path(), &library, &options, &shutdown)).await;
        // The logs are worth more than the space when something failed.
        return ran.map_err(|error| {
            error.context(format!("the demo failed; its data and logs are in {}", directory.keep().display()))
        });
    };
    std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    Box::pin(run_in(directory, &library, &options, &shutdown)).await
}

async fn run_in(
    directory: &Path,
    library: &Path,
    options: &Options,
    shutdown: &CancellationToken,
) -> anyhow::Result<Summary> {
    let parts = Parts::start(directory, library).await?;
    let bill = sample::bill(&parts.store).await?;
    let fixed = Fixed {
        engine_version: engine_version(&parts.store).await?,
        clickhouse: parts.clickhouse.clone(),
        ..bill.shown()
    };
    let mut view = View::open(options.json);
    let outcome = parts.show(&mut view, &fixed, options, shutdown).await;
    drop(view);
    let (parts, seen) = outcome?;
    parts.finish(fixed, &bill, seen).await
}

/// Every running part.
struct Parts {
    store: Store,
    clickhouse: String,
    engine: Process,
    collector: Process,
    agent: Agent,
    restarts: Restarts,
    /// When the agent was started, Unix milliseconds.
    started_ms: i64,
    workloads: Vec<Process>,
    /// What stands for GPUs and schedulers on a machine without GPUs.
    simulated: Option<Simulated>,
    service: Service,
    /// Holds the preferred ports for as long as the parts run.
    _ports: Ports,
}

impl Parts {
    async fn start(directory: &Path, library: &Path) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(2)).build()?;
        let contador = std::env::current_exe().context("find the running program")?;
        let agent_program = beside("contador-agent")?;
        let logs = directory.join("logs");
        std::fs::create_dir_all(&logs)?;

        let ports = Ports::new();
        let clickhouse = ports.pick(8123)?;
        let mut command = Command::new(&contador);
        command
            .arg("clickhouse")
            .arg("--path")
            .arg(directory.join("clickhouse"))
            .arg("--listen")
            .arg(clickhouse.to_string());
        command.env("CONTADOR_CHDB_LIB", library);
        let mut engine = Process::start("clickhouse", command, &logs)?;
        let clickhouse = format!("http://{clickhouse}");
        engine.ready(&http, &format!("{clickhouse}/ping")).await?;

        let (grpc, otlp_http, web) = (ports.pick(4317)?, ports.pick(4318)?, ports.pick(8080)?);
        let mut command = Command::new(&contador);
        command.args(["serve", "--clickhouse", &clickhouse]);
        command.args(["--grpc", &grpc.to_string(), "--http", &otlp_http.to_string()]);
        command.args(["--web", &web.to_string()]);
        let mut collector = Process::start("serve", command, &logs)?;
        collector.ready(&http, &format!("http://{web}/readyz")).await?;

        let has_gpus = has_gpus(&agent_program).await?;
        let workloads = workloads::start(&agent_program, &logs)?;
        let simulated = (!has_gpus).then(|| Simulated::start(directory, &logs)).transpose()?;
        let otlp = format!("http://{grpc}");
        let mut arguments = vec!["run".into(), "--endpoint".into(), otlp.clone().into()];
        arguments.extend(["--state-dir".into(), directory.join("agent").into_os_string()]);
        if let Some(simulated) = &simulated {
            arguments.extend(["--simulate".into(), simulated.scenario.clone().into()]);
            arguments.extend(["--config".into(), simulated.config.clone().into()]);
        }
        let started_ms = visible::now_ms();
        let agent = Agent::start(http, agent_program, arguments, ports.pick(9746)?, logs).await?;

        let service = Service::start(&otlp).await?;
        let args = StoreArgs { url: clickhouse.clone(), user: "default".to_owned(), database: "contador".to_owned() };
        let store = args.open_with(None).map_err(Failure::into_error)?;
        Ok(Self {
            store,
            clickhouse,
            engine,
            collector,
            agent,
            restarts: Restarts::planned(visible::now_ms()),
            started_ms,
            workloads,
            simulated,
            service,
            _ports: ports,
        })
    }

    /// Shows the state until it is time to end; what the watcher of samples saw.
    async fn show(
        mut self,
        view: &mut View,
        fixed: &Fixed,
        options: &Options,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<(Self, visible::Visible)> {
        let stop = CancellationToken::new();
        // Ends the watcher and the load when this function is left by an error, too.
        let _guard = stop.clone().drop_guard();
        let table =
            if self.simulated.is_some() || self.gpu_table_has_rows().await { "gpu_samples" } else { "storage_samples" };
        let watcher = tokio::spawn(visible::watch(self.store.clone(), table, stop.clone()));
        let started = Instant::now();
        let ends = options.duration.map(|duration| started + duration);
        let url = AgentUrl::new(self.agent.url().into());
        let mut load = tokio::spawn(load::run(self.service.address, url.clone(), stop.clone()));
        let mut ticks = interval(DRAW_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = shutdown.cancelled() => break,
                ended = &mut load => {
                    ended?.context("the load ended early")?;
                    anyhow::bail!("the load ended early");
                }
            }
            if let Some(how) = self.restarts.due() {
                let _no_push = url.lock().await;
                let ended_ms = self.agent.restart(how).await?;
                self.restarts.done(how, ended_ms);
            }
            self.check()?;
            if view.asked_to_end()? || ends.is_some_and(|ends| Instant::now() >= ends) {
                break;
            }
            if !options.json {
                view.show(fixed, &live::snapshot(&self.store, self.restarts.told()).await?, started.elapsed())?;
            }
        }
        stop.cancel();
        load.await??;
        Ok((self, watcher.await??))
    }

    /// An error when a part has ended by itself.
    fn check(&mut self) -> anyhow::Result<()> {
        let job = self.simulated.as_mut().map(|simulated| &mut simulated.job);
        let others = [&mut self.engine, &mut self.collector, &mut self.agent.process].into_iter().chain(job);
        others.chain(&mut self.workloads).try_for_each(Process::check)
    }

    async fn gpu_table_has_rows(&self) -> bool {
        count(&self.store, "devices").await.is_ok_and(|devices| devices > 0)
    }

    /// Ends the parts in the order of the data's way, so that everything arrives, and checks what did.
    async fn finish(mut self, fixed: Fixed, bill: &sample::Bill, seen: visible::Visible) -> anyhow::Result<Summary> {
        self.service.stop().await?;
        self.agent.process.stop().await?;
        for workload in &mut self.workloads {
            workload.kill().await;
        }
        let conserve::Checked { mut faults, minutes, restarts } =
            conserve::check(&self.store, self.restarts.instants()).await?;
        if minutes == 0 {
            eprintln!("no full minute was stored, so there was nothing to check: run the demo for over a minute");
        }
        faults.extend(bill.faults());
        for fault in &faults {
            eprintln!("does not add up: {fault}");
        }
        let visible = seen.median_and_max();
        let summary = Summary {
            engine_version: fixed.engine_version,
            simulated: self.simulated.is_some(),
            gpu_samples: count(&self.store, "gpu_samples").await?,
            storage_samples: count(&self.store, "storage_samples").await?,
            latency_rows: count(&self.store, "latency").await?,
            ledger_rows: count(&self.store, "ledger").await?,
            sample_visible_ms_p50: visible.map(|(median, _)| median),
            sample_visible_ms_max: visible.map(|(_, max)| max),
            bill_total: fixed.bill_total,
            bill_currency: fixed.currency,
            run_bill: sample::bill_of_run(&self.store, self.started_ms).await?.to_table(80),
            owners: owners::held(&self.store).await?,
            agent_restarts: restarts,
            conserved: faults.is_empty() && minutes > 0,
        };
        self.collector.stop().await?;
        self.engine.stop().await?;
        Ok(summary)
    }
}

/// Whether the driver tells of any GPU here.
async fn has_gpus(agent: &Path) -> anyhow::Result<bool> {
    let output =
        Command::new(agent).args(["probe", "--json"]).output().await.context("run contador-agent probe --json")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "contador-agent probe --json: {}: {said}", output.status);
    let probe: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("read what contador-agent probe --json says")?;
    Ok(probe["gpus"]["value"]["devices"].as_array().is_some_and(|devices| !devices.is_empty()))
}
