//! What Slurm's `sacct -P` prints to allocations: one for each job that had GPUs, and each GPU type of it.
//!
//! [`columns`] finds the columns by the header and cuts lines into fields, [`times`] and [`tres`] read Slurm's times and lists of
//! resources, and [`job`] makes allocations of a record. GPU time is Slurm's `Elapsed` times the number of GPUs, exactly: the time
//! for which a job was suspended is not in it, unless it is asked for. As nothing says when that was, it is taken from the end.
//!
//! A job that is resized has a record for each size. The later ones have the start and the elapsed time of the whole job, and only
//! their Submit is when they began: what lies before it is in the other record, and taken off.
//!
//! A job is told from others by its cluster, its number, its start and the GPU type, so that what is known of it later takes the
//! place of what was known when it still ran. Steps are in their jobs; jobs that did not start or had no GPUs are counted and left
//! out.

mod columns;
mod job;
#[cfg(test)]
mod tests;
mod times;
mod tres;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::BufRead;

use jiff::tz::TimeZone;
use uuid::Uuid;

use super::ImportError;
use super::figures::Skip;
use super::lines::{self, Faults, Format};
use super::parsed::{Line, Parsed};
pub use columns::USED;
use columns::{Column, Columns};

/// Whether a job is billed while it is suspended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Suspended {
    /// Not billed, as Slurm's Elapsed is without it
    #[default]
    Free,
    /// Billed: the job still holds its GPUs
    Held,
}

/// What a Slurm account is called in the bill.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum AccountIs {
    /// The department that pays
    Department,
    /// A project, whose department the dated directory has
    #[default]
    Project,
}

/// The column that an experiment is named by.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum ExperimentIs {
    /// JobName
    JobName,
    /// WCKey, without the * of a default one
    Wckey,
    /// Comment
    Comment,
}

impl ExperimentIs {
    const fn column(self) -> Column {
        match self {
            Self::JobName => Column::JobName,
            Self::Wckey => Column::WcKey,
            Self::Comment => Column::Comment,
        }
    }
}

/// How a file is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Zone of times without an offset.
    pub zone: TimeZone,
    /// Whether a job is billed while it is suspended.
    pub suspended: Suspended,
    /// What an account is.
    pub account: AccountIs,
    /// What an experiment is named by, if by anything.
    pub experiment: Option<ExperimentIs>,
    /// The price book's name of a GPU type of Slurm's, in lower case.
    pub models: BTreeMap<String, String>,
    /// The part of a GPU that a shard is, times `10^12`.
    pub shard: Option<i64>,
}

/// GPU type of GPUs that Slurm names none of.
pub const UNTYPED: &str = "gpu";

/// Reads a whole file. `name` is the file's name in messages and in the column `source`; `simulated` marks every allocation as
/// generated.
///
/// # Errors
/// [`ImportError::Read`], and [`ImportError::Refused`] with the faults.
pub fn parse(name: &str, reader: impl BufRead, options: &Options, simulated: bool) -> Result<Parsed, ImportError> {
    let mut parser = Parser {
        options,
        simulated,
        columns: None,
        is_hopeless: false,
        parsed: Parsed::new(name, simulated),
        owners: HashSet::new(),
        places: HashMap::new(),
        faults: Faults::default(),
    };
    lines::read(name, reader, &mut parser)?;
    Ok(parser.finish(name)?)
}

struct Parser<'o> {
    options: &'o Options,
    simulated: bool,
    columns: Option<Columns>,
    /// Nothing after this can be read: the header is wrong.
    is_hopeless: bool,
    parsed: Parsed,
    /// Owners in `parsed`.
    owners: HashSet<Uuid>,
    /// Where each allocation is in `parsed`.
    places: HashMap<Uuid, usize>,
    faults: Faults,
}

impl Format for Parser<'_> {
    fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    fn take(&mut self, line: &str) {
        let Some(columns) = self.columns.take() else { return self.header(line) };
        if !columns.is_header(line) {
            match columns.cut(line) {
                Ok(record) => self.job(&columns, &record),
                Err(expected) => self.faults.add("", line, expected),
            }
        }
        self.columns = Some(columns);
    }

    fn is_hopeless(&self) -> bool {
        self.is_hopeless
    }
}

impl Parser<'_> {
    fn header(&mut self, line: &str) {
        let experiment = self.options.experiment.map(ExperimentIs::column);
        self.columns = Some(Columns::read(line, experiment, &mut self.faults));
        self.is_hopeless = !self.faults.is_empty();
    }

    /// Adds an allocation, or puts it in place of an older record of the same. Whether the file had one before.
    fn add(&mut self, line: Line) -> bool {
        let Some(&place) = self.places.get(&line.id) else {
            let id = line.id;
            let place = self.parsed.push(line);
            self.places.insert(id, place);
            return false;
        };
        let is_older = |old: &Line| line.is_open && (!old.is_open || old.end >= line.end);
        if !self.parsed.lines().get(place).is_some_and(is_older) {
            self.parsed.replace(place, line);
        }
        true
    }

    fn skip(&mut self, why: Skip) {
        self.parsed.skip(why);
    }

    fn finish(mut self, name: &str) -> Result<Parsed, super::Refused> {
        if self.columns.is_none() && self.faults.is_empty() {
            self.faults.line = 1;
            self.faults.add("header", "", "the header that sacct -P prints without -n");
        }
        if self.faults.is_empty() { Ok(self.parsed) } else { Err(self.faults.refuse(name)) }
    }
}
