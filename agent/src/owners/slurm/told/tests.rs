use proptest::prelude::*;

use super::*;

/// As Slurm 22.05 wrote it, in one line.
const LINE: &str = "JobId=1 JobName=job.sh UserId=ana(1000) GroupId=ana(1000) MCS_label=N/A Priority=4294901759 Nice=0 \
    Account=acct1 QOS=(null) JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 \
    ExitCode=0:0 DerivedExitCode=0:0 RunTime=00:00:00 TimeLimit=UNLIMITED TimeMin=N/A SubmitTime=2026-11-30T18:52:48 \
    EligibleTime=2026-11-30T18:52:48 AccrueTime=2026-11-30T18:52:48 StartTime=2026-11-30T18:52:51 EndTime=Unknown \
    Deadline=N/A SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-30T18:52:51 Scheduler=Main Partition=long \
    AllocNode:Sid=localhost:31231 ReqNodeList=(null) ExcNodeList=(null) NodeList=n1 BatchHost=n1 NumNodes=1 NumCPUs=1 \
    NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=1,node=1,billing=1 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* \
    CoreSpec=* JOB_GRES=gpu:2   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1) MinCPUsNode=1 MinMemoryNode=0 \
    MinTmpDiskNode=0 Features=(null) DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null) \
    Command=/home/ana/job.sh WorkDir=/home/ana Comment=hello world=1 x  StdErr=/home/ana/job.out StdIn=/dev/null \
    StdOut=/home/ana/job.out Power= TresPerNode=gres:gpu:2 \n";

fn gpus(index: &[u32]) -> Vec<Gres> {
    vec![Gres { name: "gpu".into(), count: index.len() as u64, index: index.to_vec() }]
}

fn told() -> Told {
    Told {
        state: "RUNNING".into(),
        user: "ana".into(),
        account: "acct1".into(),
        partition: "long".into(),
        comment: "hello world=1 x".into(),
        name: "job.sh".into(),
        batch_host: "n1".into(),
        nodes: vec![(Some("n1".into()), gpus(&[0, 1]))],
        ..Told::default()
    }
}

#[test]
fn a_line_tells_of_a_job() {
    assert_eq!(from_text(LINE, "1").unwrap(), told());
    let two = format!("{}{LINE}", LINE.replace("JobId=1", "JobId=11").replace("acct1", "acct2"));
    assert_eq!(from_text(&two, "1").unwrap().account, "acct1");
    let interactive = LINE.replace("BatchFlag=1", "BatchFlag=0");
    assert_eq!(from_text(&interactive, "1").unwrap().batch_host, "", "the first node runs no script");
    let fault = from_text("slurm_load_jobs error: Invalid job id specified\n", "1").unwrap_err();
    assert!(fault.contains("Invalid job id") && fault.contains("expected a line that starts with JobId=1"), "{fault}");
}

#[test]
fn what_a_user_writes_is_not_what_the_controller_says() {
    let forged = LINE.replace("JobName=job.sh", "JobName=x UserId=root(0) Account=rich JobState=SUSPENDED");
    let found = from_text(&forged, "1").unwrap();
    assert_eq!((found.user.as_str(), found.account.as_str(), found.state.as_str()), ("", "", ""));
    assert_eq!(found.partition, "long");
    let forged = LINE.replace(
        "Comment=hello",
        "Comment=hello Account=rich Partition=long QOS=high Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3)",
    );
    let found = from_text(&forged, "1").unwrap();
    assert_eq!((found.account.as_str(), found.partition.as_str(), found.qos.as_str()), ("", "long", ""));
    assert_eq!(found.on("n1"), None, "it is told twice");
}

#[test]
fn json_tells_the_same() {
    // The keys of Slurm 23.11 and later, and the shape that older ones have.
    let job = serde_json::json!({
        "job_id": 1, "name": "job.sh", "user_name": "ana", "account": "acct1", "partition": "long", "qos": "",
        "comment": "hello world=1 x", "cluster": "", "job_state": ["RUNNING"], "nodes": "n1",
        "batch_flag": true, "batch_host": "n1",
        "gres_detail": ["gpu:2(IDX:0-1)"],
    });
    let answer = |job: &Value| serde_json::json!({"jobs": [{"job_id": 2}, job], "errors": []}).to_string();
    assert_eq!(from_json(&answer(&job), "1").unwrap(), told());
    let mut older = job.clone();
    older["job_state"] = "RUNNING".into();
    assert_eq!(from_json(&answer(&older), "1").unwrap(), told());
    assert!(from_json(&answer(&job), "3").unwrap_err().contains("no job 3"));
    assert!(from_json("{", "1").is_err() && from_json("[]", "1").is_err());
    let mut interactive = job.clone();
    interactive["batch_flag"] = false.into();
    assert_eq!(from_json(&answer(&interactive), "1").unwrap().batch_host, "");
    let mut without = job.clone();
    without["gres_detail"] = serde_json::json!([]);
    assert_eq!(from_json(&answer(&without), "1").unwrap().on("n1"), Some(&[][..]));
    let mut several = job;
    (several["nodes"], several["gres_detail"]) =
        ("n[1-2]".into(), serde_json::json!(["gpu:2(IDX:0-1)", "gpu:2(IDX:2-3)"]));
    assert_eq!(from_json(&answer(&several), "1").unwrap().on("n1"), None, "which is whose is not told");
    several["gres_detail"][1] = "gpu:2(IDX:0-1)".into();
    assert_eq!(from_json(&answer(&several), "1").unwrap().on("n1"), Some(&gpus(&[0, 1])[..]));
}

