//! What a GPU, or a MIG instance of one, told at one instant.

use super::columns::columns;

columns! {
    /// One device at one instant. `None` is *not measured*; `unsupported` names what the device can't tell.
    GpuSample {
        /// Unix milliseconds.
        ts: i64,
        /// UUID as the driver gives it, `GPU-…` or `MIG-…`.
        device: String,
        /// Host name.
        node: String,
        /// Whether the device is a simulated one.
        simulated: bool,
        /// What the device does not support: names (of [`crate::names`]) of metrics, with `{attribute=value}` behind
        /// where it is one value of several.
        unsupported: Vec<String>,
    } values {
        /// Share of the driver's sampling interval in which a kernel ran, 0 to 1.
        utilization: f32,
        /// Share of that interval in which memory was read or written, 0 to 1.
        memory_utilization: f32,
        /// Bytes; used + free + reserved.
        memory_total: u64,
        /// Bytes.
        memory_used: u64,
        /// Bytes.
        memory_free: u64,
        /// Bytes.
        memory_reserved: u64,
        /// Milliwatts.
        power_mw: u32,
        /// Millijoules since the driver was loaded.
        energy_mj: u64,
        /// Degrees Celsius.
        temperature_c: i16,
        /// Megahertz.
        clock_sm_mhz: u32,
        /// Megahertz.
        clock_memory_mhz: u32,
        /// Megahertz.
        clock_graphics_mhz: u32,
        /// Processes that hold the device.
        processes: u32,
        /// Share of time in which the encoder worked, 0 to 1.
        encoder_utilization: f32,
        /// Share of time in which the decoder worked, 0 to 1.
        decoder_utilization: f32,
        /// Least utilisation since the last sample, 0 to 1.
        utilization_min: f32,
        /// Mean utilisation since the last sample, 0 to 1.
        utilization_mean: f32,
        /// Greatest utilisation since the last sample, 0 to 1.
        utilization_max: f32,
        /// Least memory activity since the last sample, 0 to 1.
        memory_utilization_min: f32,
        /// Mean memory activity since the last sample, 0 to 1.
        memory_utilization_mean: f32,
        /// Greatest memory activity since the last sample, 0 to 1.
        memory_utilization_max: f32,
        /// Bytes of the window through which the host reaches the memory.
        bar1_total: u64,
        /// Bytes of it that are mapped.
        bar1_used: u64,
        /// Milliwatts, averaged by the driver over 1 s.
        power_average_mw: u32,
        /// Milliwatts at the instant.
        power_instant_mw: u32,
        /// Least power since the last sample, milliwatts.
        power_min_mw: u32,
        /// Mean power since the last sample, milliwatts.
        power_mean_mw: u32,
        /// Greatest power since the last sample, milliwatts.
        power_max_mw: u32,
        /// Power limit in force, milliwatts.
        power_limit_mw: u32,
        /// Degrees Celsius of the device memory.
        memory_temperature_c: i16,
        /// Speed of the first fan as a share of its greatest; a board may go above 1.
        fan_speed: f32,
        /// Megahertz.
        clock_video_mhz: u32,
        /// 0 the fastest, 15 the slowest.
        performance_state: u32,
        /// Why clocks are held down, a set of bits.
        throttle_reasons: u64,
        /// Milliseconds for which power held clocks down.
        throttle_power_ms: u64,
        /// Milliseconds for which heat held clocks down.
        throttle_thermal_ms: u64,
        /// Bytes that the GPU sent over PCIe.
        pcie_transmit_bytes: u64,
        /// Bytes that it received over PCIe.
        pcie_receive_bytes: u64,
        /// Generation at which the PCIe link runs.
        pcie_generation: u32,
        /// Lanes at which the PCIe link runs.
        pcie_width: u32,
        /// Bytes sent over all NVLinks.
        nvlink_transmit_bytes: u64,
        /// Bytes received over all NVLinks.
        nvlink_receive_bytes: u64,
        /// NVLinks that the board has.
        nvlink_links: u32,
        /// NVLinks that are up.
        nvlink_links_active: u32,
        /// XIDs since the agent has watched.
        xid_errors: u64,
        /// Replays of the PCIe link.
        pcie_replays: u64,
        /// Replays over all NVLinks.
        nvlink_replay_errors: u64,
        /// Recoveries over all NVLinks.
        nvlink_recovery_errors: u64,
        /// CRC errors of flits over all NVLinks.
        nvlink_crc_flit_errors: u64,
        /// CRC errors of data over all NVLinks.
        nvlink_crc_data_errors: u64,
        /// Corrected memory errors since the driver was loaded.
        ecc_corrected_volatile: u64,
        /// Uncorrected memory errors since the driver was loaded.
        ecc_uncorrected_volatile: u64,
        /// Corrected memory errors in the board's life.
        ecc_corrected_aggregate: u64,
        /// Uncorrected memory errors in the board's life.
        ecc_uncorrected_aggregate: u64,
        /// Code of the last XID; 0 before the first.
        xid_last: u32,
        /// Rows of memory that were remapped after corrected errors.
        remapped_rows_corrected: u32,
        /// Rows of memory that were remapped after uncorrected errors.
        remapped_rows_uncorrected: u32,
        /// Whether a row waits for a reset to be remapped.
        remap_pending: bool,
        /// Whether remapping a row has failed.
        remap_failed: bool,
        /// `ok`, `degraded` or `failed`.
        status: String,
        /// Share of time in which an SM had a warp resident, 0 to 1.
        sm_activity: f32,
        /// Resident warps as a share of the most, 0 to 1.
        sm_occupancy: f32,
        /// Share of time in which any engine was busy, 0 to 1.
        engine_activity: f32,
        /// Share of time in which tensor cores were busy, 0 to 1.
        tensor_activity: f32,
        /// Share of the memory's bandwidth that was used, 0 to 1.
        dram_activity: f32,
        /// Share of time in which the FP64 pipes were busy, 0 to 1.
        fp64_activity: f32,
        /// Share of time in which the FP32 pipes were busy, 0 to 1.
        fp32_activity: f32,
        /// Share of time in which the FP16 pipes were busy, 0 to 1.
        fp16_activity: f32,
        /// Share of time in which the integer pipes were busy, 0 to 1.
        integer_activity: f32,
        /// Bytes a second sent over PCIe.
        pcie_transmit_bytes_per_s: u64,
        /// Bytes a second received over PCIe.
        pcie_receive_bytes_per_s: u64,
        /// Bytes a second sent over all NVLinks.
        nvlink_transmit_bytes_per_s: u64,
        /// Bytes a second received over all NVLinks.
        nvlink_receive_bytes_per_s: u64,
        /// MIG instances that exist on the GPU.
        mig_instances: u32,
        /// Virtual GPUs that run on the GPU.
        vgpu_instances: u32,
    }
}
