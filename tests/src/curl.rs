//! Asks the embedded engine by curl, as a person would.

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::Engine;

/// An answer as curl got it.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers, by name in lower case.
    pub headers: HashMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// curl's exit code: 18 is a body that broke off.
    pub exit: i32,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value; empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Runs curl with the URL's part behind the address, more arguments, and a body from its standard input.
///
/// # Errors
/// curl can't be run, or what it got is no answer.
pub fn curl(engine: &Engine, path: &str, arguments: &[&str], body: Option<&[u8]>) -> anyhow::Result<Answer> {
    let mut command = Command::new("curl");
    command.args(["-sS", "--include", "--max-time", "120", "-H", "Expect:"]).args(arguments);
    if body.is_some() {
        command.args(["--data-binary", "@-"]);
    }
    command.arg(format!("{}{path}", engine.url()));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("curl")?;
    let mut input = child.stdin.take().context("curl's input")?;
    let body = body.unwrap_or_default().to_vec();
    let feeding = std::thread::spawn(move || input.write_all(&body));
    let output = child.wait_with_output()?;
    // A refusal may come before all of the body is sent.
    let _ = feeding.join();
    let split = output.stdout.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("a header")?;
    let head = String::from_utf8_lossy(&output.stdout[..split]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("a status")?;
    let headers = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Ok(Answer { status, headers, body: output.stdout[split + 4..].to_vec(), exit: output.status.code().unwrap_or(-1) })
}

/// Posts a statement.
///
/// # Errors
/// curl can't be run, or what it got is no answer.
pub fn post(engine: &Engine, sql: &str) -> anyhow::Result<Answer> {
    curl(engine, "/", &[], Some(sql.as_bytes()))
}

/// The answer's text, of a statement that must succeed.
///
/// # Errors
/// curl can't be run, or what it got is no answer.
pub fn ask(engine: &Engine, sql: &str) -> anyhow::Result<String> {
    let answer = post(engine, sql)?;
    anyhow::ensure!(answer.status == 200, "{sql}: {}", answer.text());
    Ok(answer.text().trim_end().to_owned())
}

/// The shell's own compressors make the bodies, so that nothing of contador checks itself.
///
/// # Errors
/// The program can't be run.
pub fn piped(program: &str, arguments: &[&str], input: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut pipe = child.stdin.take().context("an input")?;
    let input = input.to_vec();
    let feeding = std::thread::spawn(move || pipe.write_all(&input));
    let output = child.wait_with_output()?;
    let _ = feeding.join();
    Ok(output.stdout)
}
