//! What the controller says, and does not say, of the node.

use super::*;
use crate::owners::slurm::places::Order;

#[test]
fn a_controller_that_falls_silent_is_said_where_it_is_missed() {
    let mut machine = Machine::new();
    let fault = |machine: &mut Machine| machine.jobs.look(1, &[]).fault;
    machine.jobs.answer(Answer::Node(Err("no controller".into())), 0);
    assert_eq!(fault(&mut machine), None, "a machine that is no node of Slurm's");
    machine.used("gpu:0", 1);
    assert_eq!(fault(&mut machine), None);
    machine.jobs.answer(Answer::Node(Err("down".into())), 2);
    assert_eq!(fault(&mut machine).as_deref(), Some("down"));
    machine.used("gpu:0", 3);
    assert_eq!(fault(&mut machine), None);
    // Of a node that was never told of, but has jobs.
    let mut machine = Machine::new();
    machine.job(7, &[70], "SLURM_JOB_ID=7 SLURM_JOB_GPUS=1");
    machine.jobs.answer(Answer::Node(Err("down".into())), 0);
    assert_eq!(fault(&mut machine).as_deref(), Some("down"));
}

#[test]
fn an_order_that_is_not_clear_is_said_where_it_counts() {
    let mut machine = Machine::new();
    let gpu = |minor: u32| NodeDevice {
        uuid: format!("GPU-5d5ba0d6-d33d-2b2c-524d-00000000000{minor}"),
        minor: Some(minor),
        // The addresses go the other way round.
        pci: Some(format!("00000000:{}B:00.0", 9 - minor)),
        ..NodeDevice::default()
    };
    let devices = [gpu(0), gpu(1), gpu(2)];
    let order = |text: &str, has: &str| {
        let node = told::node_from_text(&format!("NodeName=n1 Gres={has} GresUsed=gpu:1 X="), "n1").unwrap();
        Answer::Node(Ok(NodeTold { order: Order::parse(text, "n1"), ..node }))
    };
    let mut look = |answer: Option<Answer>, devices: &[NodeDevice]| {
        answer.into_iter().for_each(|answer| machine.jobs.answer(answer, 0));
        machine.job(1, &[10], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0 SLURMD_NODENAME=n1");
        let told = machine.jobs.look(1, devices);
        let device = told.claims[0].device.to_string();
        (device.chars().last().unwrap(), told.unclear.join("; "))
    };
    let said =
        |reason: &str| format!("node n1: which GPU is at a place of Slurm's is taken by device files, since {reason}");
    assert_eq!(look(None, &devices), ('0', String::new()), "whoever is asked may still tell");
    assert_eq!(look(Some(order("AutoDetect=nvml", "gpu:3")), &devices), ('2', String::new()));
    let (device, unclear) = look(Some(order("AutoDetect=nvml", "gpu:a100:2")), &devices);
    assert_eq!(device, '0');
    assert!(unclear.starts_with(&said("Slurm has 2 GPUs, expected the 3 that AutoDetect finds")), "{unclear}");
    let files = "AutoDetect=nvml\nName=gpu File=/dev/nvidia[0-1]";
    assert_eq!(look(Some(order(files, "gpu:a100:2")), &devices), ('1', String::new()));
    let none = said("gres.conf cannot be read, or says neither File nor AutoDetect");
    assert_eq!(look(Some(order("", "gpu:3")), &devices), ('0', none));
    assert_eq!(look(None, &devices[..1]), ('0', String::new()), "one device has one place");
    // Nobody answers.
    let mut machine = Machine::new();
    machine.job(1, &[10], "SLURM_JOB_ID=1 SLURM_JOB_GPUS=0 SLURMD_NODENAME=n1");
    let mut unclear = |now_ms: u64| {
        let _ = machine.jobs.questions(now_ms);
        machine.jobs.look(1, &devices).unclear.len()
    };
    assert_eq!([unclear(0), unclear(SILENT_MS - 1), unclear(SILENT_MS)], [0, 0, 1]);
}

/// `scontrol` may be stuck in the kernel: then no answer comes, not even that there is none.
#[test]
fn an_allocation_ends_five_minutes_after_the_last_word_also_when_nobody_answers() {
    let mut machine = Machine::new();
    machine.jobs.host = "n1".into();
    machine.jobs.answer(Answer::Running(Ok(vec!["5".into()])), 0);
    machine.told("5", allocated("RUNNING", "gpu:2(IDX:2-3)"), 0);
    assert_eq!(machine.jobs.look(1, &[]).claims.len(), 2);
    for second in 1..=3_600_u32 {
        let _ = machine.jobs.questions(u64::from(second) * 1_000);
        let told = machine.jobs.look(i64::from(second) * 1_000, &[]);
        assert_eq!(told.claims.len(), if second < 300 { 2 } else { 0 }, "after {second} s");
        // It was asked of the node, and of the job, after a second.
        let is_said = second > 60 && second < 300;
        assert_eq!((told.fault.is_some(), told.expired), (is_said, false), "after {second} s");
        assert_eq!(machine.jobs.is_waiting(), second <= 60, "after {second} s");
    }
    // It answers again.
    machine.used("gpu:2", 3_600_000);
    machine.jobs.answer(Answer::Running(Ok(vec!["5".into()])), 3_600_000);
    machine.told("5", allocated("RUNNING", "gpu:2(IDX:2-3)"), 3_600_000);
    let told = machine.jobs.look(3_600_000, &[]);
    assert_eq!((told.claims.len(), told.fault), (2, None));
}

/// Its word is older than 5 minutes when its last process ends; the question that is asked then is waited for.
#[test]
fn whoever_was_asked_just_now_may_answer_yet() {
    let mut machine = Machine::new();
    machine.job(1, &[10], "SLURM_JOB_ID=1 SLURM_STEP_GPUS=1 SLURMD_NODENAME=n1");
    machine.held();
    assert_eq!(machine.questions(0).len(), 1);
    machine.told("1", allocated("RUNNING", "gpu:1(IDX:1)"), 0);
    machine.job(1, &[], "");
    assert_eq!(machine.held(), [even("1", "nvidia1")]);
    assert_eq!(machine.questions(AGAIN_MS + 5).len(), 1);
    for (now_ms, held) in [(AGAIN_MS + 4 + FAILED_MS, 1), (AGAIN_MS + 5 + FAILED_MS, 0)] {
        assert_eq!(machine.questions(now_ms), []);
        assert_eq!(machine.held().len(), held, "at {now_ms}");
    }
}

/// What it held is another one's, or is not allocated any more.
#[test]
fn an_allocation_that_may_have_ended_is_asked_of_at_once() {
    let mut machine = Machine::new();
    machine.jobs.host = "n1".into();
    machine.jobs.answer(Answer::Running(Ok(vec!["5".into()])), 0);
    let mut now_ms = 0;
    let tell = |machine: &mut Machine, now_ms: u64| {
        machine.told("5", allocated("RUNNING", "gpu:2(IDX:2-3)"), now_ms);
        machine.held();
    };
    tell(&mut machine, 0);
    // It is asked of every 30 s by now.
    for _ in 0..10 {
        now_ms += POLL_MS;
        assert_eq!(machine.questions(now_ms).len(), 1);
        tell(&mut machine, now_ms);
    }
    let of = |job: &str| Question::Job(job.into(), job.into());
    machine.job(6, &[60], "SLURM_JOB_ID=6 SLURM_JOB_GPUS=1 SLURMD_NODENAME=n1");
    machine.held();
    assert_eq!(machine.questions(now_ms + 1), [of("6")], "it has another device");
    machine.job(7, &[70], "SLURM_JOB_ID=7 SLURM_JOB_GPUS=2 SLURMD_NODENAME=n1");
    machine.held();
    assert_eq!(machine.questions(now_ms + 2), [of("5"), of("7")]);
    // The controller says that it goes on: it is asked of less and less again.
    let mut asked = Vec::new();
    for second in 0..20 {
        tell(&mut machine, now_ms + 2 + second * 1_000);
        asked.extend((!machine.questions(now_ms + 2 + second * 1_000).is_empty()).then_some(second));
    }
    assert_eq!(asked, [1, 3, 7, 15]);
    // All four are held, and three are allocated.
    tell(&mut machine, now_ms + 20_000);
    machine.used("gpu:4", now_ms + 20_000);
    assert_eq!(machine.questions(now_ms + 20_000), []);
    machine.used("gpu:3", now_ms + 20_000);
    assert_eq!(machine.questions(now_ms + 20_000), [of("5")]);
}
