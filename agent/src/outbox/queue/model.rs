//! The queue against a list in memory, with kills and damage in between.

use std::collections::VecDeque;
use std::fs;

use proptest::prelude::*;

use super::*;

const SEGMENT_BYTES: u64 = 200;

#[derive(Clone, Debug)]
enum Op {
    Append(usize),
    /// Takes up to so many records and acknowledges so many of them.
    Send(usize, usize),
    Reopen,
    /// A kill in the middle of an append: part of the record is at the end of the newest segment.
    Torn(usize, usize),
    /// A kill that lost the last acknowledgements.
    LoseAcknowledged,
    Drop,
    Release,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0_usize..120).prop_map(Op::Append),
        4 => (1_usize..6, 0_usize..6).prop_map(|(take, done)| Op::Send(take, done)),
        1 => Just(Op::Reopen),
        2 => (0_usize..120, 0_usize..1000).prop_map(|(length, part)| Op::Torn(length, part)),
        1 => Just(Op::LoseAcknowledged),
        1 => Just(Op::Drop),
        1 => Just(Op::Release),
    ]
}

fn newest(dir: &Path) -> Option<PathBuf> {
    let segments = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    segments.filter(|path| path.extension().is_some_and(|extension| extension == "spool")).max()
}

/// Payloads that say which they are.
fn payload(number: usize, length: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + length, 7);
    bytes
}

proptest! {
    #[test]
    fn records_come_out_as_they_went_in(ops in prop::collection::vec(op(), 1..80)) {
        let dir = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(dir.path(), SEGMENT_BYTES).unwrap();
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        // Sent already, in this order: a lost acknowledgement may bring back the end of it.
        let mut sent: Vec<Vec<u8>> = Vec::new();
        let mut number = 0;
        for op in ops {
            match op {
                Op::Append(length) => {
                    number += 1;
                    queue.append(Kind::Ledger, &payload(number, length), false).unwrap();
                    model.push_back(payload(number, length));
                }
                Op::Send(take, done) => {
                    let batch = queue.peek(take, 300).unwrap();
                    prop_assert_eq!(batch.records.is_empty(), model.is_empty());
                    for (record, expected) in batch.records.iter().zip(&model) {
                        prop_assert_eq!(&record.payload, expected);
                    }
                    let done = done.min(batch.ends.len());
                    if done > 0 {
                        queue.acknowledge(batch.ends[done - 1]).unwrap();
                        sent.extend(model.drain(..done));
                    }
                }
                Op::Reopen => {
                    drop(queue);
                    queue = Queue::open(dir.path(), SEGMENT_BYTES).unwrap();
                }
                Op::Torn(length, part) => {
                    drop(queue);
                    let mut bytes = Vec::new();
                    segment::put(&mut bytes, Kind::Ledger, &payload(0, length));
                    let part = part % bytes.len();
                    if let Some(path) = newest(dir.path()) {
                        let mut whole = fs::read(&path).unwrap();
                        whole.extend_from_slice(&bytes[..part]);
                        fs::write(&path, whole).unwrap();
                    }
                    queue = Queue::open(dir.path(), SEGMENT_BYTES).unwrap();
                }
                Op::LoseAcknowledged => {
                    drop(queue);
                    let _ = fs::remove_file(dir.path().join("acknowledged"));
                    queue = Queue::open(dir.path(), SEGMENT_BYTES).unwrap();
                    // What comes again must be the end of what was sent, then the rest.
                    let all = queue.peek(usize::MAX, usize::MAX).unwrap();
                    let again = all.records.len() - model.len();
                    prop_assert!(again <= sent.len());
                    for payload in sent.split_off(sent.len() - again).into_iter().rev() {
                        model.push_front(payload);
                    }
                    for (record, expected) in all.records.iter().zip(&model) {
                        prop_assert_eq!(&record.payload, expected);
                    }
                }
                Op::Release => queue.release().unwrap(),
                Op::Drop => {
                    let lost = queue.drop_oldest().unwrap().unwrap_or(0);
                    let lost = usize::try_from(lost).unwrap();
                    prop_assert!(lost <= model.len());
                    sent.extend(model.drain(..lost));
                }
            }
            prop_assert_eq!(queue.is_empty(), model.is_empty());
            prop_assert!(queue.take_damage().is_empty());
        }
        let rest = queue.peek(usize::MAX, usize::MAX).unwrap();
        let rest: Vec<Vec<u8>> = rest.records.into_iter().map(|record| record.payload).collect();
        prop_assert_eq!(rest, Vec::from(model));
        let on_disk: u64 = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap())
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "spool"))
            .map(|entry| entry.metadata().unwrap().len()).sum();
        prop_assert_eq!(on_disk, queue.bytes());
    }

    #[test]
    fn a_flipped_byte_costs_its_record_and_no_other(
        lengths in prop::collection::vec(0_usize..120, 1..12),
        place in 0_usize..10_000,
        reopen: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(dir.path(), u64::MAX).unwrap();
        for (number, length) in lengths.iter().enumerate() {
            queue.append(Kind::Ledger, &payload(number, *length), false).unwrap();
        }
        let path = newest(dir.path()).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        // A byte of a payload, so that the lengths still lead from record to record.
        let victim = place % lengths.len();
        let before: usize = lengths[..victim].iter().map(|length| 9 + 8 + length).sum();
        let flipped = 12 + before + 9 + place % (8 + lengths[victim]);
        bytes[flipped] ^= 0x40;
        fs::write(&path, bytes).unwrap();
        if reopen {
            queue = Queue::open(dir.path(), u64::MAX).unwrap();
        }
        let mut left: Vec<Vec<u8>> = Vec::new();
        loop {
            let batch = queue.peek(3, usize::MAX).unwrap();
            let Some(&end) = batch.ends.last() else { break };
            left.extend(batch.records.into_iter().map(|record| record.payload));
            queue.acknowledge(end).unwrap();
        }
        left.dedup();
        let expected: Vec<Vec<u8>> = (0..lengths.len())
            .filter(|&number| number != victim)
            .map(|number| payload(number, lengths[number]))
            .collect();
        for payload in &expected {
            prop_assert!(left.contains(payload));
        }
        prop_assert_eq!(left.iter().filter(|payload| !expected.contains(payload)).count(), 0);
        let damage = queue.take_damage();
        prop_assert_eq!(damage.len(), 1);
        prop_assert!(damage[0].path.exists());
    }
}

