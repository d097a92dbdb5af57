//! `contador import`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use super::Failure;
use crate::bill::{audit, import};
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
    /// Mark what is imported as generated, not measured
    #[arg(long)]
    simulated: bool,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// CSV with the header start,end,node,device,gpu_model,gpus,fraction,environment,department,project,experiment,user,service,job
    Allocations,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let Format::Allocations = args.format;
    let store = args.store.open()?;
    let runtime = super::runtime()?;
    let mut refused = 0;
    for path in &args.files {
        if let Err(error) = runtime.block_on(file(&store, path, args.simulated)) {
            eprintln!("{error:#}");
            refused += 1;
        }
    }
    if refused > 0 {
        return Err(anyhow::anyhow!("{refused} of {} files not imported", args.files.len()).into());
    }
    Ok(())
}

async fn file(store: &Store, path: &Path, simulated: bool) -> anyhow::Result<()> {
    let began = Instant::now();
    let (name, bar, reader) = opened(path)?;
    let imported = import::allocations(store, &name, reader, simulated).await;
    bar.finish_and_clear();
    let imported = imported?;
    let details = format!("{} allocations of {} owners", imported.allocations, imported.owners);
    audit::record(store, "import", &name, &details).await.with_context(|| format!("{name} is imported"))?;
    let told = format!(
        "{name}: imported {} allocations of {} owners in {:.1} s",
        imported.allocations,
        imported.owners,
        began.elapsed().as_secs_f64()
    );
    super::print(&told).map_err(Failure::into_error)
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
