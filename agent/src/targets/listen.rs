//! Who listens on a port of this node: the process that has the socket, and whose it is.
//!
//! `/proc/net/tcp` and `tcp6` have the inode of the socket that listens on a port, and one of the processes has that inode among
//! its open files. Finding it means to look at all of them, so what was found is remembered for [`HOLDS`], also that there is
//! nothing. It is done by the crew: `/proc` may be slow on a node with many processes.
//!
//! Source: proc_net(5) and proc_pid_fd(5); `st` is 0A for a socket that listens (`TCP_LISTEN` of `net/tcp_states.h`).

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use contador_schemas::mapping::Rules;
use contador_schemas::owner::OwnerKind;

use super::target::Target;
use crate::crew::Crew;
use crate::owners::claim::Snapshot;
use crate::owners::{Identified, ProcessOwners, mapping};

/// How long what was found is taken for true.
const HOLDS: Duration = Duration::from_secs(60);

/// Most ports that are remembered.
const MAX_PORTS: usize = 1_024;

/// Greatest table of sockets in bytes.
const MAX_TABLE_BYTES: u64 = 8 << 20;

/// Who listens on ports of this node. Clones share what was found.
#[derive(Clone, Debug)]
pub struct Listeners {
    crew: Crew,
    job: Arc<CStr>,
    proc: PathBuf,
    found: Arc<Mutex<Found>>,
    rules: Arc<Rules>,
}

#[derive(Debug)]
struct Found {
    processes: ProcessOwners,
    ports: HashMap<u16, (Instant, Option<Identified>)>,
}

impl Listeners {
    /// Finds them in this `/proc`, with names of users from `passwd`.
    pub fn new(crew: Crew, proc: PathBuf, passwd: PathBuf, rules: Arc<Rules>) -> Self {
        let processes = ProcessOwners::new(proc.clone(), passwd).with_variables(rules.variables());
        let found = Arc::new(Mutex::new(Found { processes, ports: HashMap::new() }));
        Self { crew, job: Crew::job_name("listeners"), proc, found, rules }
    }

    /// The owner of the process that listens at this target, where that is on this node and can be found.
    pub async fn owner(&self, target: &Target, told: &[Arc<Snapshot>]) -> Option<Identified> {
        let is_said = target.pod.is_some() || !target.device.is_empty() || target.owner != Default::default();
        let port = local_port(target.address()).filter(|_| !is_said)?;
        let known = |found: &Found| {
            let (when, owner) = found.ports.get(&port)?;
            (when.elapsed() < HOLDS).then(|| owner.clone())
        };
        if let Some(owner) = known(&self.found.lock().unwrap_or_else(PoisonError::into_inner)) {
            return owner;
        }
        let (all, told) = (self.clone(), told.to_vec());
        self.crew.run(&self.job, move || all.find(port, &told)).await.flatten()
    }

    fn find(&self, port: u16, told: &[Arc<Snapshot>]) -> Option<Identified> {
        let pid = process(&self.proc, port);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = crate::run::clock::now_ms();
        let named = pid.and_then(|pid| found.processes.resolve(&[pid], now_ms, told).get(&pid).cloned());
        let owner = named.map(|named| mapping::apply(&self.rules, (*named).clone()).owner);
        let owner = owner.filter(|owner| owner.kind == OwnerKind::Workload).map(Identified::from);
        if found.ports.len() >= MAX_PORTS {
            found.ports.clear();
        }
        found.ports.insert(port, (Instant::now(), owner.clone()));
        owner
    }
}

/// The port of an address that is this machine's for sure: `localhost` or a loopback address.
fn local_port(address: &str) -> Option<u16> {
    if let Ok(address) = address.parse::<SocketAddr>() {
        return address.ip().is_loopback().then_some(address.port());
    }
    let (host, port) = address.rsplit_once(':')?;
    (host == "localhost").then(|| port.parse().ok()).flatten()
}

/// The process that listens on a port: of several that share the socket, the one with the least PID, which is mostly the parent.
pub fn process(proc: &Path, port: u16) -> Option<u32> {
    let inodes: Vec<u64> =
        ["net/tcp", "net/tcp6"].into_iter().flat_map(|name| listening(&proc.join(name), port)).collect();
    if inodes.is_empty() {
        return None;
    }
    let links: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let mut pids: Vec<u32> =
        fs::read_dir(proc).ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids.into_iter().find(|pid| has(&proc.join(pid.to_string()).join("fd"), &links))
}

/// Inodes of the sockets that listen on a port, by a table of the kernel's.
fn listening(table: &Path, port: u16) -> Vec<u64> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = fs::File::open(table).and_then(|file| file.take(MAX_TABLE_BYTES).read_to_string(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (address, at) = fields.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(at, 16) == Ok(port) && *fields.get(3)? == "0A" && is_reached(address);
        if is_it { fields.get(9)?.parse().ok() } else { None }
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// Whether who asks a loopback address reaches a socket that is bound to this one: the same, or any.
fn is_reached(address: &str) -> bool {
    // Each group of eight digits is a word of the machine's, whose first byte is the last one here on little-endian ones.
    let words: Option<Vec<u32>> =
        (0..address.len()).step_by(8).map(|at| u32::from_str_radix(address.get(at..at + 8)?, 16).ok()).collect();
    let ip = match words.as_deref() {
        Some([word]) => IpAddr::V4(Ipv4Addr::from(word.to_ne_bytes())),
        Some([a, b, c, d]) => {
            let mut bytes = [0; 16];
            for (place, word) in bytes.chunks_mut(4).zip([a, b, c, d]) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return false,
    };
    ip.is_unspecified() || ip.is_loopback()
}

fn has(folder: &Path, links: &[String]) -> bool {
    let Ok(files) = fs::read_dir(folder) else { return false };
    let is_one = |path: PathBuf| {
        fs::read_link(path).is_ok_and(|link| links.iter().any(|known| link.as_os_str() == known.as_str()))
    };
    files.filter_map(Result::ok).any(|file| is_one(file.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_listens_on_its_own_port() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert_eq!(process(Path::new("/proc"), port), Some(std::process::id()), "{address}");
            drop(listener);
            assert_eq!(process(Path::new("/proc"), port), None, "{address}");
        }
    }

    #[test]
    fn only_loopback_is_this_machine_for_sure() {
        assert_eq!(local_port("127.0.0.1:8000"), Some(8_000));
        assert_eq!(local_port("[::1]:8000"), Some(8_000));
        assert_eq!(local_port("localhost:80"), Some(80));
        for other in ["10.0.0.5:8000", "chat:80", "localhost", ""] {
            assert_eq!(local_port(other), None, "{other}");
        }
    }
}
