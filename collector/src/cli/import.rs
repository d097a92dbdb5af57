//! `contador import`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{Failure, usage};
use crate::bill::import::sacct::{AccountIs, ExperimentIs, Options, Suspended};
use crate::bill::import::{self, Figures, sacct};
use crate::bill::{audit, decimal, period};
use crate::store::{Store, StoreArgs};

/// Arguments of `contador import`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What the files are
    #[arg(long, value_enum)]
    format: Format,
    /// The files; - is standard input. A file with a fault is refused whole, and the others are imported
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read and check everything and say what it comes to, but store nothing; needs no store
    #[arg(long)]
    dry_run: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// Mark what is imported as generated, not measured
    #[arg(long)]
    simulated: bool,
    #[command(flatten)]
    slurm: SlurmArgs,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Format {
    /// CSV with the header start,end,node,device,gpu_model,gpus,fraction,environment,department,project,experiment,user,service,job
    Allocations,
    /// What Slurm prints for: sacct -a -D -P -S START -E END --format=JobIDRaw,JobID,Cluster,Account,User,State,Submit,Start,End,ElapsedRaw,Suspended,AllocTRES,NodeList
    Sacct,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "With --format sacct")]
struct SlurmArgs {
    /// Zone of the times, an IANA name such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Whether a job is billed while it is suspended [default: free]
    #[arg(long, value_enum)]
    suspended: Option<Suspended>,
    /// What a Slurm account is called in the bill [default: project]
    #[arg(long, value_enum)]
    account: Option<AccountIs>,
    /// What to name experiments by: a column that users may write anything in [default: nothing]
    #[arg(long, value_enum)]
    experiment: Option<ExperimentIs>,
    /// What the price book calls a GPU type of Slurm's, such as h100="NVIDIA H100 80GB HBM3"; the type gpu is that of GPUs
    /// without one. Others keep Slurm's name
    #[arg(long, value_name = "TYPE=MODEL", value_parser = gpu_model)]
    gpu_model: Vec<(String, String)>,
    /// How many shards a GPU has: a number that 1 can be divided by without a rest in 12 decimals, such as 8 or 10
    #[arg(long, value_name = "N", value_parser = shard)]
    shards_per_gpu: Option<i64>,
}

fn gpu_model(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(of_type, model)| (of_type.trim(), model.trim()));
    let pair = pair.filter(|(of_type, model)| !of_type.is_empty() && !model.is_empty());
    let (of_type, model) = pair.ok_or("expected TYPE=MODEL, such as h100=NVIDIA H100 80GB HBM3")?;
    Ok((of_type.to_ascii_lowercase(), model.to_owned()))
}

/// The part of a GPU that a shard is, times `10^12`.
fn shard(text: &str) -> Result<i64, String> {
    let count = text.parse::<i128>().ok().filter(|count| *count > 0 && decimal::ONE % count == 0);
    let part = count.and_then(|count| i64::try_from(decimal::ONE / count).ok());
    part.ok_or_else(|| {
        "expected a number that 1 can be divided by without a rest in 12 decimals, such as 8 or 10".to_owned()
    })
}

