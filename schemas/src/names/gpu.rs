//! What a GPU, or a MIG instance of one, tells at an instant.

use super::*;

registry! { GPU
    GPU_UTILIZATION "hw.gpu.utilization" "1" Gauge Gpu "Share of the driver's last sampling interval (1/6 to 1 s) in which any kernel ran, 0 to 1; or in which the encoder or the decoder worked." [
        {} Whole "nvmlDeviceGetUtilizationRates, gpu" => "utilization",
        {GPU_TASK "encoder"} Whole "nvmlDeviceGetEncoderUtilization" => "encoder_utilization",
        {GPU_TASK "decoder"} Whole "nvmlDeviceGetDecoderUtilization" => "decoder_utilization",
    ]
    GPU_UTILIZATION_INTERVAL "contador.gpu.utilization.interval" "1" Gauge Gpu "Utilisation inside the interval since the last sample, of the driver's own samples; of its last reading where it has none, as on an idle GPU." [
        {STATISTIC "min"} Whole "nvmlDeviceGetSamples, GPU_UTILIZATION" => "utilization_min",
        {STATISTIC "mean"} Whole "nvmlDeviceGetSamples, GPU_UTILIZATION" => "utilization_mean",
        {STATISTIC "max"} Whole "nvmlDeviceGetSamples, GPU_UTILIZATION" => "utilization_max",
    ]
    GPU_MEMORY_UTILIZATION "contador.gpu.memory.activity" "1" Gauge Gpu "Share of the driver's last sampling interval in which device memory was read or written, 0 to 1." [
        {} Whole "nvmlDeviceGetUtilizationRates, memory" => "memory_utilization",
    ]
    GPU_MEMORY_UTILIZATION_INTERVAL "contador.gpu.memory.activity.interval" "1" Gauge Gpu "Memory activity inside the interval since the last sample, of the driver's own samples." [
        {STATISTIC "min"} Whole "nvmlDeviceGetSamples, MEMORY_UTILIZATION" => "memory_utilization_min",
        {STATISTIC "mean"} Whole "nvmlDeviceGetSamples, MEMORY_UTILIZATION" => "memory_utilization_mean",
        {STATISTIC "max"} Whole "nvmlDeviceGetSamples, MEMORY_UTILIZATION" => "memory_utilization_max",
    ]
    GPU_MEMORY_LIMIT "hw.gpu.memory.limit" "By" UpDownCounter Gpu "Memory of the device: used, free and reserved together." [
        {} Always "nvmlDeviceGetMemoryInfo_v2, total" => "memory_total",
    ]
    GPU_MEMORY_USAGE "hw.gpu.memory.usage" "By" UpDownCounter Gpu "Memory that is allocated, without what the driver reserves." [
        {} Always "nvmlDeviceGetMemoryInfo_v2, used" => "memory_used",
    ]
    GPU_MEMORY_FREE "contador.gpu.memory.free" "By" UpDownCounter Gpu "Memory that is free." [
        {} Always "nvmlDeviceGetMemoryInfo_v2, free" => "memory_free",
    ]
    GPU_MEMORY_RESERVED "contador.gpu.memory.reserved" "By" UpDownCounter Gpu "Memory that the driver and firmware keep for themselves." [
        {} Always "nvmlDeviceGetMemoryInfo_v2, total - free - used" => "memory_reserved",
    ]
    GPU_BAR1_LIMIT "contador.gpu.bar1.limit" "By" UpDownCounter Gpu "Window through which the host reaches device memory." [
        {} Board "nvmlDeviceGetBAR1MemoryInfo, total" => "bar1_total",
    ]
    GPU_BAR1_USAGE "contador.gpu.bar1.usage" "By" UpDownCounter Gpu "Mapped part of the window through which the host reaches device memory." [
        {} Board "nvmlDeviceGetBAR1MemoryInfo, used" => "bar1_used",
    ]
    POWER "hw.power" "W" Gauge Gpu "Power draw as the driver's plain call has it: a 1 s average on Ampere and later except GA100, where it is of the instant." [
        {} Board "nvmlDeviceGetPowerUsage" => "power_mw",
    ]
    GPU_POWER_AVERAGE "contador.gpu.power.average" "W" Gauge Gpu "Power draw, averaged by the driver over 1 s." [
        {} Board "nvmlDeviceGetFieldValues 185, scope 0 (GPU)" => "power_average_mw",
    ]
    GPU_POWER_INSTANT "contador.gpu.power.instant" "W" Gauge Gpu "Power draw at this instant." [
        {} Board "nvmlDeviceGetFieldValues 186, scope 0 (GPU)" => "power_instant_mw",
    ]
    GPU_POWER_INTERVAL "contador.gpu.power.interval" "W" Gauge Gpu "Power draw inside the interval since the last sample, of the driver's own samples." [
        {STATISTIC "min"} Board "nvmlDeviceGetSamples, TOTAL_POWER" => "power_min_mw",
        {STATISTIC "mean"} Board "nvmlDeviceGetSamples, TOTAL_POWER" => "power_mean_mw",
        {STATISTIC "max"} Board "nvmlDeviceGetSamples, TOTAL_POWER" => "power_max_mw",
    ]
    GPU_POWER_LIMIT "contador.gpu.power.limit" "W" Gauge Gpu "Power limit in force." [
        {} Board "nvmlDeviceGetEnforcedPowerLimit" => "power_limit_mw",
    ]
    ENERGY "hw.energy" "J" Counter Gpu "Energy since the driver was loaded; whole millijoules. Starts again at 0 when the driver or the GPU is reset." [
        {} Board "nvmlDeviceGetTotalEnergyConsumption" => "energy_mj",
    ]
    TEMPERATURE "hw.temperature" "Cel" Gauge Gpu "Temperature of the die." [
        {} Board "nvmlDeviceGetTemperature, GPU" => "temperature_c",
    ]
    GPU_MEMORY_TEMPERATURE "contador.gpu.memory.temperature" "Cel" Gauge Gpu "Temperature of the device memory." [
        {} Hbm "nvmlDeviceGetFieldValues 82" => "memory_temperature_c",
    ]
    FAN_SPEED "hw.fan.speed_ratio" "1" Gauge Gpu "Speed of the first fan as a share of its greatest, as intended by the board; 0 to 1, and in certain cases above." [
        {} Fan "nvmlDeviceGetFanSpeed_v2, fan 0" => "fan_speed",
    ]
    GPU_CLOCK_SM "contador.gpu.clock.sm" "MHz" Gauge Gpu "Clock of the streaming multiprocessors." [
        {} Board "nvmlDeviceGetClockInfo, SM" => "clock_sm_mhz",
    ]
    GPU_CLOCK_MEMORY "contador.gpu.clock.memory" "MHz" Gauge Gpu "Clock of the memory." [
        {} Board "nvmlDeviceGetClockInfo, MEM" => "clock_memory_mhz",
    ]
    GPU_CLOCK_GRAPHICS "contador.gpu.clock.graphics" "MHz" Gauge Gpu "Clock of the graphics engine." [
        {} Board "nvmlDeviceGetClockInfo, GRAPHICS" => "clock_graphics_mhz",
    ]
    GPU_CLOCK_VIDEO "contador.gpu.clock.video" "MHz" Gauge Gpu "Clock of the video engines." [
        {} Board "nvmlDeviceGetClockInfo, VIDEO" => "clock_video_mhz",
    ]
    GPU_PERFORMANCE_STATE "contador.gpu.performance_state" "{state}" Gauge Gpu "Performance state: 0 the fastest, 15 the slowest." [
        {} Board "nvmlDeviceGetPerformanceState" => "performance_state",
    ]
    GPU_THROTTLE_REASONS "contador.gpu.throttle_reasons" "{bits}" Gauge Gpu "Why clocks are below what was asked, a set of bits: 1 idle, 2 application clocks, 4 software power cap, 8 hardware slowdown, 16 sync boost, 32 software thermal, 64 hardware thermal, 128 hardware power brake, 256 display clocks." [
        {} Board "nvmlDeviceGetCurrentClocksThrottleReasons" => "throttle_reasons",
    ]
    GPU_THROTTLE_TIME "contador.gpu.throttle.time" "s" Counter Gpu "Time for which clocks were held down, by reason." [
        {THROTTLE_REASON "power"} Board "nvmlDeviceGetViolationStatus, POWER" => "throttle_power_ms",
        {THROTTLE_REASON "thermal"} Board "nvmlDeviceGetViolationStatus, THERMAL" => "throttle_thermal_ms",
    ]
    GPU_IO "hw.gpu.io" "By" Counter Gpu "Bytes over PCIe, as the GPU sees them." [
        {IO_DIRECTION "transmit"} PcieBytes "nvmlDeviceGetFieldValues 197" => "pcie_transmit_bytes",
        {IO_DIRECTION "receive"} PcieBytes "nvmlDeviceGetFieldValues 198" => "pcie_receive_bytes",
    ]
    GPU_PCIE_GENERATION "contador.gpu.pcie.generation" "{generation}" Gauge Gpu "Generation at which the PCIe link runs now." [
        {} Board "nvmlDeviceGetCurrPcieLinkGeneration" => "pcie_generation",
    ]
    GPU_PCIE_WIDTH "contador.gpu.pcie.width" "{lane}" Gauge Gpu "Lanes at which the PCIe link runs now." [
        {} Board "nvmlDeviceGetCurrPcieLinkWidth" => "pcie_width",
    ]
    NVLINK_IO "contador.gpu.nvlink.io" "By" Counter Gpu "Bytes of data over all NVLinks of the GPU." [
        {IO_DIRECTION "transmit"} NvLink "nvmlDeviceGetFieldValues 138, scope UINT_MAX, KiB; 202 by link on NVLink 5" => "nvlink_transmit_bytes",
        {IO_DIRECTION "receive"} NvLink "nvmlDeviceGetFieldValues 139, scope UINT_MAX, KiB; 204 by link on NVLink 5" => "nvlink_receive_bytes",
    ]
    NVLINK_LINKS "contador.gpu.nvlink.links" "{link}" UpDownCounter Gpu "NVLinks that the board has." [
        {} NvLink "nvmlDeviceGetNvLinkState of each link: those that answer" => "nvlink_links",
    ]
    NVLINK_LINKS_ACTIVE "contador.gpu.nvlink.links_active" "{link}" UpDownCounter Gpu "NVLinks that are up." [
        {} NvLink "nvmlDeviceGetNvLinkState of each link: those that are enabled" => "nvlink_links_active",
    ]
    NVLINK_LINK_IO "contador.gpu.nvlink.link.io" "By" Counter Series "Bytes of data over one NVLink; read every 10 s." [
        {IO_DIRECTION "transmit"} NvLink "nvmlDeviceGetFieldValues 138 (KiB) or 202, scope link" => "",
        {IO_DIRECTION "receive"} NvLink "nvmlDeviceGetFieldValues 139 (KiB) or 204, scope link" => "",
    ]
    NVLINK_LINK_UP "contador.gpu.nvlink.link.up" "{bool}" Gauge Series "1 while the NVLink is up, else 0." [
        {} NvLink "nvmlDeviceGetNvLinkState" => "",
    ]
    NVLINK_LINK_ERRORS "contador.gpu.nvlink.link.errors" "{error}" Counter Series "Errors of one NVLink, by kind; read every 10 s." [
        {ERROR_TYPE "replay"} NvLink4 "nvmlDeviceGetNvLinkErrorCounter, DL_REPLAY" => "",
        {ERROR_TYPE "recovery"} NvLink "nvmlDeviceGetNvLinkErrorCounter, DL_RECOVERY; nvmlDeviceGetFieldValues 215 on NVLink 5" => "",
        {ERROR_TYPE "crc_flit"} NvLink4 "nvmlDeviceGetNvLinkErrorCounter, DL_CRC_FLIT" => "",
        {ERROR_TYPE "crc_data"} NvLink4 "nvmlDeviceGetNvLinkErrorCounter, DL_CRC_DATA" => "",
    ]
    ERRORS "hw.errors" "{error}" Counter Gpu "Errors of the device, by kind. Those of volatile memory counters are since the driver was loaded, aggregate ones for the life of the board, XIDs since the agent has watched." [
        {ERROR_TYPE "xid"} Board "nvmlEventSetWait_v2, XidCriticalError" => "xid_errors",
        {ERROR_TYPE "pcie_replay"} Board "nvmlDeviceGetPcieReplayCounter" => "pcie_replays",
        {ERROR_TYPE "nvlink_replay"} NvLink4 "sum over links of nvmlDeviceGetNvLinkErrorCounter, DL_REPLAY" => "nvlink_replay_errors",
        {ERROR_TYPE "nvlink_recovery"} NvLink "sum over links of nvmlDeviceGetNvLinkErrorCounter, DL_RECOVERY; of nvmlDeviceGetFieldValues 215 on NVLink 5" => "nvlink_recovery_errors",
        {ERROR_TYPE "nvlink_crc_flit"} NvLink4 "sum over links of nvmlDeviceGetNvLinkErrorCounter, DL_CRC_FLIT" => "nvlink_crc_flit_errors",
        {ERROR_TYPE "nvlink_crc_data"} NvLink4 "sum over links of nvmlDeviceGetNvLinkErrorCounter, DL_CRC_DATA" => "nvlink_crc_data_errors",
        {ERROR_TYPE "ecc_corrected_volatile"} Ecc "nvmlDeviceGetTotalEccErrors, CORRECTED, VOLATILE" => "ecc_corrected_volatile",
        {ERROR_TYPE "ecc_uncorrected_volatile"} Ecc "nvmlDeviceGetTotalEccErrors, UNCORRECTED, VOLATILE" => "ecc_uncorrected_volatile",
        {ERROR_TYPE "ecc_corrected_aggregate"} Ecc "nvmlDeviceGetTotalEccErrors, CORRECTED, AGGREGATE" => "ecc_corrected_aggregate",
        {ERROR_TYPE "ecc_uncorrected_aggregate"} Ecc "nvmlDeviceGetTotalEccErrors, UNCORRECTED, AGGREGATE" => "ecc_uncorrected_aggregate",
    ]
    GPU_XID_LAST "contador.gpu.xid.last" "{code}" Gauge Gpu "Code of the last XID since the agent has watched; 0 before the first." [
        {} Board "nvmlEventSetWait_v2, XidCriticalError" => "xid_last",
    ]
    GPU_XIDS "contador.gpu.xids" "{error}" Counter Series "XIDs since the agent has watched, by code; attribute contador.xid." [
        {} Board "nvmlEventSetWait_v2, XidCriticalError" => "",
    ]
    GPU_REMAPPED_ROWS "contador.gpu.remapped_rows" "{row}" Counter Gpu "Rows of memory that were remapped, by the kind of error that led to it." [
        {ERROR_TYPE "corrected"} RowRemapping "nvmlDeviceGetFieldValues 142" => "remapped_rows_corrected",
        {ERROR_TYPE "uncorrected"} RowRemapping "nvmlDeviceGetFieldValues 143" => "remapped_rows_uncorrected",
    ]
    GPU_REMAP_PENDING "contador.gpu.row_remap.pending" "{bool}" Gauge Gpu "1 while a row waits for a reset to be remapped, else 0." [
        {} RowRemapping "nvmlDeviceGetFieldValues 144" => "remap_pending",
    ]
    GPU_REMAP_FAILED "contador.gpu.row_remap.failed" "{bool}" Gauge Gpu "1 when remapping a row has failed: the board should be replaced; else 0." [
        {} RowRemapping "nvmlDeviceGetFieldValues 145" => "remap_failed",
    ]
    STATUS "hw.status" "1" UpDownCounter Gpu "1 for the state that the device is in, 0 for the others: ok; degraded, such as links that are down, rows that wait for a reset or could not be remapped, uncorrected errors; failed, when it does not answer." [
        {STATE "ok"} Board "of the values above" => "status",
        {STATE "degraded"} Board "of the values above" => "status",
        {STATE "failed"} Board "of the values above" => "status",
    ]
    GPM_SM "contador.gpu.sm.activity" "1" Gauge Gpu "Share of time in which an SM had a warp resident, averaged over the device's (or the instance's own) SMs, 0 to 1, since the last sample." [
        {} Gpm "nvmlGpmMetricsGet, SM_UTIL" => "sm_activity",
    ]
    GPM_OCCUPANCY "contador.gpu.sm.occupancy" "1" Gauge Gpu "Resident warps as a share of the most that the SMs hold, 0 to 1, since the last sample; of an instance: its own SMs." [
        {} Gpm "nvmlGpmMetricsGet, SM_OCCUPANCY" => "sm_occupancy",
    ]
    GPM_GRAPHICS "contador.gpu.engine.activity" "1" Gauge Gpu "Share of time in which any graphics or compute engine was busy, 0 to 1, since the last sample; of an instance: of its own part." [
        {} Gpm "nvmlGpmMetricsGet, GRAPHICS_UTIL" => "engine_activity",
    ]
    GPM_TENSOR "contador.gpu.tensor.activity" "1" Gauge Gpu "Share of time in which tensor cores were busy, 0 to 1, since the last sample; of an instance: those of its own SMs." [
        {} Gpm "nvmlGpmMetricsGet, ANY_TENSOR_UTIL" => "tensor_activity",
    ]
    GPM_DRAM "contador.gpu.dram.activity" "1" Gauge Gpu "Share of the memory's greatest bandwidth that was used, 0 to 1, since the last sample; of an instance: of its own part's." [
        {} Gpm "nvmlGpmMetricsGet, DRAM_BW_UTIL" => "dram_activity",
    ]
    GPM_PIPE "contador.gpu.pipe.activity" "1" Gauge Gpu "Share of time in which the arithmetic pipes for a kind of number were busy, 0 to 1, since the last sample; of an instance: those of its own SMs." [
        {PIPE "fp64"} Gpm "nvmlGpmMetricsGet, FP64_UTIL" => "fp64_activity",
        {PIPE "fp32"} Gpm "nvmlGpmMetricsGet, FP32_UTIL" => "fp32_activity",
        {PIPE "fp16"} Gpm "nvmlGpmMetricsGet, FP16_UTIL" => "fp16_activity",
        {PIPE "integer"} Gpm "nvmlGpmMetricsGet, INTEGER_UTIL" => "integer_activity",
    ]
    GPM_PCIE "contador.gpu.pcie.throughput" "By/s" Gauge Gpu "Bytes a second over PCIe since the last sample." [
        {IO_DIRECTION "transmit"} GpmBoard "nvmlGpmMetricsGet, PCIE_TX_PER_SEC (MiB/s)" => "pcie_transmit_bytes_per_s",
        {IO_DIRECTION "receive"} GpmBoard "nvmlGpmMetricsGet, PCIE_RX_PER_SEC (MiB/s)" => "pcie_receive_bytes_per_s",
    ]
    GPM_NVLINK "contador.gpu.nvlink.throughput" "By/s" Gauge Gpu "Bytes a second over all NVLinks since the last sample." [
        {IO_DIRECTION "transmit"} GpmBoard "nvmlGpmMetricsGet, NVLINK_TOTAL_TX_PER_SEC (MiB/s)" => "nvlink_transmit_bytes_per_s",
        {IO_DIRECTION "receive"} GpmBoard "nvmlGpmMetricsGet, NVLINK_TOTAL_RX_PER_SEC (MiB/s)" => "nvlink_receive_bytes_per_s",
    ]
    GPU_PROCESSES "contador.gpu.processes" "{process}" UpDownCounter Gpu "Processes that hold the device." [
        {} Always "nvmlDeviceGetComputeRunningProcesses_v3, …Graphics…, …MPSCompute…; those that are in /proc" => "processes",
    ]
    MIG_INSTANCES "contador.mig.instances" "{instance}" UpDownCounter Gpu "MIG instances that exist on the GPU." [
        {} Mig "nvmlDeviceGetMigDeviceHandleByIndex" => "mig_instances",
    ]
    VGPU_INSTANCES "contador.gpu.vgpu.instances" "{instance}" UpDownCounter Gpu "Virtual GPUs that run on the GPU; unsupported where the driver is no vGPU host." [
        {} VgpuHost "nvmlDeviceGetActiveVgpus" => "vgpu_instances",
    ]
}
