//! The live view: devices, this machine's disks, p99s as intervals, last month's bill. On a terminal it is drawn over and
//! over; elsewhere a line of the same is printed now and then.

use std::io::IsTerminal;
use std::time::Duration;

use contador_schemas::quantile::{Answer, State};
use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

use super::live::Snapshot;

/// One line of the bill.
#[derive(Clone, Debug)]
pub(super) struct BillLine {
    pub(super) department: String,
    pub(super) gpu_hours: String,
    pub(super) cost: String,
}

/// What does not change while the demo runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Fixed {
    pub(super) engine_version: String,
    pub(super) clickhouse: String,
    pub(super) month: String,
    pub(super) currency: String,
    pub(super) bill: Vec<BillLine>,
    pub(super) bill_total: String,
}

/// Where the view goes.
pub(super) enum View {
    /// Drawn on a terminal.
    Screen(Box<ratatui::DefaultTerminal>),
    /// Printed as lines, every so many calls.
    Lines(u64),
    /// Nothing but the last line.
    Quiet,
}

impl View {
    /// Quiet when the output is for programs; drawn when it is a terminal.
    pub(super) fn open(json: bool) -> Self {
        if json {
            Self::Quiet
        } else if std::io::stdout().is_terminal() {
            Self::Screen(Box::new(ratatui::init()))
        } else {
            Self::Lines(0)
        }
    }

    /// Shows the state after `elapsed`.
    pub(super) fn show(&mut self, fixed: &Fixed, snapshot: &Snapshot, elapsed: Duration) -> std::io::Result<()> {
        match self {
            Self::Screen(terminal) => {
                terminal.draw(|frame| draw(frame, fixed, snapshot, elapsed))?;
            }
            Self::Lines(calls) => {
                if calls.is_multiple_of(10) {
                    println!("{}", line(snapshot, elapsed));
                }
                *calls += 1;
            }
            Self::Quiet => {}
        }
        Ok(())
    }

