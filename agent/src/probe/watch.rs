//! `--watch`: a report after the other, until told to end.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;

use super::take::{PATIENCE, Prober};
use super::{ProbeReport, render_json, render_painted, render_table};

/// How reports are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// For people.
    Table,
    /// As JSON; on one line each if there are several.
    Json,
}

/// Where reports go: standard output.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    form: Form,
    is_terminal: bool,
    colour: bool,
}

impl Screen {
    /// Standard output as it is. There is colour on a terminal alone, and not where `NO_COLOR` is set.
    pub fn of(form: Form) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        Self { form, is_terminal, colour: is_terminal && !unwanted }
    }

    /// One report, whole.
    pub fn whole(&self, report: &ProbeReport) -> String {
        match self.form {
            Form::Json => format!("{:#}\n", render_json(report)),
            Form::Table if self.colour => render_painted(report, size().0),
            Form::Table => render_table(report, size().0),
        }
    }

    /// One of several: in place of the last on a terminal, else below it.
    fn next(&self, report: &ProbeReport) -> String {
        match self.form {
            Form::Json => format!("{}\n", render_json(report)),
            Form::Table if self.is_terminal => redrawn(&self.whole(report), size().1),
            Form::Table => format!("{}\n", self.whole(report)),
        }
    }
}

/// Columns and lines of the terminal; of none: what `COLUMNS` says, else 80.
fn size() -> (u16, u16) {
    let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let said = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let columns = terminal.map(|size| size.ws_col).filter(|&columns| columns > 0).or_else(said).unwrap_or(80);
    (columns, terminal.map_or(0, |size| size.ws_row))
}

/// The text from the top of the screen, with what was there before cleared line by line, so that nothing flickers.
fn redrawn(text: &str, rows: u16) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = usize::from(rows).saturating_sub(1);
    let (shown, hidden) = match lines.len() {
        count if room == 0 || count <= room => (&lines[..], 0),
        count => (&lines[..room - 1], count - (room - 1)),
    };
    let mut out = String::from("\x1b[H");
    shown.iter().for_each(|line| out += &format!("{line}\x1b[K\n"));
    if hidden > 0 {
        out += &format!("{hidden} more lines: make the window taller\x1b[K\n");
    }
    out + "\x1b[J"
}

/// Writes a report every `interval`, until `end`. A reader that has left is an end, too.
///
/// # Errors
/// As [`Prober::take`], and when standard output can't be written.
pub async fn run(
    prober: &mut Prober,
    screen: Screen,
    interval: Duration,
    end: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    tokio::pin!(end);
    let mut next = tokio::time::interval(interval);
    next.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut is_first = true;
    loop {
        let report = tokio::select! {
            report = async {
                next.tick().await;
                // What hangs is waited for once, and then it holds up nothing.
                let patience = if is_first { PATIENCE } else { (interval * 4 / 5).min(PATIENCE) };
                prober.take(patience).await
            } => report?,
            () = &mut end => return Ok(()),
        };
        is_first = false;
        let text = screen.next(&report);
        // A reader that does not read must not keep it from ending.
        let written = tokio::task::spawn_blocking(move || {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        });
        let written = tokio::select! {
            written = written => written.context("cannot write to standard output")?,
            () = &mut end => return Ok(()),
        };
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("cannot write to standard output")?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_the_window_is_said_to_be_there() {
        assert_eq!(redrawn("a\nb\n", 24), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(
            redrawn("a\nb\nc\nd\n", 4),
            "\x1b[Ha\x1b[K\nb\x1b[K\n2 more lines: make the window taller\x1b[K\n\x1b[J"
        );
        assert_eq!(redrawn("a\nb\n", 0), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J", "no known height");
    }
}
