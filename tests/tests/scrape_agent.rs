//! An agent scrapes servers: what is stored is what they have counted, whatever happens to them and to it.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use std::time::Duration;

use contador_tests::{Collector, Engine};
use serde_json::json;

mod kube_support;
#[path = "scrape_support/python.rs"]
mod python_support;
mod scrape_support;
mod sdk_support;
use kube_support::{Api, Kubelet};
use python_support::Python;
use scrape_support::{Agent, Manner, Server, comes_to, number};

const COUNT: &str = "SELECT toUInt64(sum(count)) FROM latency FINAL WHERE metric = 'request_duration' AND censored = 0";
const REQUESTS: &str = "SELECT toUInt64(sum(assumeNotNull(requests))) FROM served FINAL WHERE requests IS NOT NULL";

async fn store() -> (Engine, Collector) {
    let engine = Engine::start().unwrap();
    let collector = Collector::start(engine.url(), "").unwrap();
    collector.ready().await.unwrap();
    (engine, collector)
}

fn config(more: &str) -> String {
    format!("[slurm]\nscontrol = \"/nonexistent/scontrol\"\n[scrape]\ninterval = \"1s\"\n{more}")
}

/// A GPU's owner, and the server's place.
fn target(server: &Server, more: &str) -> String {
    format!("[[scrape.target]]\nurl = \"{}\"\n{more}\n", server.address)
}

