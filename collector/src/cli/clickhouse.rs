//! `contador clickhouse`: the embedded engine, served like a ClickHouse server.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Failure, usage};
use crate::engine::{self, Credentials, Options};

/// Arguments of `contador clickhouse`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folder of the data; it is made if it is missing. One process at a time can have it open.
    #[arg(long, value_name = "DIR", required_unless_present = "fetch_only")]
    path: Option<PathBuf>,
    /// Address and port of the HTTP interface; port 0 takes a free one. Another address than the machine's own
    /// (127.0.0.1, ::1) needs a password.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8123")]
    listen: SocketAddr,
    /// Name of the only user, who may read and write whatever this process may: files on this machine by file(), other
    /// machines by url(), remote() and s3(). Run it as a system user of its own where that is too much. The password is read from CONTADOR_ENGINE_PASSWORD, or from the file that
    /// CONTADOR_ENGINE_PASSWORD_FILE names; without one it is empty.
    #[arg(long, value_name = "NAME", default_value = "default")]
    user: String,
    /// Statements that use the engine at once; more of them wait. Neither those that bring rows nor the others take all
    /// of these, so there are at least two; KILL and statements without a table have a few more of their own.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// Memory that the engine may use, such as 4GiB or 50%; queries that would need more fail.
    #[arg(long, value_name = "SIZE", default_value = "75%", value_parser = memory)]
    max_memory: u64,
    /// Fetch the engine's library if it is missing, print its path, and end.
    #[arg(long)]
    fetch_only: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let library = engine::ensure_library()?;
    if args.fetch_only {
        println!("{}", library.display());
        return Ok(());
    }
    let path = args.path.ok_or_else(|| usage("--path is missing; expected the folder of the data"))?;
    let options = Options {
        path,
        library,
        credentials: Credentials { user: args.user, password: password()? },
        connections: usize::from(args.connections),
        max_memory: args.max_memory,
    };
    let runtime = super::runtime()?;
    let served = runtime.block_on(async {
        engine::serve(options, args.listen, ready, super::asked_to_end()?).await.map_err(anyhow::Error::from)
    });
    runtime.shutdown_background();
    served.map_err(|error| match error.downcast_ref::<engine::Error>() {
        Some(engine::Error::Unprotected(_)) => Failure::Usage(error),
        _ => Failure::Running(error),
    })
}

fn ready(address: SocketAddr) {
    println!("ready: ClickHouse {} on http://{address}", engine::VERSION);
    // Who reads this waits for it; a closed output is no reason to stop.
    let _ = std::io::stdout().flush();
}

fn password() -> Result<String, Failure> {
    if let Ok(password) = std::env::var("CONTADOR_ENGINE_PASSWORD") {
        return Ok(password);
    }
    let Some(path) = std::env::var_os("CONTADOR_ENGINE_PASSWORD_FILE").map(PathBuf::from) else {
        return Ok(String::new());
    };
    let text = std::fs::read_to_string(&path)
        .map_err(|error| usage(format!("CONTADOR_ENGINE_PASSWORD_FILE {}: {error}", path.display())))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Bytes, out of `4GiB`, `512MiB`, `1000000` or a share of this machine's memory such as `50%`.
fn memory(text: &str) -> Result<u64, String> {
    let expected = || format!("{text:?}; expected a size such as 4GiB, 512MiB or 50%");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().map_err(|_| expected())?;
    let bytes = match text[digits.len()..].trim() {
        "" | "B" => Some(number),
        "KiB" => number.checked_mul(1 << 10),
        "MiB" => number.checked_mul(1 << 20),
        "GiB" => number.checked_mul(1 << 30),
        "%" if (1..=100).contains(&number) => {
            let info = rustix::system::sysinfo();
            info.totalram.checked_mul(u64::from(info.mem_unit)).map(|total| total / 100 * number)
        }
        _ => None,
    };
    bytes.filter(|bytes| *bytes >= 64 << 20).ok_or_else(|| format!("{}, of at least 64MiB", expected()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(memory("4GiB"), Ok(4 << 30));
        assert_eq!(memory("512 MiB"), Ok(512 << 20));
        assert!(memory("50%").is_ok_and(|half| half > 64 << 20));
        for wrong in ["", "GiB", "4GB", "0%", "101%", "1KiB", "99999999999GiB"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }
}
