//! Why clocks are below what was asked: names of the driver's bits.

/// Bit and name, as NVML has them.
const REASONS: [(u64, &str); 9] = [
    (0x1, "idle"),
    (0x2, "application_clocks"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
    (0x100, "display_clocks"),
];

/// The names of the reasons in a value of [`contador_schemas::names::GPU_THROTTLE_REASONS`]; `other` stands for all bits that
/// have no name here.
pub fn throttle_reasons(bits: u64) -> Vec<&'static str> {
    let mut names: Vec<_> = REASONS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    if bits & !0x1ff != 0 {
        names.push("other");
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_a_set() {
        assert!(throttle_reasons(0).is_empty());
        assert_eq!(throttle_reasons(0x1), ["idle"]);
        assert_eq!(throttle_reasons(0x4 | 0x40 | 0x1000), ["sw_power_cap", "hw_thermal", "other"]);
        assert_eq!(throttle_reasons(0x1ff).len(), 9);
    }
}
