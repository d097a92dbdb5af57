//! `contador clickhouse` as a process: what it refuses to start with, and what it says.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use contador_tests::{Engine, binary};

fn clickhouse(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Output> {
    let mut command = Command::new(binary("contador")?);
    command.arg("clickhouse").args(arguments).envs(environment.iter().copied());
    for name in ["CONTADOR_ENGINE_PASSWORD", "CONTADOR_ENGINE_PASSWORD_FILE"] {
        if !environment.iter().any(|pair| pair.0 == name) {
            command.env_remove(name);
        }
    }
    Ok(command.output()?)
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn one_process_has_a_folder_at_a_time() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let path = engine.path();
    let path = path.to_str().expect("a readable path");
    let second = clickhouse(&["--path", path, "--listen", "127.0.0.1:0"], &[])?;
    assert_eq!(second.status.code(), Some(1));
    let text = complaint(&second);
    assert!(text.contains(path) && text.contains(&format!("process {}", engine.pid())), "{text}");
    Ok(())
}

#[test]
fn a_used_port_is_named() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let folder = tempfile::tempdir()?;
    let listen = format!("127.0.0.1:{}", engine.port());
    let second = clickhouse(&["--listen", &listen, "--path", folder.path().to_str().expect("a readable path")], &[])?;
    assert_eq!(second.status.code(), Some(1));
    assert!(complaint(&second).contains(&listen), "{}", complaint(&second));
    Ok(())
}

#[test]
fn other_machines_need_a_password() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let arguments = ["--listen", "0.0.0.0:0", "--path", folder.path().to_str().expect("a readable path")];
    for environment in [&[][..], &[("CONTADOR_ENGINE_PASSWORD", "")]] {
        let refused = clickhouse(&arguments, environment)?;
        assert_eq!(refused.status.code(), Some(2));
        let text = complaint(&refused);
        assert!(text.contains("0.0.0.0:0") && text.contains("CONTADOR_ENGINE_PASSWORD"), "{text}");
    }
    let missing = clickhouse(&arguments, &[("CONTADOR_ENGINE_PASSWORD_FILE", "/nowhere/password")])?;
    assert_eq!(missing.status.code(), Some(2));
    assert!(complaint(&missing).contains("/nowhere/password"), "{}", complaint(&missing));
    Ok(())
}

#[test]
fn a_library_that_is_none_is_named() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("libchdb.so");
    std::fs::write(&file, "no library")?;
    let name = file.to_str().expect("a readable path");
    let arguments = ["--listen", "127.0.0.1:0", "--path", folder.path().to_str().expect("a readable path")];
    let refused = clickhouse(&arguments, &[("CONTADOR_CHDB_LIB", name)])?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(complaint(&refused).contains(name), "{}", complaint(&refused));
    let absent = clickhouse(&arguments, &[("CONTADOR_CHDB_LIB", "/nowhere/libchdb.so")])?;
    assert!(complaint(&absent).contains("/nowhere/libchdb.so"), "{}", complaint(&absent));
    Ok(())
}

#[test]
fn the_library_is_fetched_once_and_named() -> anyhow::Result<()> {
    let first = clickhouse(&["--fetch-only"], &[])?;
    assert!(first.status.success(), "{}", complaint(&first));
    let path = String::from_utf8(first.stdout)?;
    assert!(Path::new(path.trim_end()).is_file(), "{path}");
    let again = clickhouse(&["--fetch-only"], &[])?;
    assert_eq!((String::from_utf8(again.stdout)?, again.stderr), (path, Vec::new()));
    Ok(())
}

#[tokio::test]
async fn a_query_that_needs_too_much_memory_fails_alone() -> anyhow::Result<()> {
    let engine = Engine::start_with(&["--max-memory", "600MiB"], None)?;
    let client = engine.client();
    let hungry = client.query("SELECT length(groupArray(toString(number))) FROM numbers(100000000)").fetch_one::<u64>();
    let failure = hungry.await.expect_err("too much");
    assert!(failure.to_string().contains("Code: 241."), "{failure}");
    assert_eq!(client.query("SELECT 1::UInt8").fetch_one::<u8>().await?, 1);
    Ok(())
}

/// A folder with a program `npm` that says that it ran, and then does what this script says.
fn fake_npm(script: &str) -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("npm");
    std::fs::write(&path, format!("#!/bin/sh\necho ran >> {}/log\n{script}\n", folder.path().display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

fn fetch_with(npm: &Path, cache: &Path) -> anyhow::Result<Child> {
    let path = format!("{}:/usr/bin:/bin", npm.display());
    let mut command = Command::new(binary("contador")?);
    command.args(["clickhouse", "--fetch-only"]).env("PATH", path).env("XDG_CACHE_HOME", cache);
    Ok(command.env_remove("CONTADOR_CHDB_LIB").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

#[test]
fn several_that_fetch_at_once_fetch_once() -> anyhow::Result<()> {
    let library = "node_modules/@chdb/lib-linux-x64-gnu/libchdb.so";
    let script =
        format!("grep -q integrity package-lock.json && sleep 0.3 && mkdir -p $(dirname {library}) && touch {library}");
    let npm = fake_npm(&script)?;
    let cache = tempfile::tempdir()?;
    let fetching: Vec<Child> = (0..4).map(|_| fetch_with(npm.path(), cache.path())).collect::<Result<_, _>>()?;
    for child in fetching {
        let output = child.wait_with_output()?;
        assert!(output.status.success(), "{}", complaint(&output));
        let path = PathBuf::from(String::from_utf8(output.stdout)?.trim_end());
        assert!(path.starts_with(cache.path()) && path.is_file(), "{}", path.display());
    }
    assert_eq!(std::fs::read_to_string(npm.path().join("log"))?, "ran\n");
    Ok(())
}

#[test]
fn a_failed_fetch_says_what_npm_said_and_leaves_nothing_that_looks_whole() -> anyhow::Result<()> {
    let npm = fake_npm("echo 'npm error code EINTEGRITY' >&2; exit 1")?;
    let cache = tempfile::tempdir()?;
    for _ in 0..2 {
        let output = fetch_with(npm.path(), cache.path())?.wait_with_output()?;
        assert_eq!(output.status.code(), Some(1));
        assert!(complaint(&output).contains("EINTEGRITY"), "{}", complaint(&output));
    }
    assert_eq!(std::fs::read_to_string(npm.path().join("log"))?, "ran\nran\n");
    let nothing = tempfile::tempdir()?;
    let mut command = Command::new(binary("contador")?);
    command.args(["clickhouse", "--fetch-only"]).env("PATH", nothing.path()).env("XDG_CACHE_HOME", cache.path());
    let output = command.env_remove("CONTADOR_CHDB_LIB").output()?;
    assert!(complaint(&output).contains("install npm, or set CONTADOR_CHDB_LIB"), "{}", complaint(&output));
    Ok(())
}
