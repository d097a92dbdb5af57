//! An engine with contador's tables, for the bill's tests, and the program run against it.
#![allow(dead_code, reason = "no test file needs all of it")]

use std::process::{Command, Output, Stdio};

use contador::store::{Store, migrate};
use contador_schemas::rows::Table;
use contador_tests::{Engine, binary};
use serde_json::Value;

/// The header of an allocations file.
#[allow(dead_code, reason = "not every test file imports")]
pub const HEADER: &str =
    "start,end,node,device,gpu_model,gpus,fraction,environment,department,project,experiment,user,service,job";

/// A running engine with empty tables in the database `contador`.
pub struct Bill {
    engine: Engine,
    folder: tempfile::TempDir,
    /// The library's way in.
    pub store: Store,
}

impl Bill {
    /// Starts the engine and makes the tables.
    pub async fn start() -> anyhow::Result<Self> {
        let engine = Engine::start()?;
        let client = engine.client().with_database("contador");
        let store = Store { client, url: engine.url().to_owned(), database: "contador".to_owned() };
        migrate::up(&store).await?;
        Ok(Self { engine, folder: tempfile::tempdir()?, store })
    }

    /// URL of the engine.
    #[allow(dead_code, reason = "not every test file starts a collector")]
    pub fn url(&self) -> &str {
        self.engine.url()
    }

    /// The engine.
    #[allow(dead_code, reason = "not every test file asks it by itself")]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Writes a file of the test's own folder, and returns its path.
    pub fn file(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// An allocations file with these lines.
    #[allow(dead_code, reason = "not every test file imports")]
    pub fn allocations(&self, name: &str, lines: &[&str]) -> anyhow::Result<String> {
        self.file(name, &format!("{HEADER}\n{}\n", lines.join("\n")))
    }

    /// Runs `contador` with these arguments, separated by spaces.
    pub fn contador(&self, arguments: &str) -> anyhow::Result<Output> {
        let mut command = Command::new(binary("contador")?);
        command.args(arguments.split(' ')).env("CONTADOR_CLICKHOUSE_URL", self.engine.url()).stdin(Stdio::null());
        Ok(command.output()?)
    }

    /// Runs `contador`, which must succeed, and returns its standard output.
    pub fn done(&self, arguments: &str) -> anyhow::Result<String> {
        let output = self.contador(arguments)?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "contador {arguments}: {}, {said}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs `contador report --format json` with more arguments.
    #[allow(dead_code, reason = "not every test file reports")]
    pub fn report(&self, arguments: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.done(&format!("report --format json {arguments}"))?)?)
    }

    /// Rows in a table after replacing.
    pub async fn count(&self, table: &str) -> anyhow::Result<u64> {
        Ok(self.store.client.query(&format!("SELECT count() FROM {table} FINAL")).fetch_one().await?)
    }

    /// Writes rows to their table.
    pub async fn insert<T: Table>(&self, rows: &[T]) -> anyhow::Result<()> {
        let mut insert = self.store.client.insert::<T>(T::TABLE).await?;
        for row in rows {
            insert.write(row).await?;
        }
        Ok(insert.end().await?)
    }
}

/// The exit code and the text of standard error of a run.
pub fn failed(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}