/// It is killed between any two of its steps, again and again, while requests are served and the server is started again.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_is_what_was_served_however_often_the_agent_is_killed() {
    let (engine, collector) = store().await;
    let server = Server::start().await;
    // It is there before the agent: this is a base line.
    server.serve(1_000, 0.2);
    let dir = tempfile::tempdir().unwrap();
    let config = config(&target(&server, "service = \"chat\""));
    let start = || Agent::start(dir.path(), &collector.grpc, &config);
    let mut agent = start();
    server.is_asked(2).await;
    let mut served = 0;
    for round in 0..8_u64 {
        for step in 0..3 {
            server.serve(round + step, 0.1 + 0.2 * f64::from(u8::try_from(step).unwrap()));
            served += round + step;
            server.is_asked(1).await;
        }
        // At another place of what follows a page each time.
        tokio::time::sleep(Duration::from_millis(5 * round)).await;
        agent.kill();
        server.serve(100, 1.2);
        served += 100;
        if round == 4 {
            // What it had counted since the last page is gone with it.
            agent = start();
            server.is_asked(2).await;
            server.restart();
            server.serve(5, 0.4);
            served += 5;
            server.is_asked(1).await;
            agent.kill();
        }
        agent = start();
        server.is_asked(1).await;
    }
    let about = || agent.log();
    comes_to(&engine, COUNT, served, about).await;
    comes_to(&engine, REQUESTS, served, about).await;
    let tokens = "SELECT toUInt64(sum(assumeNotNull(output_tokens))) FROM served FINAL WHERE output_tokens IS NOT NULL";
    assert_eq!(number(&engine, tokens).await, 20 * served);
    // One series, one replica; the reset is told.
    assert_eq!(number(&engine, "SELECT uniqExact(series, source) FROM latency").await, 1);
    assert_eq!(
        number(&engine, "SELECT count() FROM latency FINAL WHERE reset AND metric = 'request_duration'").await,
        1
    );
    let strangers = "SELECT count() FROM latency WHERE service != 'chat' OR model != 'm' OR node != 'n1'";
    assert_eq!(number(&engine, strangers).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_or_breaks_holds_up_no_other_and_loses_nothing() {
    let (engine, collector) = store().await;
    let (well, ill) = (Server::start().await, Server::start().await);
    ill.expect("secret");
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "secret\n").unwrap();
    let targets = target(&well, "service = \"well\"")
        + &target(&ill, &format!("service = \"ill\"\ntoken_file = \"{}\"", token.display()));
    let agent = Agent::start(dir.path(), &collector.grpc, &config(&format!("timeout = \"300ms\"\n{targets}")));
    well.is_asked(2).await;
    ill.is_asked(2).await;
    let mut served = 0;
    for (manner, outcome, said) in [
        (Manner::Never, "timeout", "no whole answer within 300ms"),
        (Manner::Torn, "ok", "ill"),
        (Manner::Cut, "torn", "scrape of"),
        (Manner::Endless, "too_large", "the page has more than 4194304 bytes"),
        (Manner::Redirect, "status", "it answers 302 Found, expected 200; redirects are not followed"),
    ] {
        ill.answer(manner);
        ill.serve(7, 0.4);
        served += 7;
        if manner != Manner::Torn {
            agent.shows("/readyz", |text| text.starts_with("ready\n") && text.contains(said)).await;
        }
        let before = well.asked();
        ill.is_asked(3).await;
        assert!(well.asked() >= before + 2, "it is asked as before, {manner:?}");
        let line = format!("contador_agent_scrapes_total{{outcome=\"{outcome}\"}}");
        agent.shows("/metrics", |text| text.contains(&line)).await;
        let of_ill =
            "SELECT toUInt64(sum(count)) FROM latency FINAL WHERE service = 'ill' AND metric = 'request_duration'";
        assert_eq!(number(&engine, of_ill).await, served - 7, "{manner:?}");
        ill.answer(Manner::Well);
        comes_to(&engine, of_ill, served, || agent.log()).await;
    }
    agent.shows("/readyz", |text| text == "ready\n").await;
    let metrics = agent.get("/metrics").await;
    for line in ["contador_agent_scrape_targets 2", "contador_agent_scrape_age_seconds{target=\"", "reason=\"torn\""] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_of_a_file_come_and_go_and_come_again() {
    let (engine, collector) = store().await;
    let server = Server::start().await;
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("targets.json");
    let write = |targets: &[String]| {
        let groups =
            json!([{"targets": targets, "labels": {"job": "chat", "team": "vision", "department": "research"}}]);
        // As whoever writes such a file should.
        std::fs::write(list.with_extension("new"), groups.to_string()).unwrap();
        std::fs::rename(list.with_extension("new"), &list).unwrap();
    };
    write(&[]);
    let config = config(&format!("files = [\"{}\"]\n", list.display()));
    let agent = Agent::start(dir.path(), &collector.grpc, &config);
    agent.shows("/readyz", |text| text == "ready\n").await;
    write(&[server.address.to_string()]);
    server.is_asked(2).await;
    server.serve(10, 0.1);
    let about = || agent.log();
    comes_to(&engine, COUNT, 10, about).await;
    write(&[]);
    agent.shows("/metrics", |text| text.contains("contador_agent_scrape_targets 0")).await;
    // Nobody asks, and it goes on counting.
    server.serve(5, 0.4);
    write(&[server.address.to_string()]);
    comes_to(&engine, COUNT, 15, about).await;
    std::fs::write(&list, "[{").unwrap();
    agent.shows("/readyz", |text| text.starts_with("ready\n") && text.contains("expected a list of targets")).await;
    server.serve(1, 0.4);
    comes_to(&engine, COUNT, 16, about).await;
    let of_owner = "SELECT count() FROM latency l INNER JOIN owners o ON l.owner = o.id \
                    WHERE o.department = 'research' AND l.attributes['team'] = 'vision' AND l.service = 'chat'";
    assert!(number(&engine, of_owner).await >= 3);
}

/// A server that was started after the agent, and is told of only when it has served.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_began_after_the_agent_counts_from_its_start_whenever_it_becomes_a_target() {
    let (engine, collector) = store().await;
    let before = Server::start().await;
    before.serve(1_000, 0.1);
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("targets.json");
    let write = |targets: &[String]| {
        let groups = json!([{"targets": targets, "labels": {"job": "chat"}}]);
        std::fs::write(list.with_extension("new"), groups.to_string()).unwrap();
        std::fs::rename(list.with_extension("new"), &list).unwrap();
    };
    write(&[before.address.to_string()]);
    let agent = Agent::start(dir.path(), &collector.grpc, &config(&format!("files = [\"{}\"]\n", list.display())));
    before.is_asked(2).await;
    let since = Server::start().await;
    since.serve(10, 0.1);
    write(&[before.address.to_string(), since.address.to_string()]);
    since.is_asked(2).await;
    let about = || agent.log();
    comes_to(&engine, COUNT, 10, about).await;
    // The same server by another name, and by its own again: what it has counted is stored already.
    let named = format!("localhost:{}", since.address.port());
    for (name, stored) in [(named, 15), (since.address.to_string(), 20)] {
        write(&[before.address.to_string(), name.clone()]);
        let line = format!("contador_agent_scrape_age_seconds{{target=\"http://{name}/metrics\"}}");
        agent.shows("/metrics", |text| text.contains(&line)).await;
        since.is_asked(1).await;
        since.serve(5, 0.4);
        comes_to(&engine, COUNT, stored, about).await;
        comes_to(&engine, REQUESTS, stored, about).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_scraped_by_its_annotations_and_is_who_holds_its_gpu() {
    const GPU: &str = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77";
    let (engine, collector) = store().await;
    let (server, plain) = (Server::start().await, Server::start().await);
    let (kubelet, api) =
        (Kubelet::start(&[("nvidia.com/gpu".to_owned(), vec![GPU.to_owned()])].into()), Api::start(None).await);
    let listed = json!([{"namespace": "lab", "name": "chat-0", "containers": [{"name": "main", "devices": {"nvidia.com/gpu": [GPU]}}]}]);
    kubelet.list(&serde_json::from_value::<Vec<_>>(listed).unwrap());
    let pod = |name: &str, server: &Server| {
        json!({
            "metadata": {
                "uid": name, "namespace": "lab", "name": name, "labels": {"app": "chat", "team": "vision"},
                "annotations": {"prometheus.io/scrape": "true"},
            },
            "spec": {"containers": [{"name": "main", "ports": [{"containerPort": server.address.port()}]}]},
            "status": {
                "phase": "Running", "podIP": "127.0.0.1",
                "containerStatuses": [{"name": "main", "containerID": format!("containerd://{name}"), "state": {"running": {}}}],
            },
        })
    };
    // The other one says so to whoever scrapes pods, and has no GPU.
    api.have(&[pod("chat-0", &server), pod("web-0", &plain)]);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("scenario.toml"),
        format!("[[gpu]]\nmodel = \"l4\"\nuuid = \"{GPU}\"\nutilization = 50\n"),
    )
    .unwrap();
    let more = format!(
        "[kubernetes]\nsocket = \"{}\"\napi = \"{}\"\n\
         [[owners.rule]]\nname = \"teams\"\nmatch = {{ \"k8s.label.team\" = \"*\" }}\nset = {{ department = \"{{k8s.label.team}}\" }}\n",
        kubelet.socket().display(),
        api.url()
    );
    let agent = Agent::start(dir.path(), &collector.grpc, &config(&more));
    server.is_asked(2).await;
    agent.shows("/metrics", |text| text.contains("contador_gpu_owner_info")).await;
    server.serve(10, 0.1);
    let about = || agent.log();
    comes_to(&engine, COUNT, 10, about).await;
    let of_pod = format!(
        "SELECT toUInt64(sum(assumeNotNull(s.requests))) FROM served s FINAL INNER JOIN (SELECT DISTINCT id, department, pod FROM owners FINAL) o \
         ON s.owner = o.id WHERE o.department = 'vision' AND o.pod = 'chat-0' AND s.device = '{GPU}' AND s.service = 'chat'"
    );
    comes_to(&engine, &of_pod, 10, about).await;
    assert_eq!(plain.asked(), 0, "it holds no GPU");

    // Another pod, without a GPU, which says it to contador.
    let next = Server::start().await;
    let mut meant = pod("web-1", &next);
    meant["metadata"]["annotations"] = json!({"contador.io/scrape": "true", "contador.io/service": "web"});
    api.have(&[meant]);
    next.is_asked(2).await;
    next.serve(3, 0.1);
    let of_web = "SELECT toUInt64(sum(count)) FROM latency FINAL WHERE service = 'web' AND metric = 'request_duration'";
    comes_to(&engine, of_web, 3, about).await;
    agent.shows("/metrics", |text| text.contains("contador_agent_scrape_targets 1")).await;
}

/// The stock client says when each of its series began, in either format in its own way. Servers and the agent are killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_python_server_is_counted_exactly_in_both_formats_over_restarts() {
    const FORMATS: [&str; 2] = ["text", "openmetrics"];
    let (engine, collector) = store().await;
    let mut servers = FORMATS.map(|format| Python::start(0, format));
    let dir = tempfile::tempdir().unwrap();
    let target =
        |format: &str, port| format!("[[scrape.target]]\nurl = \"127.0.0.1:{port}\"\nservice = \"{format}\"\n");
    let targets: String = FORMATS.iter().zip(&servers).map(|(format, server)| target(format, server.port)).collect();
    let config = config(&targets);
    // It is there before the agent.
    servers.iter_mut().for_each(|server| server.serve(1_000, 0.2));
    let mut agent = Agent::start(dir.path(), &collector.grpc, &config);
    let is_followed = |text: &str| text.matches("contador_agent_scrape_age_seconds{target").count() == 2;
    agent.shows("/metrics", is_followed).await;
    let mut served = 0;
    for (round, requests) in [7, 40, 300, 301].into_iter().enumerate() {
        match round {
            // Counts rise all the same: only its start tells that it is another one.
            1 | 2 => servers.iter_mut().for_each(Python::restart),
            3 => {
                agent.kill();
                agent = Agent::start(dir.path(), &collector.grpc, &config);
            }
            _ => {}
        }
        for server in &mut servers {
            server.serve(requests, 0.4);
            server.serve(requests, 1.2);
        }
        served += 2 * requests;
        for format in FORMATS {
            let of = |sql: &str| format!("{sql} AND service = '{format}'");
            comes_to(&engine, &of(COUNT), served, || agent.log()).await;
            comes_to(&engine, &of(REQUESTS), served, || agent.log()).await;
        }
    }
    let tokens = "SELECT toUInt64(sum(assumeNotNull(output_tokens))) FROM served FINAL WHERE output_tokens IS NOT NULL";
    assert_eq!(number(&engine, tokens).await, 2 * 20 * served);
    let kinds = agent.get("/metrics").await;
    assert!(!kinds.contains("reason=\"overlap\"") && !kinds.contains("reason=\"line\""), "{kinds}");
}
