//! The machine: `/proc/stat`, `/proc/meminfo` and `/proc/loadavg`.

use std::path::{Path, PathBuf};

use procfs::{FromBufRead as _, FromBufReadSI as _, FromRead as _};
use procfs::{KernelStats, LoadAverage, Meminfo, ProcError, ProcResult};

use super::kernel::{KernelError, KernelFile};
use super::sample::HostSample;

/// The reader of the machine's CPU time, memory and load.
#[derive(Debug)]
pub struct Host {
    stat: KernelFile,
    meminfo: KernelFile,
    loadavg: KernelFile,
}

impl Host {
    /// A reader under `proc_root` (`/proc`).
    pub fn new(proc_root: impl Into<PathBuf>) -> Self {
        let root = proc_root.into();
        let file = |name| KernelFile::new(root.join(name));
        Self { stat: file("stat"), meminfo: file("meminfo"), loadavg: file("loadavg") }
    }

    /// The machine at `ts_ms` (Unix milliseconds).
    ///
    /// # Errors
    /// When one of the three files cannot be read or is not the kernel's.
    pub fn sample(&mut self, ts_ms: i64) -> Result<HostSample, KernelError> {
        let system = procfs::current_system_info();
        let stat =
            read(&mut self.stat, "CPU times as in proc_stat(5)", |text| KernelStats::from_buf_read(text, system))?;
        let memory = read(&mut self.meminfo, "memory as in proc_meminfo(5)", |text| Meminfo::from_buf_read(text))?;
        let load = read(&mut self.loadavg, "load averages as in proc_loadavg(5)", |text| LoadAverage::from_read(text))?;
        let cpu = &stat.total;
        // The kernel counts guests in user and nice, and a second time as guests, which is not taken.
        Ok(HostSample {
            ts_ms,
            cpu_user_ms: cpu.user_ms(),
            cpu_nice_ms: cpu.nice_ms(),
            cpu_system_ms: cpu.system_ms(),
            cpu_idle_ms: cpu.idle_ms(),
            cpu_iowait_ms: cpu.iowait_ms().unwrap_or(0),
            cpu_irq_ms: cpu.irq_ms().unwrap_or(0),
            cpu_softirq_ms: cpu.softirq_ms().unwrap_or(0),
            cpu_steal_ms: cpu.steal_ms().unwrap_or(0),
            cpu_count: u32::try_from(stat.cpu_time.len()).unwrap_or(u32::MAX),
            memory_total_bytes: memory.mem_total,
            memory_available_bytes: memory.mem_available,
            memory_free_bytes: memory.mem_free,
            memory_buffers_bytes: memory.buffers,
            memory_cached_bytes: memory.cached,
            swap_total_bytes: memory.swap_total,
            swap_free_bytes: memory.swap_free,
            load_1m: hundredths(load.one),
            load_5m: hundredths(load.five),
            load_15m: hundredths(load.fifteen),
        })
    }
}

fn read<T>(
    file: &mut KernelFile,
    expected: &'static str,
    parse: impl FnOnce(&[u8]) -> ProcResult<T>,
) -> Result<T, KernelError> {
    parse(file.read()?).map_err(|error| fault(file.path(), error, expected))
}

fn fault(path: &Path, error: ProcError, expected: &'static str) -> KernelError {
    match error {
        ProcError::Io(source, _) => KernelError::read(path, source),
        ProcError::NotFound(_) => KernelError::read(path, std::io::ErrorKind::NotFound.into()),
        ProcError::PermissionDenied(_) => KernelError::read(path, std::io::ErrorKind::PermissionDenied.into()),
        ProcError::Incomplete(_) => KernelError::shape(path, "cut short", expected),
        ProcError::Other(message) => KernelError::shape(path, message, expected),
        ProcError::InternalError(error) => KernelError::shape(path, error.msg, expected),
    }
}

/// The kernel writes two decimals; single precision would show more.
fn hundredths(load: f32) -> f64 {
    (f64::from(load) * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests;