impl SlurmArgs {
    /// The first option that was given.
    fn given(&self) -> Option<&'static str> {
        let given = [
            ("--time-zone", self.time_zone.is_some()),
            ("--suspended", self.suspended.is_some()),
            ("--account", self.account.is_some()),
            ("--experiment", self.experiment.is_some()),
            ("--gpu-model", !self.gpu_model.is_empty()),
            ("--shards-per-gpu", self.shards_per_gpu.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    fn options(&self) -> Result<Options, Failure> {
        let mut models = BTreeMap::new();
        for (of_type, model) in &self.gpu_model {
            if models.insert(of_type.clone(), model.clone()).is_some() {
                return Err(usage(format!("--gpu-model {of_type}: expected each type once")));
            }
        }
        let zone = self.time_zone.as_deref().unwrap_or("UTC");
        Ok(Options {
            zone: period::zone(zone).map_err(|error| Failure::Usage(error.into()))?,
            suspended: self.suspended.unwrap_or_default(),
            account: self.account.unwrap_or_default(),
            experiment: self.experiment,
            models,
            shard: self.shards_per_gpu,
        })
    }
}

/// What is done with every file.
struct Import {
    /// How to read sacct's; none for allocations.
    slurm: Option<Options>,
    simulated: bool,
    /// None for a dry run.
    store: Option<(Store, Runtime)>,
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let slurm = match (args.format, args.slurm.given()) {
        (Format::Sacct, _) => Some(args.slurm.options()?),
        (Format::Allocations, None) => None,
        (Format::Allocations, Some(option)) => return Err(usage(format!("{option} is only for --format sacct"))),
    };
    let store = if args.dry_run { None } else { Some((args.store.open()?, super::runtime()?)) };
    let import = Import { slurm, simulated: args.simulated, store, json: args.json };
    let mut files = Vec::new();
    let mut refused = 0;
    for path in &args.files {
        match import.file(path) {
            Ok(file) => files.push(file),
            Err(error) => {
                eprintln!("{error:#}");
                refused += 1;
            }
        }
    }
    if args.json {
        let told = json!({ "dry_run": args.dry_run, "files": files, "refused": refused });
        super::print(&serde_json::to_string_pretty(&told)?)?;
    }
    if refused > 0 {
        let what = if args.dry_run { "can't be imported" } else { "not imported" };
        return Err(anyhow::anyhow!("{refused} of {} files {what}", args.files.len()).into());
    }
    Ok(())
}

impl Import {
    /// Imports a file, tells what it came to unless that is for JSON, and returns it as JSON.
    fn file(&self, path: &Path) -> anyhow::Result<Value> {
        let began = Instant::now();
        let (name, bar, reader) = opened(path)?;
        let done = self.read(&name, reader);
        bar.finish_and_clear();
        let figures = done?;
        if !self.json {
            let (what, took) = match self.store {
                Some(_) => ("imported", format!(", in {:.1} s", began.elapsed().as_secs_f64())),
                None => ("would import", String::new()),
            };
            super::print(&format!("{name}{took}: {what} {figures}")).map_err(Failure::into_error)?;
        }
        Ok(figures.to_json(&name))
    }

    fn read(&self, name: &str, reader: impl BufRead) -> anyhow::Result<Figures> {
        let parsed = match &self.slurm {
            Some(options) => sacct::parse(name, reader, options, self.simulated)?,
            None => import::parse(name, reader, self.simulated)?,
        };
        Ok(match &self.store {
            Some((store, runtime)) => runtime.block_on(write(store, name, parsed))?,
            None => Figures::of(&parsed),
        })
    }
}

/// Imports what was read of a file, and tells the audit log.
async fn write(store: &Store, name: &str, parsed: import::Parsed) -> anyhow::Result<Figures> {
    let figures = import::write(store, name, parsed).await?;
    let details = format!("{} allocations of {} owners", figures.allocations, figures.owners);
    audit::record(store, "import", name, &details).await.with_context(|| format!("{name} is imported"))?;
    Ok(figures)
}

/// A file, or standard input for -: its name in messages, how far it was read, and itself.
pub(super) fn opened(path: &Path) -> anyhow::Result<(String, ProgressBar, impl BufRead)> {
    let (name, length, reader): (_, _, Box<dyn Read>) = if path == Path::new("-") {
        ("stdin".to_owned(), None, Box::new(stdin().lock()))
    } else {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("{name}: cannot be opened"))?;
        let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
        (name, length, Box::new(file))
    };
    // Draws nothing unless standard error is a terminal.
    let bar = match length {
        Some(length) => {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}")?;
            ProgressBar::new(length).with_style(style)
        }
        None => ProgressBar::new_spinner(),
    };
    bar.set_message(name.clone());
    let reader = BufReader::with_capacity(1 << 16, bar.wrap_read(reader));
    Ok((name, bar, reader))
}