#[test]
fn until_when_it_held_is_told_of_a_job_that_does_not_any_more() {
    let line = |state: &str, end: &str, suspend: &str| {
        let line = LINE.replace("JobState=RUNNING", &format!("JobState={state}"));
        line.replace("EndTime=Unknown", &format!("EndTime={end}"))
            .replace("SuspendTime=None", &format!("SuspendTime={suspend}"))
    };
    let text = |state, end, suspend| from_text(&line(state, end, suspend), "1").unwrap().held_until_ms();
    let json = |state: &str, end: Value, suspend: Value| {
        let job = serde_json::json!({"job_id": 1, "job_state": [state], "end_time": end, "suspend_time": suspend});
        from_json(&serde_json::json!({"jobs": [job]}).to_string(), "1").unwrap().held_until_ms()
    };
    let number = |number: i64| serde_json::json!({"set": number != 0, "infinite": false, "number": number});
    for (state, expected) in [
        ("RUNNING", None),
        ("PENDING", None),
        ("CONFIGURING", None),
        ("SIGNALING", None),
        ("SUSPENDED", Some(1_790_000_040_000)),
        ("COMPLETING", Some(1_790_000_099_000)),
        ("COMPLETED", Some(1_790_000_099_000)),
        ("CANCELLED", Some(1_790_000_099_000)),
        ("TIMEOUT", Some(1_790_000_099_000)),
        ("FAILED", Some(1_790_000_099_000)),
    ] {
        assert_eq!(text(state, "1790000099", "1790000040"), expected, "{state}");
        assert_eq!(json(state, 1_790_000_099.into(), 1_790_000_040.into()), expected, "{state}");
        assert_eq!(json(state, number(1_790_000_099), number(1_790_000_040)), expected, "{state}");
    }
    for nothing in ["Unknown", "None", "0", "", "2026-11-30T18:52:51", "-5", "9223372036854775807"] {
        assert_eq!((text("TIMEOUT", nothing, "1"), text("SUSPENDED", "1", nothing)), (None, None), "{nothing}");
    }
    assert_eq!(json("TIMEOUT", number(0), 0.into()), None);
    assert_eq!(json("SUSPENDED", number(1), Value::Null), None);
}

#[test]
fn a_job_on_several_nodes_tells_of_each() {
    let line = LINE.replace(
        " Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)",
        " Nodes=n[01-03,7] CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:2-3)   Nodes=n5 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)",
    );
    let told = from_text(&line, "1").unwrap();
    for node in ["n01", "n02", "n03", "n7"] {
        assert_eq!(told.on(node), Some(&gpus(&[2, 3])[..]), "{node}");
    }
    let racks = from_text(&LINE.replace(" Nodes=n1 ", " Nodes=rack[1-2]n[1-4],login "), "1").unwrap();
    assert_eq!([racks.on("rack2n3").is_some(), racks.on("rack3n1").is_some()], [true, false]);
    assert_eq!(told.on("n5"), Some(&gpus(&[0])[..]));
    for node in ["n1", "n4", "n05", "n", "n07", "nx", ""] {
        assert_eq!(told.on(node), None, "{node}");
    }
}

#[test]
fn a_node_tells_what_it_has_and_what_of_it_is_used() {
    // As Slurm 22.05 wrote it.
    let text = "NodeName=n1 CoresPerSocket=1 CPUAlloc=0 Gres=gpu:4,shard:32 GresDrain=N/A \
        GresUsed=gpu:2,shard:(null):1(IDX:2) NodeAddr=127.0.0.1\n";
    let expected =
        NodeTold { has: gres::parse("gpu:4,shard:32"), used: gres::parse("gpu:2,shard:1(IDX:2)"), order: None };
    assert_eq!(node_from_text(text, "n1").unwrap(), expected);
    assert!(node_from_text("Node n2 not found", "n2").unwrap_err().contains("not found"));
}

#[test]
fn a_list_of_jobs_is_numbers() {
    assert_eq!(numbers_from_text("12\n 7 \n").unwrap(), ["12", "7"]);
    assert_eq!(numbers_from_text("").unwrap(), [] as [&str; 0]);
    assert!(numbers_from_text("12\nx y\n").unwrap_err().contains("x y"));
}

proptest! {
    #[test]
    fn any_answer_is_read(text in "\\PC{0,200}", name in "\\PC{0,60}", list in "[a-z0-9,\\[\\]-]{0,40}") {
        let _ = (from_text(&text, "1"), from_json(&text, "1"), node_from_text(&text, "n1"));
        let nodes = LINE.replace(" Nodes=n1 ", &format!(" Nodes={list} "));
        prop_assert!(from_text(&nodes, "1").is_ok_and(|told| told.on("n2").is_none_or(|got| got == gpus(&[0, 1]))));
        let told = from_text(&LINE.replace("job.sh UserId", &format!("{name} UserId")), "1");
        prop_assert!(told.is_ok_and(|told| told.account == "acct1" || name.contains("Account=")));
    }
}
