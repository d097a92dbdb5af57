//! The program itself: its commands, its exit codes, its signals.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{Collector, attribute, free_address, points};
use contador_agent::ledger::checkpoint::{self, CheckpointFile};
use contador_agent::ledger::tick::holders;
use contador_agent::ledger::{CLOSE_AFTER_MS, Ledger, MINUTE_MS, Tick};
use contador_agent::owners::ProcessOwners;
use contador_agent::run::clock::now_ms;
use contador_schemas::names;
use contador_schemas::owner::Owner;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use rustix::process::{Pid, Signal, kill_process};
use tonic::codec::CompressionEncoding::Zstd;

fn agent() -> Command {
    Command::new(env!("CARGO_BIN_EXE_contador-agent"))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn check_shows_what_is_in_force_or_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.toml");
    std::fs::write(&path, "node = \"n1\"\n[collector]\nendpoint = \"http://collector:4317\"\n").unwrap();
    let good = agent().args(["check", "--interval", "500ms", "--config"]).arg(&path).output().unwrap();
    assert_eq!(code(&good), 0);
    let shown: toml::Table = text(&good.stdout).parse().unwrap();
    assert_eq!(shown["collector"]["endpoint"].as_str(), Some("http://collector:4317"));
    assert_eq!(shown["interval"].as_str(), Some("500ms"));
    let line = |key: &str| text(&good.stdout).lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(line("node = ").ends_with(&format!("# {}:1", path.display())), "{}", line("node = "));
    assert!(line("interval = ").ends_with("# --interval") && line("timeout = ").ends_with("# default"));
    let variable = agent().arg("check").env("STATE_DIRECTORY", "/srv/state").output().unwrap();
    assert!(text(&variable.stdout).contains("state_dir = \"/srv/state\""), "{}", text(&variable.stdout));
    assert!(text(&variable.stdout).contains("# $STATE_DIRECTORY\n"));
    let dcgm = agent().args(["check", "--dcgm"]).output().unwrap();
    let shown: toml::Table = text(&dcgm.stdout).parse().unwrap();
    assert_eq!(shown["prometheus"]["dcgm"].as_bool(), Some(true));

    std::fs::write(&path, "node = \"n1\"\n[http]\nlissen = \"127.0.0.1:1\"\n").unwrap();
    let bad = agent().args(["check", "--config"]).arg(&path).output().unwrap();
    assert_eq!(code(&bad), 2);
    let expected = format!("contador-agent: {}:3: unknown key lissen, expected listen\n", path.display());
    assert_eq!(text(&bad.stderr), expected);
    let missing = agent().args(["run", "--config", "/nonexistent/agent.toml"]).output().unwrap();
    assert_eq!(code(&missing), 2);
    assert!(text(&missing.stderr).starts_with("contador-agent: cannot read /nonexistent/agent.toml: No such file"));
    assert_eq!(code(&agent().arg("rum").output().unwrap()), 2);
    // An empty file is a whole configuration; what is no file of text is named.
    std::fs::write(&path, "").unwrap();
    assert_eq!(code(&agent().args(["check", "--config"]).arg(&path).output().unwrap()), 0);
    std::fs::write(&path, b"node = \"n1\"\n# \xff\n").unwrap();
    for (file, said) in [(path.as_path(), ":2: the byte 0xff is no UTF-8"), (dir.path(), "Is a directory")] {
        let refused = agent().args(["check", "--config"]).arg(file).output().unwrap();
        assert_eq!(code(&refused), 2);
        assert!(text(&refused.stderr).contains(said), "{}", text(&refused.stderr));
    }
}

#[test]
fn exec_labels_a_tree_and_ends_as_its_command_does() {
    // The shell's child prints a line and waits: whose it is, is asked while it does.
    let mut child = agent()
        .args(["exec", "--experiment", "e1", "--project", "vision", "--department", "research", "--user", "ana"])
        .args(["--service", "ranker", "--", "sh", "-c", "sh -c 'echo $$; read line'; exit 7"])
        .env("CONTADOR_OWNER_JOB", "of an outer exec")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let inner: u32 = line.trim().parse().unwrap();
    let mut owners = ProcessOwners::new("/proc".into(), "/etc/passwd".into());
    let found = owners.resolve(&[child.id(), inner], 0, &[]);
    let expected = Owner {
        experiment: "e1".into(),
        project: "vision".into(),
        department: "research".into(),
        user: "ana".into(),
        service: "ranker".into(),
        ..Owner::default()
    };
    let owner = |pid: u32| found.get(&pid).map(|named| &named.owner);
    assert_eq!((owner(child.id()), owner(inner)), (Some(&expected), Some(&expected)));
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));

    let labels = ["exec", "--experiment", "e", "--project", "p", "--department", "d", "--"];
    let missing = agent().args(labels).arg("no-such-program-anywhere").output().unwrap();
    assert_eq!(code(&missing), 127);
    assert!(text(&missing.stderr).contains("no-such-program-anywhere"));
    assert_eq!(code(&agent().args(labels).arg("/etc/passwd").output().unwrap()), 126);
    assert_eq!(code(&agent().args(["exec", "--experiment", "e", "--", "true"]).output().unwrap()), 2);
}

