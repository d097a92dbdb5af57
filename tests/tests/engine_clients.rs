//! The embedded engine and the clients of strangers: clickhouse-connect for Python and @clickhouse/client for Node.
//! Each script under `clients/` holds its own checks; a failed one fails the script, and with it the test.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use contador_tests::{Engine, binary};

const PASSWORD: &str = "p'a\"s s:wörd";

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// What `clients/setup.sh` installed.
fn installed(path: &str) -> anyhow::Result<PathBuf> {
    let target = binary("contador")?.parent().and_then(Path::parent).context("the target folder")?.join("clients");
    let path = target.join(path);
    ensure!(path.exists(), "{} is missing; run `make test-deps` (tests/clients/setup.sh) first", path.display());
    Ok(path)
}

fn run(command: &mut Command, checks: usize) -> anyhow::Result<()> {
    let engine = Engine::start_with(&["--user", "stranger"], Some(PASSWORD))?;
    let output = command.arg(engine.port().to_string()).args(["stranger", PASSWORD]).output()?;
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{said}{complained}\nthe engine said: {}", engine.log());
    ensure!(said.matches(" passed").count() == checks, "expected {checks} checks to pass: {said}");
    println!("{said}");
    Ok(())
}

#[test]
fn clickhouse_connect_finds_a_server() -> anyhow::Result<()> {
    let python = installed("venv/bin/python")?;
    run(Command::new(python).arg(scripts().join("connect.py")), 8)
}

#[test]
fn the_node_client_finds_a_server() -> anyhow::Result<()> {
    let modules = installed("node/node_modules")?;
    run(Command::new("node").env("NODE_PATH", modules).arg(scripts().join("node/client.cjs")), 8)
}
