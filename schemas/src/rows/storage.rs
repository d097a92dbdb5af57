//! What disks, mounts and the machine told at one instant.

use super::columns::columns;

columns! {
    /// One block device or mount at one instant; counters since the kernel's start, or since it was mounted.
    StorageSample {
        /// Unix milliseconds.
        ts: i64,
        /// Host name.
        node: String,
        /// Kernel's name of the device, or the mount point.
        device: String,
        /// `disk` or `mount`.
        kind: String,
        /// Whether the device is a simulated one.
        simulated: bool,
    } values {
        /// Completed reads.
        reads: u64,
        /// Bytes read.
        read_bytes: u64,
        /// Milliseconds spent on reads.
        read_ms: u64,
        /// Completed writes.
        writes: u64,
        /// Bytes written.
        written_bytes: u64,
        /// Milliseconds spent on writes.
        write_ms: u64,
        /// Milliseconds with any request in flight.
        io_ms: u64,
        /// Requests in flight.
        in_flight: u64,
        /// Mounts: whether the probe came back.
        reachable: bool,
        /// Mounts: milliseconds that the probe took, or has taken so far.
        probe_ms: u32,
        /// Milliseconds weighted by the requests in flight.
        weighted_io_ms: u64,
        /// Mounts: bytes in use.
        fs_used_bytes: u64,
        /// Mounts: bytes that anybody may use.
        fs_free_bytes: u64,
        /// Mounts: bytes that only root may use.
        fs_reserved_bytes: u64,
        /// Mounts: inodes in use.
        inodes_used: u64,
        /// Mounts: inodes that are free.
        inodes_free: u64,
        /// NFS: bytes read from the server.
        nfs_read_bytes: u64,
        /// NFS: bytes written to the server.
        nfs_written_bytes: u64,
        /// NFS: requests to the server.
        nfs_operations: u64,
        /// NFS: milliseconds that requests took, from queueing to the answer.
        nfs_operation_ms: u64,
        /// NFS: requests that were sent again.
        nfs_retransmissions: u64,
        /// NFS: major timeouts.
        nfs_timeouts: u64,
    }
}

columns! {
    /// CPU, memory and network of one node at one instant; counters since the node's start.
    NodeSample {
        /// Unix milliseconds.
        ts: i64,
        /// Host name.
        node: String,
    } values {
        /// Logical CPUs.
        cpus: u32,
        /// Milliseconds in user mode.
        cpu_user_ms: u64,
        /// Milliseconds in user mode at low priority.
        cpu_nice_ms: u64,
        /// Milliseconds in the kernel.
        cpu_system_ms: u64,
        /// Milliseconds idle.
        cpu_idle_ms: u64,
        /// Milliseconds idle while waiting for I/O.
        cpu_iowait_ms: u64,
        /// Milliseconds in interrupts, hard and soft.
        cpu_interrupt_ms: u64,
        /// Milliseconds that the hypervisor took.
        cpu_steal_ms: u64,
        /// Load average of a minute.
        load_1m: f32,
        /// Bytes.
        memory_total: u64,
        /// Bytes that new work could have.
        memory_available: u64,
        /// Bytes.
        memory_free: u64,
        /// Bytes.
        memory_buffers: u64,
        /// Bytes.
        memory_cached: u64,
        /// Bytes.
        swap_used: u64,
        /// Bytes.
        swap_free: u64,
        /// Microseconds in which some work waited for a CPU.
        psi_cpu_some_us: u64,
        /// Microseconds in which some work waited for memory.
        psi_memory_some_us: u64,
        /// Microseconds in which all work waited for memory.
        psi_memory_full_us: u64,
        /// Microseconds in which some work waited for I/O.
        psi_io_some_us: u64,
        /// Microseconds in which all work waited for I/O.
        psi_io_full_us: u64,
        /// Bytes sent by the node's own interfaces.
        network_transmit_bytes: u64,
        /// Bytes received by the node's own interfaces.
        network_receive_bytes: u64,
    }
}
