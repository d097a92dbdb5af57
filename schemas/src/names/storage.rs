//! What disks, mounts and the machine tell at an instant.

use super::*;

registry! { STORAGE
    DISK_IO "system.disk.io" "By" Counter Storage "Bytes read or written, by direction; a sector is 512 bytes." [
        {DISK_DIRECTION "read"} Always "/proc/diskstats" => "read_bytes",
        {DISK_DIRECTION "write"} Always "/proc/diskstats" => "written_bytes",
    ]
    DISK_OPERATIONS "system.disk.operations" "{operation}" Counter Storage "Completed requests, by direction." [
        {DISK_DIRECTION "read"} Always "/proc/diskstats" => "reads",
        {DISK_DIRECTION "write"} Always "/proc/diskstats" => "writes",
    ]
    DISK_OPERATION_TIME "system.disk.operation_time" "s" Counter Storage "Time spent on requests, summed over requests, by direction; 32 bits of milliseconds in the kernel." [
        {DISK_DIRECTION "read"} Always "/proc/diskstats" => "read_ms",
        {DISK_DIRECTION "write"} Always "/proc/diskstats" => "write_ms",
    ]
    DISK_IO_TIME "system.disk.io_time" "s" Counter Storage "Time with at least one request in flight; 32 bits of milliseconds in the kernel." [
        {} Always "/proc/diskstats" => "io_ms",
    ]
    DISK_WEIGHTED_IO_TIME "contador.disk.weighted_io_time" "s" Counter Storage "Time weighted by the requests in flight; 32 bits of milliseconds in the kernel." [
        {} Always "/proc/diskstats" => "weighted_io_ms",
    ]
    DISK_IN_FLIGHT "contador.disk.in_flight" "{operation}" UpDownCounter Storage "Requests in flight." [
        {} Always "/proc/diskstats" => "in_flight",
    ]
    FILESYSTEM_USAGE "system.filesystem.usage" "By" UpDownCounter Storage "Bytes of a mount, by state; reserved is what only root may use." [
        {FILESYSTEM_STATE "used"} Kernel "statvfs" => "fs_used_bytes",
        {FILESYSTEM_STATE "free"} Kernel "statvfs" => "fs_free_bytes",
        {FILESYSTEM_STATE "reserved"} Kernel "statvfs" => "fs_reserved_bytes",
    ]
    FILESYSTEM_INODES "contador.filesystem.inodes" "{inode}" UpDownCounter Storage "Inodes of a mount, by state." [
        {FILESYSTEM_STATE "used"} Kernel "statvfs" => "inodes_used",
        {FILESYSTEM_STATE "free"} Kernel "statvfs" => "inodes_free",
    ]
    MOUNT_REACHABLE "contador.mount.reachable" "{bool}" Gauge Storage "1 when the last probe of the mount came back, 0 when it failed or does not come back." [
        {} Kernel "statvfs, by a thread of the mount's own" => "reachable",
    ]
    MOUNT_PROBE_TIME "contador.mount.probe_time" "s" Gauge Storage "How long the last probe of the mount took; while one is under way and late, its age." [
        {} Kernel "statvfs, by a thread of the mount's own" => "probe_ms",
    ]
    NFS_IO "contador.nfs.io" "By" Counter Storage "Bytes between an NFS mount and its server, by direction." [
        {DISK_DIRECTION "read"} Kernel "/proc/self/mountstats, bytes" => "nfs_read_bytes",
        {DISK_DIRECTION "write"} Kernel "/proc/self/mountstats, bytes" => "nfs_written_bytes",
    ]
    NFS_OPERATIONS "contador.nfs.operations" "{operation}" Counter Storage "Requests of an NFS mount to its server, of all kinds." [
        {} Kernel "/proc/self/mountstats, per-op" => "nfs_operations",
    ]
    NFS_OPERATION_TIME "contador.nfs.operation_time" "s" Counter Storage "Time that an NFS mount's requests took, from queueing to the answer." [
        {} Kernel "/proc/self/mountstats, per-op" => "nfs_operation_ms",
    ]
    NFS_RETRANSMISSIONS "contador.nfs.retransmissions" "{operation}" Counter Storage "Requests of an NFS mount that were sent again." [
        {} Kernel "/proc/self/mountstats, per-op: transmissions - operations" => "nfs_retransmissions",
    ]
    NFS_TIMEOUTS "contador.nfs.timeouts" "{operation}" Counter Storage "Major timeouts of an NFS mount." [
        {} Kernel "/proc/self/mountstats, per-op" => "nfs_timeouts",
    ]
    NFS_CONNECTIONS "contador.nfs.connections" "{connection}" Counter Series "Connections that an NFS mount has made to its server, over all its transports (nconnect)." [
        {} Kernel "/proc/self/mountstats, xprt" => "",
    ]
    NFS_SENT "contador.nfs.sent" "{operation}" Counter Series "Requests that an NFS mount's transports have sent to its server, those of other mounts of that server included where they share them." [
        {} Kernel "/proc/self/mountstats, xprt" => "",
    ]
    CPU_TIME "system.cpu.time" "s" Counter Node "CPU time since the node's start, by mode, summed over CPUs." [
        {CPU_MODE "user"} Always "/proc/stat" => "cpu_user_ms",
        {CPU_MODE "nice"} Always "/proc/stat" => "cpu_nice_ms",
        {CPU_MODE "system"} Always "/proc/stat" => "cpu_system_ms",
        {CPU_MODE "idle"} Always "/proc/stat" => "cpu_idle_ms",
        {CPU_MODE "iowait"} Always "/proc/stat" => "cpu_iowait_ms",
        {CPU_MODE "interrupt"} Always "/proc/stat" => "cpu_interrupt_ms",
        {CPU_MODE "steal"} Always "/proc/stat" => "cpu_steal_ms",
    ]
    CPU_COUNT "system.cpu.logical.count" "{cpu}" UpDownCounter Node "Logical CPUs." [
        {} Always "/proc/stat" => "cpus",
    ]
    CPU_LOAD_1M "system.cpu.load_average.1m" "{thread}" Gauge Node "Load average of a minute." [
        {} Always "/proc/loadavg" => "load_1m",
    ]
    MEMORY_LIMIT "system.memory.limit" "By" UpDownCounter Node "Memory of the node." [
        {} Always "/proc/meminfo" => "memory_total",
    ]
    MEMORY_USAGE "system.memory.usage" "By" UpDownCounter Node "Memory by state: free, buffers, cached." [
        {MEMORY_STATE "free"} Always "/proc/meminfo" => "memory_free",
        {MEMORY_STATE "buffers"} Always "/proc/meminfo" => "memory_buffers",
        {MEMORY_STATE "cached"} Always "/proc/meminfo" => "memory_cached",
    ]
    MEMORY_AVAILABLE "system.memory.linux.available" "By" UpDownCounter Node "Memory that new work could have." [
        {} Kernel "/proc/meminfo" => "memory_available",
    ]
    SWAP_USAGE "system.paging.usage" "By" UpDownCounter Node "Swap space by state." [
        {PAGING_STATE "used"} Always "/proc/meminfo" => "swap_used",
        {PAGING_STATE "free"} Always "/proc/meminfo" => "swap_free",
    ]
    PSI_STALLED "contador.psi.stalled" "s" Counter Node "Time in which some, or all, work waited for a resource (pressure stall information)." [
        {PSI_RESOURCE "cpu", PSI_KIND "some"} Kernel "/proc/pressure/cpu, total" => "psi_cpu_some_us",
        {PSI_RESOURCE "memory", PSI_KIND "some"} Kernel "/proc/pressure/memory, total" => "psi_memory_some_us",
        {PSI_RESOURCE "memory", PSI_KIND "full"} Kernel "/proc/pressure/memory, total" => "psi_memory_full_us",
        {PSI_RESOURCE "io", PSI_KIND "some"} Kernel "/proc/pressure/io, total" => "psi_io_some_us",
        {PSI_RESOURCE "io", PSI_KIND "full"} Kernel "/proc/pressure/io, total" => "psi_io_full_us",
    ]
    NETWORK_IO "contador.network.io" "By" Counter Node "Bytes over the node's own network interfaces together: not those of containers, bridges, bonds' members or the loopback." [
        {IO_DIRECTION "transmit"} Kernel "/proc/net/dev" => "network_transmit_bytes",
        {IO_DIRECTION "receive"} Kernel "/proc/net/dev" => "network_receive_bytes",
    ]
    INTERFACE_IO "system.network.io" "By" Counter Series "Bytes over one network interface." [
        {IO_DIRECTION "transmit"} Kernel "/proc/net/dev" => "",
        {IO_DIRECTION "receive"} Kernel "/proc/net/dev" => "",
    ]
    INTERFACE_ERRORS "system.network.errors" "{error}" Counter Series "Errors of one network interface." [
        {IO_DIRECTION "transmit"} Kernel "/proc/net/dev" => "",
        {IO_DIRECTION "receive"} Kernel "/proc/net/dev" => "",
    ]
    INTERFACE_DROPPED "system.network.packet.dropped" "{packet}" Counter Series "Packets that one network interface dropped." [
        {IO_DIRECTION "transmit"} Kernel "/proc/net/dev" => "",
        {IO_DIRECTION "receive"} Kernel "/proc/net/dev" => "",
    ]
    RDMA_IO "contador.rdma.io" "By" Counter Series "Bytes over one port of an RDMA device (InfiniBand, RoCE)." [
        {IO_DIRECTION "transmit"} Kernel "/sys/class/infiniband/*/ports/*/counters/port_xmit_data, words of 4 bytes" => "",
        {IO_DIRECTION "receive"} Kernel "/sys/class/infiniband/*/ports/*/counters/port_rcv_data, words of 4 bytes" => "",
    ]
    RDMA_ERRORS "contador.rdma.errors" "{error}" Counter Series "Errors of one port of an RDMA device, by kind." [
        {ERROR_TYPE "symbol"} Kernel "/sys/class/infiniband/*/ports/*/counters/symbol_error" => "",
        {ERROR_TYPE "link_recovery"} Kernel "/sys/class/infiniband/*/ports/*/counters/link_error_recovery" => "",
        {ERROR_TYPE "link_downed"} Kernel "/sys/class/infiniband/*/ports/*/counters/link_downed" => "",
        {ERROR_TYPE "receive"} Kernel "/sys/class/infiniband/*/ports/*/counters/port_rcv_errors" => "",
        {ERROR_TYPE "transmit_discard"} Kernel "/sys/class/infiniband/*/ports/*/counters/port_xmit_discards" => "",
    ]
    CGROUP_IO "contador.cgroup.io" "By" Counter Series "Bytes that the processes of a control group read or wrote on a whole block device; of groups with a process that holds a GPU." [
        {DISK_DIRECTION "read"} Kernel "io.stat (cgroup v2), blkio.throttle.io_service_bytes (v1)" => "",
        {DISK_DIRECTION "write"} Kernel "io.stat (cgroup v2), blkio.throttle.io_service_bytes (v1)" => "",
    ]
    CGROUP_OPERATIONS "contador.cgroup.operations" "{operation}" Counter Series "Requests of the processes of a control group to a whole block device; of groups with a process that holds a GPU." [
        {DISK_DIRECTION "read"} Kernel "io.stat (cgroup v2), blkio.throttle.io_serviced (v1)" => "",
        {DISK_DIRECTION "write"} Kernel "io.stat (cgroup v2), blkio.throttle.io_serviced (v1)" => "",
    ]
}
