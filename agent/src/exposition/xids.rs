//! What the driver's error codes (XIDs) mean, in short.

/// The code in words.
pub fn meaning(code: u64) -> &'static str {
    match code {
        0 => "No Error",
        13 => "Graphics engine exception",
        31 => "GPU memory page fault",
        32 => "Invalid or corrupted push buffer stream",
        38 => "Driver firmware error",
        43 => "GPU stopped processing",
        45 => "Preemptive cleanup, due to previous errors",
        46 => "GPU stopped processing",
        48 => "Double bit ECC error",
        61 => "Internal micro-controller breakpoint",
        62 => "Internal micro-controller halt",
        63 => "ECC page retirement or row remapping recorded",
        64 => "ECC page retirement or row remapping failed",
        68 => "Video processor exception",
        69 => "Graphics engine class error",
        74 => "NVLink error",
        79 => "GPU has fallen off the bus",
        92 => "High single bit ECC error rate",
        94 => "Contained memory error",
        95 => "Uncontained memory error",
        109 => "Context switch timeout",
        119 => "GSP firmware RPC timeout",
        120 => "GSP firmware error",
        121 => "Chip-to-chip NVLink error",
        136 => "Link training failed",
        137 => "NVLink privilege error",
        140 => "Unrecovered ECC error",
        143 => "GPU initialisation failed",
        145 => "NVLink receive error",
        149 => "NVLink network error",
        154 => "GPU recovery action changed",
        _ => "Unknown Error",
    }
}
