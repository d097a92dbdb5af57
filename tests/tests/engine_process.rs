//! `contador clickhouse` as a process: what it refuses to start with, and what it says.

use std::process::{Command, Output};

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
    assert!(std::path::Path::new(path.trim_end()).is_file(), "{path}");
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
