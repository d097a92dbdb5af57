//! Lines to allocations and their owners; every fault with its line, its column, its value and what was expected.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::BufRead;

use contador_schemas::owner::Owner;
use thiserror::Error;
use uuid::{Uuid, uuid};

use super::ImportError;
use super::lines::{self, Faults, Format};
use super::parsed::{Line, Parsed};
use crate::bill::{decimal, period};

/// The columns of an allocations file. They may come in any order; none may be missing or come twice.
pub const HEADER: [&str; 14] = [
    "start",
    "end",
    "node",
    "device",
    "gpu_model",
    "gpus",
    "fraction",
    "environment",
    "department",
    "project",
    "experiment",
    "user",
    "service",
    "job",
];

/// Those of them that say whose the allocation is; the last of [`HEADER`].
pub(super) const OWNER_COLUMNS: [&str; 7] =
    ["environment", "department", "project", "experiment", "user", "service", "job"];

/// Name space of allocation ids (RFC 9562, version 5).
const NAMESPACE: Uuid = uuid!("0f4b0d0a-52a4-4f0e-8a52-7f3e0f2b61c5");

/// Most GPUs of one line.
pub(super) const GPUS_MAX: u32 = 1_000_000;

/// What is wrong in one place of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// From 1.
    pub line: u64,
    /// Column that is at fault, empty for the whole line.
    pub column: String,
    /// What stands there.
    pub value: String,
    /// What should.
    pub expected: String,
}

/// A file that was refused: nothing of it is stored.
#[derive(Debug, Error)]
pub struct Refused {
    /// The file.
    pub name: String,
    /// The first faults, in the file's order.
    pub faults: Vec<Fault>,
    /// How many more there are.
    pub more: usize,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            let end = if at == 0 { "" } else { "\n" };
            let column = if fault.column.is_empty() { String::new() } else { format!(" {}:", fault.column) };
            let value = if fault.value.is_empty() { "empty".to_owned() } else { format!("{:?}", fault.value) };
            write!(f, "{end}{}:{}:{column} {value}, expected {}", self.name, fault.line, fault.expected)?;
        }
        if self.more > 0 {
            write!(f, "\n{}: {} more faults", self.name, self.more)?;
        }
        write!(f, "\n{}: nothing of it is stored", self.name)
    }
}

/// Reads a whole allocations file. Its lines may end in LF or CRLF, empty ones are skipped, and a byte order mark is too.
///
/// # Errors
/// [`ImportError::Read`], and [`ImportError::Refused`] with the faults.
pub fn parse(name: &str, reader: impl BufRead, simulated: bool) -> Result<Parsed, ImportError> {
    let mut parser = Parser::new(name, simulated);
    lines::read(name, reader, &mut parser)?;
    Ok(parser.finish()?)
}

/// Where each column of [`HEADER`] stands in a line.
type Columns = [usize; HEADER.len()];

struct Parser<'a> {
    name: &'a str,
    simulated: bool,
    columns: Option<Columns>,
    /// Nothing after this can be read: the header is wrong.
    hopeless: bool,
    parsed: Parsed,
    /// Owners in `parsed`.
    owners: HashSet<Uuid>,
    /// How often each content was met.
    met: HashMap<Uuid, u64>,
    faults: Faults,
}

impl Format for Parser<'_> {
    fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    fn take(&mut self, line: &str) {
        let Some(fields) = lines::csv(line, &mut self.faults) else { return };
        match self.columns {
            None => self.header(&fields),
            Some(columns) if fields.len() == columns.len() => self.allocation(&columns.map(|at| fields[at].as_str())),
            Some(columns) => self.fault("", line, format!("{} fields, found {}", columns.len(), fields.len())),
        }
    }

    fn is_hopeless(&self) -> bool {
        self.hopeless
    }
}

impl<'a> Parser<'a> {
    fn new(name: &'a str, simulated: bool) -> Self {
        Self {
            name,
            simulated,
            columns: None,
            hopeless: false,
            parsed: Parsed::new(name, simulated),
            owners: HashSet::new(),
            met: HashMap::new(),
            faults: Faults::default(),
        }
    }

