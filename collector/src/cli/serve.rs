//! `contador serve`.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use super::Failure;
use crate::config::Config;
use crate::run::{Listening, run as serve};
use crate::store::StoreArgs;

/// Arguments of `contador serve`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Configuration file; see contador.example.toml. Flags win over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address for OTLP by gRPC [default: 127.0.0.1:4317]; port 0 takes any free one.
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<SocketAddr>,
    /// Address for OTLP by HTTP [default: 127.0.0.1:4318].
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Address for pages, API, /readyz, /healthz and /metrics [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS")]
    web: Option<SocketAddr>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut config = match &args.config {
        Some(path) => Config::read(path).map_err(|error| Failure::Usage(error.into()))?,
        None => Config::default(),
    };
    config.grpc = args.grpc.unwrap_or(config.grpc);
    config.http = args.http.unwrap_or(config.http);
    config.web = args.web.unwrap_or(config.web);
    let store = args.store.open()?;
    log_to_stderr();
    super::runtime()?.block_on(async {
        let shutdown = super::cancelled_by(super::asked_to_end()?);
        serve(config, store, shutdown, |at| {
            // Whoever reads this may have gone away; that is no reason not to serve.
            if let Err(error) = tell(at) {
                tracing::warn!(%error, grpc = %at.grpc, http = %at.http, web = %at.web, "standard output");
            }
        })
        .await?;
        Ok(())
    })
}

/// One line for each listener, for people and for programs that asked for port 0.
fn tell(at: Listening) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "otlp/grpc http://{}", at.grpc)?;
    writeln!(out, "otlp/http http://{}/v1/metrics", at.http)?;
    writeln!(out, "web       http://{}", at.web)?;
    out.flush()
}

/// Logs of this process: on stderr, as RUST_LOG says (default: info).
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    // Set already when `serve` runs inside of another program.
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _set = logs.with_ansi(std::io::stderr().is_terminal()).try_init();
}