#[test]
fn labels_must_be_short_text() {
    let labels = |experiment: &str| {
        let args = ["exec", "--experiment", experiment, "--project", "p", "--department", "d", "--", "true"];
        agent().args(args).output().unwrap()
    };
    assert_eq!(code(&labels("e1")), 0);
    for wrong in ["", " ", "a\nb", "\u{1b}[31m", &"x".repeat(257)] {
        let refused = labels(wrong);
        assert_eq!(code(&refused), 2, "{wrong:?}");
        assert!(text(&refused.stderr).contains("--experiment") && text(&refused.stderr).contains("expected UTF-8"));
    }
    let node = agent().args(["check", "--node", "a\u{1b}[31m"]).output().unwrap();
    assert_eq!(code(&node), 2);
    assert!(text(&node.stderr).contains(r#"--node is "a\u{1b}[31m", expected a name"#), "{}", text(&node.stderr));
}

#[test]
fn an_output_that_cannot_be_written_is_a_fault_and_a_reader_that_left_is_none() {
    for command in ["probe", "check"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = agent().arg(command).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(code(&output), 1, "{command}");
        assert!(text(&output.stderr).starts_with("contador-agent: cannot write to standard output: No space left"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = agent().arg(command).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((code(&output), text(&output.stderr)), (0, ""), "{command}");
    }
}

#[test]
fn without_a_driver_a_probe_fits_the_terminal_and_says_why_once() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("agent.toml");
    std::fs::write(&config, "[sensors]\nnvml = \"/nonexistent/libnvidia-ml.so.1\"\n").unwrap();
    for (columns, width) in [(None, 80), (Some("100"), 100)] {
        let mut probe = agent();
        probe.args(["probe", "--config"]).arg(&config).env_remove("COLUMNS");
        probe.envs(columns.map(|columns| ("COLUMNS", columns)));
        let output = probe.output().unwrap();
        let shown = text(&output.stdout);
        assert!(shown.lines().all(|line| line.chars().count() <= width), "{shown}");
        assert_eq!(shown.matches("No such file").count(), 1, "{shown}");
    }
}

#[test]
fn a_hangup_ends_it_unless_it_was_started_with_that_ignored() {
    let state = tempfile::tempdir().unwrap();
    let (mut child, _) = start(state.path(), free_address());
    signal(&child, Signal::HUP);
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let config = state.path().join("agent.toml");
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_contador-agent")]);
    let (mut child, listen) = start_by(nohup, &config, state.path(), free_address());
    signal(&child, Signal::HUP);
    // It still answers.
    assert_eq!(http(listen, "GET", "/healthz", b"").0, "HTTP/1.1 200 OK");
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Starts `run` without a driver, and gives the address that it says it listens on.
fn start(state: &Path, collector: SocketAddr) -> (Child, SocketAddr) {
    let config = state.join("agent.toml");
    std::fs::write(&config, "[sensors]\nnvml = \"/nonexistent/libnvidia-ml.so.1\"\n").unwrap();
    start_by(agent(), &config, state, collector)
}

#[allow(clippy::zombie_processes, reason = "when this panics, the test ends, and the agent with its closed log")]
fn start_by(mut program: Command, config: &Path, state: &Path, collector: SocketAddr) -> (Child, SocketAddr) {
    let mut child = program
        .args(["run", "--node", "n1", "--listen", "127.0.0.1:0", "--log-format", "json", "--config"])
        .arg(config)
        .args(["--endpoint", &format!("http://{collector}"), "--state-dir"])
        .arg(state)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut lines = String::new();
    loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the agent ended: {lines}");
        lines.push_str(&line);
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
        if let Some(address) = entry["fields"]["address"].as_str() {
            let address = address.parse().unwrap();
            // The rest of the log goes nowhere, but has to be read.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return (child, address);
        }
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// One request by hand; the status line and the body.
fn http(address: SocketAddr, method: &str, target: &str, body: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head =
        format!("{method} {target} HTTP/1.1\r\nhost: agent\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // A body that is refused unread may find the connection closed.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// The kinds of the events that tell of the agent itself.
fn agent_events(received: &[ExportMetricsServiceRequest]) -> Vec<String> {
    let points = points(received, names::EVENT);
    let kinds = points.iter().map(|point| attribute(&point.attributes, names::EVENT_KIND));
    kinds.filter(|kind| kind.starts_with("agent_")).map(str::to_owned).collect()
}

/// A ledger of an agent that was killed longer ago than a device is waited for, while somebody held a device.
fn leave_checkpoint(state: &Path) -> i64 {
    let killed = now_ms() - CLOSE_AFTER_MS - 3 * MINUTE_MS;
    let research = Owner { department: "research".into(), ..Owner::default() }.into();
    let mut ledger = Ledger::default();
    for second in 0..3 {
        let tick = Tick {
            device: "GPU-1".into(),
            simulated: false,
            instant_ms: killed - 2_000 + second * 1_000,
            holders: holders([], [(&research, 1 << 30, None)]),
            utilization_ppm: Some(1_000_000),
            energy_mj: Some(1_000),
            split: None,
        };
        ledger.tick(tick, Duration::from_secs(1));
    }
    CheckpointFile::new(state).store(&checkpoint::encode(&ledger, std::iter::empty()).unwrap(), true).unwrap();
    killed
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_it_with_nothing_lost() {
    let state = tempfile::tempdir().unwrap();
    let killed = leave_checkpoint(state.path());
    let address = free_address();
    // There is no collector yet.
    let (mut child, listen) = start(state.path(), address);
    assert_eq!(http(listen, "GET", "/healthz", b"").0, "HTTP/1.1 200 OK");
    let (status, body) = http(listen, "GET", "/readyz", b"");
    assert!(status.starts_with("HTTP/1.1 503") && body.starts_with("not ready: "), "{status} {body}");

    let mut histogram: Histogram<u64> = Histogram::new(3).unwrap();
    for value in [10, 10, 250_000] {
        histogram.record(value).unwrap();
    }
    let mut pushed = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut pushed).unwrap();
    let (start_s, end_s) = (now_ms() / 1_000 - 20, now_ms() / 1_000 - 10);
    let labels = "service=ranker&metric=queue_time&route=%2Frank&instance=r1";
    let target = format!("/v1/latency?{labels}&start={start_s}&end={end_s}&id=push-1");
    let (status, body) = http(listen, "POST", &target, &pushed);
    assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
    let window = end_s - 1 - (end_s - 1) % 10;
    let times = format!(r#""start":"{start_s}.000000000","end":"{end_s}.000000000","window":{window}"#);
    assert_eq!(body, format!(r#"{{"count":3,"aborted":0,{times}}}"#));
    // What would be stored nowhere, or as something else, is refused by name.
    let old = end_s - 15 * 86_400;
    for (target, expected) in [
        (format!("/v1/latency?service=x&end={old}"), "expected no more than 14 days ago"),
        ("/v1/latency?service=x&route=a%00b".to_owned(), r#"route is \"a\\0b\""#),
        ("/v1/latency?service=x&model=a%ff".to_owned(), "bytes that are no UTF-8"),
        (format!("/v1/latency?service={}", "x".repeat(60_000)), "of 60000 bytes"),
    ] {
        let (status, answer) = http(listen, "POST", &target, &pushed);
        assert!(status.starts_with("HTTP/1.1 400") && answer.contains(expected), "{status} {answer}");
        assert!(answer.len() < 300, "{answer}");
    }
    for (target, body, expected) in [
        ("/v1/latency?service=x", b"hello".as_slice(), "400"),
        ("/v1/latency", &pushed, "400"),
        ("/v1/latency?service=x&colour=red", &pushed, "400"),
        ("/v1/latency?service=x", &vec![0; 5 << 20], "413"),
    ] {
        let (status, answer) = http(listen, "POST", target, body);
        assert!(status.starts_with(&format!("HTTP/1.1 {expected}")), "{target}: {status} {answer}");
    }
    assert!(http(listen, "GET", "/metrics", b"").1.contains("contador_agent_pushes_total{result=\"kept\"} 1"));

    // Another agent must not use the same state.
    let second = agent().args(["run", "--listen", "127.0.0.1:0", "--state-dir"]).arg(state.path()).output().unwrap();
    assert_eq!(code(&second), 1);
    assert!(text(&second.stderr).contains("expected no other agent with this state directory"));

    // Killed, started again, and then a collector comes.
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let (mut child, _) = start(state.path(), address);
    let collector = Collector::default();
    let running = collector.start(address, &[Zstd]).await;
    let received = collector
        .wait(|received| {
            !points(received, names::CPU_COUNT).is_empty()
                && agent_events(received).len() == 2
                && points(received, names::LEDGER_SHARE).len() > 1
        })
        .await;
    let latencies: Vec<_> = received
        .iter()
        .flat_map(|request| &request.resource_metrics)
        .filter(|resource| attribute(&resource.resource.as_ref().unwrap().attributes, names::SERVICE_NAME) == "ranker")
        .flat_map(|resource| &resource.scope_metrics)
        .flat_map(|scope| &scope.metrics)
        .collect();
    let source = received.iter().flat_map(|request| &request.resource_metrics).find_map(|resource| {
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        (attribute(attributes, names::SERVICE_NAME) == "ranker")
            .then(|| attribute(attributes, names::SERVICE_INSTANCE_ID))
    });
    assert_eq!(source, Some("r1#push-1"));
    let [metric] = latencies[..] else { panic!("one latency, not {latencies:?}") };
    let Some(Data::Histogram(histogram)) = &metric.data else { panic!("no histogram: {metric:?}") };
    let point = &histogram.data_points[0];
    assert_eq!((point.count, point.bucket_counts.as_slice()), (3, [0, 2, 0, 1, 0].as_slice()));
    assert_eq!(point.explicit_bounds, [10.0_f64.next_down(), 10.0, 249_984.0_f64.next_down(), 250_111.0]);

    // Each minute since the first tick has come, once and whole; what was held before the kill is in the first ones.
    let mut minutes: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
    for point in points(&received, names::LEDGER_SHARE) {
        assert_eq!(attribute(&point.attributes, names::HW_ID), "GPU-1");
        let Some(Value::AsInt(share)) = point.value else { panic!("no whole number: {point:?}") };
        minutes.entry(point.start_time_unix_nano / 60_000_000_000).or_default().push(share);
    }
    let first = u64::try_from((killed - 2_000) / MINUTE_MS).unwrap();
    assert_eq!(minutes.keys().copied().collect::<Vec<_>>(), (first..first + minutes.len() as u64).collect::<Vec<_>>());
    assert!(minutes.len() >= 60 && minutes.values().all(|shares| shares.iter().sum::<i64>() == 60_000));
    assert!(minutes.values().skip(2).all(|shares| shares.len() == 1));
    let owners: Vec<_> = points(&received, names::OWNER_INFO);
    let labels = owners.iter().map(|point| attribute(&point.attributes, names::DEPARTMENT));
    assert!(labels.into_iter().any(|department| department == "research"));

    signal(&child, Signal::TERM);
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(0));
    let received = collector.wait(|_| true).await;
    assert_eq!(agent_events(&received), ["agent_started", "agent_started", "agent_stopped"]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_own_metrics_go_where_they_are_wanted() {
    let state = tempfile::tempdir().unwrap();
    let receiver = Collector::default();
    let running = receiver.start(free_address(), &[]).await;
    let config = state.path().join("agent.toml");
    let nvml = "[sensors]\nnvml = \"/nonexistent/libnvidia-ml.so.1\"\n";
    let text = format!("{nvml}[telemetry]\notlp_endpoint = \"http://{}\"\n", running.address);
    std::fs::write(&config, text).unwrap();
    let (mut child, listen) = start_by(agent(), &config, state.path(), free_address());
    while !http(listen, "GET", "/metrics", b"").1.contains("spool_bytes{queue=\"records\"} 4") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // What there is, it sends when it ends.
    signal(&child, Signal::TERM);
    let received = receiver.wait(|received| !points(received, "contador.agent.ticks").is_empty()).await;
    assert_eq!(tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap().code(), Some(0));
    running.stop().await;
    let of = |name: &str, label: &str, value: &str| {
        let points = points(&received, name);
        let point = points.iter().find(|point| attribute(&point.attributes, label) == value).unwrap();
        let Some(Value::AsInt(number)) = point.value else { panic!("no whole number: {point:?}") };
        number
    };
    assert!(of("contador.agent.ticks", "result", "done") >= 1);
    assert!(of("contador.agent.requests", "result", "later") >= 1);
    assert!(of("contador.agent.spool_bytes", "queue", "records") > 400);
    let resource = received[0].resource_metrics[0].resource.as_ref().unwrap();
    assert_eq!(attribute(&resource.attributes, names::SERVICE_NAME), "contador-agent");
    assert_eq!(attribute(&resource.attributes, names::HOST_NAME), "n1");
}
