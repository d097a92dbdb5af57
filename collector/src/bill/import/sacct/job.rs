//! A record of `sacct` to allocations.

use contador_schemas::owner::Owner;
use uuid::{Uuid, uuid};

use super::super::lines::VALUE_MAX;
use super::super::parse::GPUS_MAX;
use super::columns::{Column, Columns, Record};
use super::times::{self, Instants};
use super::tres::{self, Gpus, Kind};
use super::{AccountIs, Line, Parser, Skip, Suspended, UNTYPED};
use crate::bill::decimal::ONE;
use crate::bill::period::LATEST_MS;

/// Name space of the ids of jobs (RFC 9562, version 5).
const NAMESPACE: Uuid = uuid!("8d871622-0f6c-4dd8-9729-73d878aa123b");

/// States of a job that has no end yet.
const ACTIVE: [&str; 3] = ["PENDING", "RUNNING", "SUSPENDED"];

/// States of a job that has one.
const ENDED: [&str; 12] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REQUEUED",
    "RESIZING",
    "REVOKED",
    "TIMEOUT",
];

/// What a record says of a job's time and GPUs.
struct Job<'l> {
    submit: Option<Instants>,
    start: Option<Instants>,
    end: Option<Instants>,
    /// Seconds, without those for which it was suspended.
    elapsed: i64,
    /// Seconds.
    suspended: i64,
    gpus: Vec<Gpus<'l>>,
}

