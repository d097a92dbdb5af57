//! The names by which a scenario refuses or falsifies what NVML would answer.

use super::Fault;

macro_rules! names {
    ($(#[$doc:meta])* $kind:ident, $what:literal { $($(#[$entry:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $kind { $($(#[$entry])* $variant,)* }

        impl $kind {
            pub(super) fn parse(key: &str, name: &str) -> Result<Self, Fault> {
                match name {
                    $($name => Ok(Self::$variant),)*
                    _ => Err(Fault::new(key, format!(
                        concat!("\"{}\" is not ", $what, ": expected one of {}"), name, [$($name),*].join(", ")
                    ))),
                }
            }
        }
    };
}

names! {
    /// A call, or a field of `nvmlDeviceGetFieldValues`, that a scenario can make fail for one GPU.
    Call, "a call" {
        /// `nvmlDeviceGetSerial`; unsupported without being asked on boards that have none.
        Serial = "serial",
        /// `nvmlDeviceGetPciInfo_v3`
        PciInfo = "pci_info",
        /// `nvmlDeviceGetMinorNumber`
        MinorNumber = "minor_number",
        /// `nvmlDeviceGetArchitecture`
        Architecture = "architecture",
        /// `nvmlDeviceGetUtilizationRates`
        UtilizationRates = "utilization_rates",
        /// `nvmlDeviceGetMemoryInfo` and `_v2`
        MemoryInfo = "memory_info",
        /// `nvmlDeviceGetPowerUsage`
        PowerUsage = "power_usage",
        /// `nvmlDeviceGetEnforcedPowerLimit` and `nvmlDeviceGetPowerManagementLimit`
        PowerLimit = "power_limit",
        /// `nvmlDeviceGetTotalEnergyConsumption`
        TotalEnergyConsumption = "total_energy_consumption",
        /// `nvmlDeviceGetTemperature`
        Temperature = "temperature",
        /// `nvmlDeviceGetClockInfo`
        ClockInfo = "clock_info",
        /// `nvmlDeviceGetMaxClockInfo`
        MaxClockInfo = "max_clock_info",
        /// `nvmlDeviceGetComputeRunningProcesses_v3`
        ComputeProcesses = "compute_processes",
        /// `nvmlDeviceGetGraphicsRunningProcesses_v3`
        GraphicsProcesses = "graphics_processes",
        /// `nvmlDeviceGetMPSComputeRunningProcesses_v3`
        MpsProcesses = "mps_processes",
        /// `nvmlDeviceGetProcessUtilization`
        ProcessUtilization = "process_utilization",
        /// `nvmlDeviceGetFieldValues` as a whole
        FieldValues = "field_values",
        /// Field 185, `NVML_FI_DEV_POWER_AVERAGE`
        PowerAverage = "power_average",
        /// Field 186, `NVML_FI_DEV_POWER_INSTANT`
        PowerInstant = "power_instant",
        /// `nvmlDeviceGetSamples`, every kind
        Samples = "samples",
        /// `nvmlDeviceGetEncoderUtilization`
        EncoderUtilization = "encoder_utilization",
        /// `nvmlDeviceGetDecoderUtilization`
        DecoderUtilization = "decoder_utilization",
        /// `nvmlDeviceGetBAR1MemoryInfo`
        Bar1MemoryInfo = "bar1_memory_info",
        /// `nvmlDeviceGetFanSpeed` and `_v2`; unsupported without being asked on boards without fans, as all that follow
        /// are on boards without what they are about.
        FanSpeed = "fan_speed",
        /// `nvmlDeviceGetTemperatureThreshold`
        TemperatureThreshold = "temperature_threshold",
        /// `nvmlDeviceGetPerformanceState`
        PerformanceState = "performance_state",
        /// `nvmlDeviceGetCurrentClocksThrottleReasons` and `…EventReasons`
        ThrottleReasons = "throttle_reasons",
        /// `nvmlDeviceGetViolationStatus`
        ViolationStatus = "violation_status",
        /// `nvmlDeviceGetCurrPcieLinkGeneration`
        PcieGeneration = "pcie_generation",
        /// `nvmlDeviceGetCurrPcieLinkWidth`
        PcieWidth = "pcie_width",
        /// `nvmlDeviceGetPcieReplayCounter`
        PcieReplays = "pcie_replays",
        /// Fields 197 and 198
        PcieBytes = "pcie_bytes",
        /// Field 82
        MemoryTemperature = "memory_temperature",
        /// `nvmlDeviceGetNvLinkState`
        NvlinkState = "nvlink_state",
        /// Fields 138 and 139, or 202 and 204
        NvlinkBytes = "nvlink_bytes",
        /// `nvmlDeviceGetNvLinkErrorCounter`, or field 215
        NvlinkErrors = "nvlink_errors",
        /// `nvmlDeviceGetNvLinkVersion`, `…Capability`, `…RemotePciInfo_v2` and `…RemoteDeviceType`
        NvlinkIdentity = "nvlink_identity",
        /// `nvmlDeviceGetEccMode` and `nvmlDeviceGetDefaultEccMode`
        EccMode = "ecc_mode",
        /// `nvmlDeviceGetTotalEccErrors`, `…DetailedEccErrors` and `…MemoryErrorCounter`
        EccErrors = "ecc_errors",
        /// Fields 142 to 145, and `nvmlDeviceGetRemappedRows`
        RemappedRows = "remapped_rows",
        /// `nvmlDeviceGetMigMode`; unsupported without being asked on boards without MIG.
        MigMode = "mig_mode",
        /// `nvmlDeviceRegisterEvents` and `nvmlDeviceGetSupportedEventTypes`
        RegisterEvents = "register_events",
        /// `nvmlDeviceGetMigDeviceHandleByIndex`
        MigDeviceHandle = "mig_device_handle",
        /// `nvmlDeviceGetGpuInstanceById`, for which the driver wants root.
        GpuInstance = "gpu_instance",
        /// `nvmlDeviceGetActiveVgpus`; unsupported without being asked where the scenario has no `vgpus`.
        ActiveVgpus = "active_vgpus",
        /// `nvmlGpmSampleGet` and `nvmlGpmMigSampleGet`
        GpmSample = "gpm_sample",
        /// `nvmlDeviceGetVbiosVersion`
        VbiosVersion = "vbios_version",
        /// `nvmlDeviceGetBoardPartNumber`; unsupported without being asked on boards that have none.
        BoardPartNumber = "board_part_number",
        /// `nvmlDeviceGetPersistenceMode`
        PersistenceMode = "persistence_mode",
        /// `nvmlDeviceGetPowerManagementDefaultLimit` and `…LimitConstraints`
        PowerConstraints = "power_constraints",
        /// `nvmlDeviceGetTopologyCommonAncestor` and `nvmlDeviceGetP2PStatus`, of either GPU
        Topology = "topology",
    }
}

names! {
    /// A value that a scenario can replace, to see what a caller makes of impossible answers.
    Answer, "a value" {
        /// Percent of `nvmlDeviceGetUtilizationRates`
        UtilizationGpu = "utilization_gpu",
        /// Percent of `nvmlDeviceGetUtilizationRates`
        UtilizationMemory = "utilization_memory",
        /// Milliwatts of `nvmlDeviceGetPowerUsage`
        PowerUsage = "power_usage",
        /// Milliwatts of field 185
        PowerAverage = "power_average",
        /// Milliwatts of field 186
        PowerInstant = "power_instant",
        /// Milliwatts of `nvmlDeviceGetEnforcedPowerLimit` and field 190
        PowerLimit = "power_limit",
        /// Percent of each sample of `nvmlDeviceGetSamples`
        SampleGpu = "sample_gpu",
        /// Percent of each sample of `nvmlDeviceGetSamples`
        SampleMemory = "sample_memory",
        /// Milliwatts of each sample of `nvmlDeviceGetSamples`
        SamplePower = "sample_power",
        /// Percent of `nvmlDeviceGetEncoderUtilization`
        Encoder = "encoder",
        /// Percent of `nvmlDeviceGetDecoderUtilization`
        Decoder = "decoder",
        /// Bytes of `nvmlDeviceGetBAR1MemoryInfo`
        Bar1Used = "bar1_used",
        /// Percent of `nvmlDeviceGetFanSpeed` and `_v2`
        FanSpeed = "fan_speed",
        /// MHz of each clock of `nvmlDeviceGetClockInfo`
        Clock = "clock",
        /// State of `nvmlDeviceGetPerformanceState`
        PerformanceState = "performance_state",
        /// Bits of `nvmlDeviceGetCurrentClocksThrottleReasons`
        ThrottleReasons = "throttle_reasons",
        /// Nanoseconds of `nvmlDeviceGetViolationStatus`, every policy
        Violation = "violation",
        /// Generation of `nvmlDeviceGetCurrPcieLinkGeneration`
        PcieGeneration = "pcie_generation",
        /// Lanes of `nvmlDeviceGetCurrPcieLinkWidth`
        PcieWidth = "pcie_width",
        /// Count of `nvmlDeviceGetPcieReplayCounter`
        PcieReplays = "pcie_replays",
        /// Bytes of fields 197 and 198
        PcieBytes = "pcie_bytes",
        /// Degrees Celsius of field 82
        MemoryTemperature = "memory_temperature",
        /// KiB or bytes of fields 138, 139, 202 and 204, every scope
        NvlinkBytes = "nvlink_bytes",
        /// Count of each `nvmlDeviceGetNvLinkErrorCounter`, and of field 215
        NvlinkErrors = "nvlink_errors",
        /// Count of each `nvmlDeviceGetTotalEccErrors`
        EccErrors = "ecc_errors",
        /// Value of each of fields 142 to 145
        RemappedRows = "remapped_rows",
        /// Millijoules of `nvmlDeviceGetTotalEnergyConsumption`
        TotalEnergyConsumption = "total_energy_consumption",
        /// Degrees Celsius of `nvmlDeviceGetTemperature`
        Temperature = "temperature",
        /// Bytes of `nvmlDeviceGetMemoryInfo_v2`
        MemoryUsed = "memory_used",
        /// Bytes of every process
        ProcessMemory = "process_memory",
        /// Percent of every process
        ProcessSmUtil = "process_sm_util",
        /// Percent of GPM's SM_UTIL, of the GPU and of every MIG instance
        GpmSmUtil = "gpm_sm_util",
    }
}

names! {
    /// The error that a refused call answers.
    Refusal, "an error" {
        /// `NVML_ERROR_NOT_SUPPORTED`
        NotSupported = "not_supported",
        /// `NVML_ERROR_NO_PERMISSION`
        NoPermission = "no_permission",
        /// `NVML_ERROR_NOT_FOUND`
        NotFound = "not_found",
        /// `NVML_ERROR_TIMEOUT`
        Timeout = "timeout",
        /// `NVML_ERROR_GPU_IS_LOST`
        GpuIsLost = "gpu_is_lost",
        /// `NVML_ERROR_RESET_REQUIRED`
        ResetRequired = "reset_required",
        /// `NVML_ERROR_NO_DATA`
        NoData = "no_data",
        /// `NVML_ERROR_UNKNOWN`
        Unknown = "unknown",
    }
}
