//! Where the demo's parts listen: the ports that people expect when they are free, others when not.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rustix::fs::{FlockOperation, flock};

/// Hands out addresses. Only one demo on a machine takes the preferred ports, so that two that start at once don't both
/// find the same one free.
pub(super) struct Ports {
    /// Held while the demo runs; `None` when another demo has it.
    lock: Option<File>,
}

impl Ports {
    /// Tries to be the demo that has the preferred ports.
    pub(super) fn new() -> Self {
        let file = File::create(std::env::temp_dir().join("contador-demo.lock")).ok();
        Self { lock: file.filter(|file| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()) }
    }

    /// `preferred` on the loopback address, or a free port when somebody else has it.
    pub(super) fn pick(&self, preferred: u16) -> std::io::Result<SocketAddr> {
        let wanted = if self.lock.is_some() { preferred } else { 0 };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted))
            .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        listener.local_addr()
    }
}