impl Parser<'_> {
    /// Takes the record of a job, or of a step of one.
    pub(super) fn job(&mut self, columns: &Columns, record: &Record) {
        let number = record.get(Column::JobIdRaw);
        if is_step(number) {
            return self.skip(Skip::Step);
        }
        let before = self.faults.count();
        if !is_number(number) {
            self.fault(record, Column::JobIdRaw, "a job's number, or one with its step such as 12.batch");
        }
        for column in [Column::Cluster, Column::Account, Column::User, Column::JobId] {
            self.faults.check_text(column.name(), record.get(column));
        }
        let Some(job) = self.read(columns, record).filter(|_| self.faults.count() == before) else { return };
        let Some(start) = job.start else {
            if job.elapsed > 0 {
                self.fault(record, Column::Start, "a time, as the job ran");
            }
            return self.skip(Skip::NotStarted);
        };
        if job.gpus.is_empty() {
            return self.skip(if job.elapsed == 0 { Skip::NotStarted } else { Skip::WithoutGpus });
        }
        self.check_state(record, &job);
        self.allocate(record, &job, start);
    }

    fn read<'l>(&mut self, columns: &Columns, record: &Record<'l>) -> Option<Job<'l>> {
        let options = self.options;
        let submit = self.value(record, Column::Submit, |text| times::instants(text, &options.zone));
        let start = self.value(record, Column::Start, |text| times::instants(text, &options.zone));
        let end = self.value(record, Column::End, |text| times::instants(text, &options.zone));
        let elapsed = if columns.has(Column::ElapsedRaw) {
            self.value(record, Column::ElapsedRaw, times::seconds)
        } else {
            self.value(record, Column::Elapsed, times::duration)
        };
        let suspended = self.value(record, Column::Suspended, times::duration);
        let gpus = self.value(record, Column::AllocTres, |text| tres::gpus(text, GPUS_MAX));
        let (submit, start, end) = (submit?, start?, end?);
        let (elapsed, suspended, gpus) = (elapsed?, suspended?, gpus?);
        if options.shard.is_none() && gpus.iter().any(|gpus| gpus.kind == Kind::Shard) {
            self.fault(record, Column::AllocTres, "no shards, or --shards-per-gpu to say what they are");
            return None;
        }
        Some(Job { submit, start, end, elapsed, suspended, gpus })
    }

    /// A job that runs has no end: `sacct -T` puts one in, and cuts the start too.
    fn check_state(&mut self, record: &Record, job: &Job) {
        let state = record.get(Column::State).split([' ', '+']).next().unwrap_or_default();
        if job.end.is_some() && ACTIVE.contains(&state) {
            self.fault(record, Column::End, format!("Unknown, as the job is {state}; sacct must be called without -T"));
        } else if job.end.is_none() && ENDED.contains(&state) {
            self.fault(record, Column::End, format!("a time, as the job is {state}"));
        }
    }

    fn allocate(&mut self, record: &Record, job: &Job, start: Instants) {
        let Some(submit) = job.submit.map(|submit| submit.first) else {
            return self.fault(record, Column::Submit, "a time");
        };
        let first = self.began(job, start, submit);
        // A job that is resized gets a new record, of which only Submit is the time of that: what was before is in another one.
        let begins = first.max(submit);
        let before = (begins - first) / 1_000;
        if job.elapsed < before {
            let column = if record.get(Column::ElapsedRaw).is_empty() { Column::Elapsed } else { Column::ElapsedRaw };
            return self.fault(record, column, format!("at least the {before} seconds from Start to Submit"));
        }
        let span = job.elapsed - before + if self.options.suspended == Suspended::Held { job.suspended } else { 0 };
        if begins + span * 1_000 > LATEST_MS {
            return self.fault(record, Column::Start, "a job that ends before 2100");
        }
        let is_open = job.end.is_none();
        if span == 0 {
            self.skip(Skip::NoTime);
            if is_open {
                return;
            }
        }
        let owner = self.owner(record, span > 0);
        let mut has_repeated = false;
        for gpus in &job.gpus {
            if first > start.first {
                // It may have been taken for the earlier one of two when its end was not known yet.
                self.put(record, gpus, owner, (start.first, start.first), false);
            }
            has_repeated |= self.put(record, gpus, owner, (begins, begins + span * 1_000), is_open);
        }
        if has_repeated {
            self.skip(Skip::Repeated);
        }
    }

    /// When a job began, Unix milliseconds: where its start is two instants, the one that its end and its time agree with, else
    /// the one that it was submitted before, else the earlier one.
    fn began(&mut self, job: &Job, start: Instants, submit: i64) -> i64 {
        let Some(end) = job.end else {
            return start.each().find(|start| *start >= submit).unwrap_or(start.first);
        };
        let whole = (job.elapsed + job.suspended) * 1_000;
        let agreed = start.each().find(|start| end.each().any(|end| end - start == whole));
        if agreed.is_none() {
            let (jobs, _) = self.parsed.disputed.get_or_insert((0, self.faults.line));
            *jobs += 1;
        }
        agreed.unwrap_or(start.first)
    }

    fn put(&mut self, record: &Record, gpus: &Gpus, owner: Uuid, span: (i64, i64), is_open: bool) -> bool {
        let (start, end) = span;
        let [cluster, number] = [Column::Cluster, Column::JobIdRaw].map(|column| record.get(column));
        let identity = format!(
            "{} {}:{cluster} {number} {start} {}:{}",
            u8::from(self.simulated),
            cluster.len(),
            gpus.kind.as_str(),
            gpus.of_type
        );
        let of_type = if gpus.of_type.is_empty() { UNTYPED } else { gpus.of_type };
        let called = self.options.models.get(&of_type.to_ascii_lowercase());
        let gpu_model = called.map_or_else(|| tres::model(gpus.of_type), |called| called.as_str().into());
        let node = Some(record.get(Column::NodeList)).filter(|node| *node != "None assigned").unwrap_or_default();
        let line = Line {
            id: Uuid::new_v5(&NAMESPACE, identity.as_bytes()),
            start,
            end,
            fraction: match gpus.kind {
                Kind::Gpu => i64::try_from(ONE).unwrap_or(i64::MAX),
                Kind::Shard => self.options.shard.unwrap_or_default(),
            },
            owner,
            line: self.faults.line,
            gpus: gpus.count,
            node: self.parsed.number(node),
            device: self.parsed.number(""),
            gpu_model: self.parsed.number(&gpu_model),
            is_open,
        };
        self.add(line)
    }

    /// Whose a job is; kept if it has time.
    fn owner(&mut self, record: &Record, has_time: bool) -> Uuid {
        let text = |column| record.get(column).to_owned();
        let mut owner = Owner { cluster: text(Column::Cluster), user: text(Column::User), ..Owner::default() };
        owner.job = Some(text(Column::JobId)).filter(|job| !job.is_empty()).unwrap_or_else(|| text(Column::JobIdRaw));
        match self.options.account {
            AccountIs::Department => owner.department = text(Column::Account),
            AccountIs::Project => owner.project = text(Column::Account),
        }
        if let Some(experiment) = self.options.experiment {
            owner.experiment = label(record.get(experiment.column()), experiment.column() == Column::WcKey);
        }
        let id = owner.id();
        if has_time && self.owners.insert(id) {
            self.parsed.push_owner(&owner);
        }
        id
    }

    fn value<'l, T, E: Into<String>>(
        &mut self,
        record: &Record<'l>,
        column: Column,
        read: impl FnOnce(&'l str) -> Result<T, E>,
    ) -> Option<T> {
        let text = record.get(column);
        read(text).map_err(|expected| self.faults.add(column.name(), text, expected)).ok()
    }

    fn fault(&mut self, record: &Record, column: Column, expected: impl Into<String>) {
        self.faults.add(column.name(), record.get(column), expected);
    }
}

/// Whether this is the number of a job's step, such as `12.batch`, `12.0` or `12.extern`.
fn is_step(number: &str) -> bool {
    number.split_once('.').is_some_and(|(job, step)| is_number(job) && !step.is_empty())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// What a user wrote, as a label: nobody may stop the bill by the name of a job, so it is cut and cleaned, not refused.
fn label(text: &str, is_wckey: bool) -> String {
    // Slurm marks a key that nobody asked for.
    let text = if is_wckey { text.strip_prefix('*').unwrap_or(text) } else { text };
    let clean: String = text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    let clean = clean.trim();
    let end = clean.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= VALUE_MAX).last();
    clean[..end.unwrap_or_default()].trim_end().to_owned()
}
