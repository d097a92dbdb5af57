//! The program lets go of the driver when it is told to by SIGUSR1.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

#[path = "../../agent/tests/common/mod.rs"]
mod collector;
mod nvml_support;

use nvml_support::Simulator;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Killed {
    /// Whether a thread of it waits for XIDs: the one that has the driver open for itself, whatever the others do.
    fn waits_for_xids(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap().flatten();
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
        tasks.filter_map(name).any(|name| name.trim() == "xids")
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} never comes");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn on_sigusr1_no_thread_has_the_driver_open_any_more() {
    let simulator = Simulator::without_scenario();
    let scenario = simulator.scenario_file("[[gpu]]\nmodel = \"l4\"\ncount = 3");
    let state = tempfile::tempdir().unwrap();
    let address = collector::free_address();
    let child = Command::new(contador_tests::binary("contador-agent").unwrap())
        .args(["run", "--interval", "100ms", "--listen", &address.to_string(), "--simulate"])
        .arg(&scenario)
        .arg("--state-dir")
        .arg(state.path())
        .env("CONTADOR_NVML_SIMULATOR", simulator.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let agent = Killed(child);
    until("the thread that waits for XIDs", || agent.waits_for_xids());
    let pid = Pid::from_raw(i32::try_from(agent.0.id()).unwrap()).unwrap();
    let ready = || async {
        let answer = reqwest::get(format!("http://{address}/readyz")).await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    };
    let begun = Instant::now();
    while ready().await != Some((200, "ready\n".to_owned())) {
        assert!(begun.elapsed() < PATIENCE, "it is never ready");
    }
    kill_process(pid, Signal::USR1).unwrap();
    until("the end of that thread", || !agent.waits_for_xids());
    let begun = Instant::now();
    while ready().await != Some((503, "not ready: the driver's handles are released\n".to_owned())) {
        assert!(begun.elapsed() < PATIENCE, "it is never said: {:?}", ready().await);
    }
    // The others go on.
    let (mut before, begun) = (None, Instant::now());
    loop {
        let text = reqwest::get(format!("http://{address}/metrics")).await.unwrap().text().await.unwrap();
        let ticks = text.lines().find(|line| line.starts_with("contador_agent_ticks_total{result=\"done\"}")).unwrap();
        if before.get_or_insert(ticks.to_owned()) != ticks {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "it ticks no more: {ticks}");
    }
}
