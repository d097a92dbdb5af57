//! Where the demo's parts listen: the ports that people expect when they are free, others when not.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// `preferred` on the loopback address, or a free port when somebody else has it.
pub(super) fn pick(preferred: u16) -> std::io::Result<SocketAddr> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, preferred));
    let listener = TcpListener::bind(wanted).or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    listener.local_addr()
}