    fn fault(&mut self, column: &str, value: &str, expected: impl Into<String>) {
        self.faults.add(column, value, expected);
    }

    fn header(&mut self, names: &[String]) {
        let faults = self.faults.count();
        let mut seen = HashSet::new();
        for name in names {
            if !HEADER.contains(&name.as_str()) {
                let nearest = HEADER
                    .iter()
                    .max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
                let nearest = nearest.filter(|near| strsim::jaro_winkler(name, near) > 0.8);
                let hint = nearest.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                self.fault("header", name, format!("only the columns {}{hint}", HEADER.join(",")));
            } else if !seen.insert(name) {
                self.fault("header", name, "each column once");
            }
        }
        for column in HEADER {
            if !names.iter().any(|name| name == column) {
                self.fault("header", &names.join(","), format!("the column {column} too"));
            }
        }
        self.hopeless = self.faults.count() > faults;
        self.columns = Some(HEADER.map(|column| names.iter().position(|name| name == column).unwrap_or_default()));
    }

    fn allocation(&mut self, values: &[&str; HEADER.len()]) {
        let before = self.faults.count();
        for (column, value) in HEADER.into_iter().zip(values) {
            self.faults.check_text(column, value);
        }
        if self.faults.count() > before {
            return;
        }
        let [start, end, node, device, gpu_model, gpus, fraction, owner @ ..] = values;
        let from = self.value("start", start, period::instant(start));
        let to = self.value("end", end, period::instant(end));
        let count = self.value("gpus", gpus, whole(gpus));
        let part = self.value("fraction", fraction, part(fraction));
        if let (Some(from), Some(to)) = (from, to)
            && from >= to
        {
            self.fault("end", end, format!("a time after the start {start}"));
        }
        let (Some(start), Some(end), Some(gpus), Some(fraction)) = (from, to, count, part) else { return };
        if self.faults.count() > before {
            return;
        }
        let owner = self.owner(owner);
        let content = format!(
            "{start} {end} {gpus} {fraction} {owner} {} {}:{node} {}:{device} {gpu_model}",
            u8::from(self.simulated),
            node.len(),
            device.len(),
        );
        let content = Uuid::new_v5(&NAMESPACE, content.as_bytes());
        let met = self.met.entry(content).or_default();
        let id = Uuid::new_v5(&content, &met.to_be_bytes());
        *met += 1;
        let [node, device, gpu_model] = [node, device, gpu_model].map(|text| self.parsed.number(text));
        let line = self.faults.line;
        self.parsed.push(Line { id, start, end, fraction, owner, line, gpus, node, device, gpu_model, is_open: false });
    }

    fn value<T>(&mut self, column: &str, text: &str, read: Result<T, &'static str>) -> Option<T> {
        read.map_err(|expected| self.fault(column, text, expected)).ok()
    }

    fn owner(&mut self, values: &[&str; OWNER_COLUMNS.len()]) -> Uuid {
        let mut owner = Owner::default();
        for (name, value) in OWNER_COLUMNS.into_iter().zip(values) {
            owner.set(name, value);
        }
        let id = owner.id();
        if self.owners.insert(id) {
            self.parsed.push_owner(&owner);
        }
        id
    }

    fn finish(mut self) -> Result<Parsed, Refused> {
        if self.columns.is_none() && self.faults.is_empty() {
            self.faults.line = 1;
            self.fault("header", "", HEADER.join(","));
        }
        if self.faults.is_empty() {
            return Ok(self.parsed);
        }
        Err(self.faults.refuse(self.name))
    }
}

fn whole(text: &str) -> Result<u32, &'static str> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = digits.then(|| text.parse::<u32>().ok()).flatten();
    count.filter(|count| (1..=GPUS_MAX).contains(count)).ok_or("a whole number from 1 to 1000000")
}

fn part(text: &str) -> Result<i64, &'static str> {
    let value = decimal::parse(text)?;
    let value = Some(value).filter(|value| (1..=decimal::ONE).contains(value));
    value.and_then(|value| i64::try_from(value).ok()).ok_or("a decimal above 0 and up to 1")
}
