//! `contador migrate`.

use contador_schemas::migrations::MIGRATIONS;

use super::{Failure, print, usage};
use crate::store::watch::chain;
use crate::store::{MigrateError, StoreArgs, cluster, migrate};

/// Arguments of `contador migrate`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print the statements that have not run yet, and run none.
    #[arg(long)]
    dry_run: bool,
    /// Print all statements for this cluster: replicated tables, and a distributed one over each (needs --dry-run).
    #[arg(long, value_name = "NAME", requires = "dry_run")]
    cluster: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let store = args.store.open()?;
    if let Some(cluster) = &args.cluster {
        return for_cluster(cluster, &store.database);
    }
    super::runtime()?.block_on(async {
        if args.dry_run {
            let pending = migrate::pending(&store, MIGRATIONS).await.map_err(failed)?;
            for migration in &pending {
                print(&format!("-- {} {}\n{};\n", migration.version, migration.name, migration.sql.trim_end()))?;
            }
            eprintln!("{} of {} statements have not run in {}", pending.len(), MIGRATIONS.len(), store.place());
        } else {
            let report = migrate::up(&store).await.map_err(failed)?;
            let ran = report.applied.len();
            let (place, version) = (store.place(), report.version);
            print(&format!("{place} is at schema version {version} ({ran} statements ran now)"))?;
        }
        Ok(())
    })
}

/// With each source said once: the client's errors repeat theirs.
fn failed(error: MigrateError) -> Failure {
    Failure::Running(anyhow::anyhow!(chain(&error)))
}

fn for_cluster(cluster: &str, database: &str) -> Result<(), Failure> {
    if cluster.is_empty() || !cluster.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
        return Err(usage(format!("--cluster {cluster:?}: expected letters, digits, '_', '-' and '.'")));
    }
    print(&format!("CREATE DATABASE IF NOT EXISTS {database} ON CLUSTER '{cluster}';\n"))?;
    for migration in MIGRATIONS {
        let statements = cluster::render(migration, cluster, database);
        let statements =
            statements.ok_or_else(|| anyhow::anyhow!("migration {} has no form for a cluster", migration.name))?;
        for statement in statements {
            print(&format!("{};\n", statement.trim_end()))?;
        }
    }
    Ok(())
}