    /// Whether the user asked to end: `q`, Escape or Ctrl-C on the drawn view.
    pub(super) fn asked_to_end(&self) -> std::io::Result<bool> {
        if !matches!(self, Self::Screen(_)) {
            return Ok(false);
        }
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()? {
                let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if matches!(self, Self::Screen(_)) {
            ratatui::restore();
        }
    }
}

fn draw(frame: &mut Frame<'_>, fixed: &Fixed, snapshot: &Snapshot, elapsed: Duration) {
    let devices = lines_for(snapshot.devices.len());
    let disks = lines_for(snapshot.disks.len()).min(8);
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(devices),
        Constraint::Length(disks),
        Constraint::Length(lines_for(snapshot.p99.len())),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .split(frame.area());
    header(frame, areas[0], fixed, snapshot, elapsed);
    device_table(frame, areas[1], snapshot);
    disk_table(frame, areas[2], snapshot);
    latency_table(frame, areas[3], snapshot);
    bill_table(frame, areas[4], fixed);
    let hint = format!(
        "q quits · agent: {} · curl '{}/?database=contador' -d 'SHOW TABLES'",
        snapshot.agent, fixed.clickhouse
    );
    frame.render_widget(Paragraph::new(hint).dim(), areas[5]);
}

/// A rule above, the head and the rows.
fn lines_for(rows: usize) -> u16 {
    u16::try_from(rows.max(1)).unwrap_or(u16::MAX).saturating_add(2)
}

fn header(frame: &mut Frame<'_>, area: Rect, fixed: &Fixed, snapshot: &Snapshot, elapsed: Duration) {
    let mut spans = vec![Span::from("contador demo").bold()];
    if snapshot.devices.iter().any(|device| device.simulated) {
        spans.push(Span::styled("  SIMULATED GPUs", Style::new().fg(Color::Yellow).bold()));
    }
    spans.push(Span::from(format!("  {} s", elapsed.as_secs())));
    if let Some(node) = &snapshot.node {
        let busy = if node.cpu_busy.is_finite() { format!("{:.0}%", node.cpu_busy * 100.0) } else { "–".to_owned() };
        spans.push(Span::from(format!(
            "  {}: CPU {busy}, {} of {} free",
            node.node,
            gib(node.memory_available),
            bytes(node.memory_total)
        )));
    }
    spans.push(Span::from(format!("  ClickHouse {}", fixed.engine_version)));
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn device_table(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let rows = snapshot.devices.iter().map(|device| {
        let utilization = device.utilization.map_or_else(|| "unsupported".to_owned(), |share| gauge(f64::from(share)));
        let memory = match (device.memory_used, device.memory_total) {
            (Some(used), Some(total)) => format!("{} of {}", gib(used), bytes(total)),
            _ => "–".to_owned(),
        };
        let power = device.power_mw.map_or_else(|| "–".to_owned(), |power| format!("{} W", power / 1000));
        let owners =
            if device.owners.is_empty() { "first minute still open".to_owned() } else { device.owners.clone() };
        let id: String = device.device.chars().skip_while(|letter| *letter != '-').skip(1).take(4).collect();
        Row::new([format!("{id} {}", short_model(&device.model)), utilization, memory, power, owners])
    });
    // At 80 columns, 25 are left for the owners.
    let widths = [
        Constraint::Length(19),
        Constraint::Length(11),
        Constraint::Length(16),
        Constraint::Length(5),
        Constraint::Fill(1),
    ];
    let is_simulated = snapshot.devices.iter().any(|device| device.simulated);
    let title = if is_simulated { "GPUs, pods and jobs (simulated)" } else { "GPUs" };
    let head = Row::new(["device", "busy", "memory", "power", "owners of the last minute"]).bold();
    frame.render_widget(Table::new(rows, widths).header(head).block(panel(title)), area);
}

fn disk_table(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let rows = snapshot.disks.iter().map(|disk| {
        Row::new([
            disk.device.clone(),
            format!("{}/s", bytes_of(disk.read_rate)),
            format!("{}/s", bytes_of(disk.write_rate)),
            disk.in_flight.to_string(),
        ])
    });
    let widths = [Constraint::Length(14), Constraint::Length(15), Constraint::Length(15), Constraint::Fill(1)];
    let head = Row::new(["disk", "read", "written", "in flight"]).bold();
    frame.render_widget(Table::new(rows, widths).header(head).block(panel("this machine's disks")), area);
}

fn latency_table(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot) {
    let rows = snapshot.p99.iter().map(|(label, answer)| {
        let colour = if answer.state == State::Ok { Color::Green } else { Color::Yellow };
        Row::new([
            Cell::from(*label),
            Cell::from(interval(answer)),
            Cell::from(state(answer)).style(Style::new().fg(colour)),
            Cell::from(answer.n.to_string()),
        ])
    });
    let widths = [Constraint::Length(14), Constraint::Length(31), Constraint::Length(18), Constraint::Fill(1)];
    let head = Row::new(["seen by", "p99 lies between", "state", "requests"]).bold();
    frame.render_widget(
        Table::new(rows, widths).header(head).block(panel("latency of demo-api, last five minutes")),
        area,
    );
}

fn bill_table(frame: &mut Frame<'_>, area: Rect, fixed: &Fixed) {
    let rows = fixed
        .bill
        .iter()
        .map(|line| Row::new([line.department.clone(), right(&line.gpu_hours, 16), right(&line.cost, 18)]));
    let widths = [Constraint::Length(20), Constraint::Length(16), Constraint::Length(18)];
    let head = Row::new(["department".to_owned(), right("GPU-hours", 16), right(&fixed.currency, 18)]).bold();
    let title = format!("bill of {} (sample fleet, generated)", fixed.month);
    frame.render_widget(Table::new(rows, widths).header(head).block(panel(title)), area);
}

/// The state as one line for logs.
fn line(snapshot: &Snapshot, elapsed: Duration) -> String {
    let simulated = if snapshot.devices.iter().any(|device| device.simulated) { " simulated" } else { "" };
    let latencies: Vec<String> = snapshot
        .p99
        .iter()
        .map(|(label, answer)| format!("p99 {label} {} ({}, n {})", interval(answer), state(answer), answer.n))
        .collect();
    format!(
        "{:>4} s  {}{simulated} GPUs, {} disks, agent {}, {}",
        elapsed.as_secs(),
        snapshot.devices.len(),
        snapshot.disks.len(),
        snapshot.agent,
        latencies.join(", ")
    )
}

fn interval(answer: &Answer) -> String {
    match (answer.low, answer.high) {
        (Some(low), Some(high)) => format!("{} – {}", duration(low), duration(high)),
        (Some(low), None) => format!("above {}", duration(low)),
        _ => "–".to_owned(),
    }
}

fn state(answer: &Answer) -> &'static str {
    match answer.state {
        State::Ok => "ok",
        State::NoTraffic => "no traffic",
        State::TooFew => "too few requests",
        State::Unresolved => "unresolved",
        State::Censored => "censored",
    }
}

fn duration(microseconds: f64) -> String {
    if microseconds < 1000.0 {
        format!("{microseconds:.0} µs")
    } else if microseconds < 1e6 {
        format!("{:.2} ms", microseconds / 1e3)
    } else {
        format!("{:.2} s", microseconds / 1e6)
    }
}

fn gauge(share: f64) -> String {
    const PARTS: usize = 5;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 0 to 1")]
    let full = ((share.clamp(0.0, 1.0) * 5.0).round() as usize).min(PARTS);
    format!("{}{} {:>3.0}%", "█".repeat(full), "░".repeat(PARTS - full), share * 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bytes(count: u64) -> String {
    bytes_of(count as f64)
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn gib(count: u64) -> String {
    format!("{:.1}", count as f64 / f64::from(1 << 30))
}

fn bytes_of(mut count: f64) -> String {
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if count < 1024.0 {
            return if unit == "B" { format!("{count:.0} B") } else { format!("{count:.1} {unit}") };
        }
        count /= 1024.0;
    }
    format!("{count:.1} TiB")
}

/// A titled rule above what it frames.
fn panel(title: impl Into<Line<'static>>) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(title).border_style(Style::new().dim())
}

/// The model without its maker's name.
fn short_model(model: &str) -> String {
    let short = model.trim_start_matches("NVIDIA ").trim_start_matches("GeForce ");
    if short.is_empty() { "unknown".to_owned() } else { short.to_owned() }
}

fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}
