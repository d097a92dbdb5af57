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
        /// `nvmlDeviceGetProcessUtilization`
        ProcessUtilization = "process_utilization",
        /// `nvmlDeviceGetFieldValues` as a whole
        FieldValues = "field_values",
        /// Field 185, `NVML_FI_DEV_POWER_AVERAGE`
        PowerAverage = "power_average",
        /// Field 186, `NVML_FI_DEV_POWER_INSTANT`
        PowerInstant = "power_instant",
        /// `nvmlDeviceGetMigMode`; unsupported without being asked on boards without MIG.
        MigMode = "mig_mode",
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
