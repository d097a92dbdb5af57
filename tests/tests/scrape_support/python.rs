//! Servers that count with the stock Prometheus client for Python (`clients/services/exposed.py`).

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::sdk_support::installed;

/// A running server; it is killed when this is dropped.
pub struct Python {
    child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Where it listens.
    pub port: u16,
    format: &'static str,
}

impl Python {
    /// Starts one that shows `text` or `openmetrics`, at this port (0: any). Returns when it listens.
    pub fn start(port: u16, format: &'static str) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/services/exposed.py");
        let mut child = Command::new(installed("venv/bin/python"))
            .arg(program)
            .args([&port.to_string(), format])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (asked, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut server = Self { child, asked, answers, port, format };
        server.port = server.line().parse().unwrap();
        server
    }

    /// So many requests come to their end, each after so many seconds.
    pub fn serve(&mut self, requests: u64, seconds: f64) {
        writeln!(self.asked, "{requests} {seconds}").unwrap();
        assert_eq!(self.line(), "done");
    }

    /// It is killed, and another one is started in its place.
    pub fn restart(&mut self) {
        let (port, format) = (self.port, self.format);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        *self = Self::start(port, format);
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