#[test]
fn a_queue_of_format_version_1_is_still_read() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spool/version-1.spool");
    fs::copy(&fixture, dir.path().join("0000000000000001.spool")).unwrap();
    let mut queue = Queue::open(dir.path(), u64::MAX).unwrap();
    let records = queue.peek(usize::MAX, usize::MAX).unwrap().records;
    let found: Vec<(Kind, &[u8])> = records.iter().map(|record| (record.kind, record.payload.as_slice())).collect();
    let expected: [(Kind, &[u8]); 5] = [
        (Kind::Samples, b"samples"),
        (Kind::Ledger, b"ledger"),
        (Kind::Latency, b"latency"),
        (Kind::Event, b"event"),
        (Kind::Ledger, b""),
    ];
    assert_eq!(found, expected);
    // And what is written today is what was written then.
    let today = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(today.path(), u64::MAX).unwrap();
    for (kind, payload) in expected {
        queue.append(kind, payload, true).unwrap();
    }
    assert_eq!(fs::read(newest(today.path()).unwrap()).unwrap(), fs::read(fixture).unwrap());
}

#[test]
fn a_foreign_file_is_set_aside_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut queue = Queue::open(dir.path(), 1).unwrap();
    for number in 0..3 {
        queue.append(Kind::Ledger, &payload(number, 0), false).unwrap();
    }
    fs::write(dir.path().join("0000000000000002.spool"), "nothing like a segment at all").unwrap();
    let mut queue = Queue::open(dir.path(), 1).unwrap();
    let damage = queue.take_damage();
    assert_eq!(damage[0].path, dir.path().join("0000000000000002.corrupt"));
    let left: Vec<Vec<u8>> = queue.peek(9, 9999).unwrap().records.into_iter().map(|record| record.payload).collect();
    assert_eq!(left, [payload(0, 0), payload(2, 0)]);
}
