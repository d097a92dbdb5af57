//! Waits that differ from node to node.

use std::time::Duration;

use uuid::Uuid;

/// Between half of `wait` and all of it, so that a fleet does not come back in step.
pub fn jittered(wait: Duration) -> Duration {
    let [a, b, ..] = *Uuid::new_v4().as_bytes();
    wait.mul_f64(0.5 + f64::from(u16::from_le_bytes([a, b])) / 131_072.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_half_of_it_to_all_of_it() {
        for _ in 0..100 {
            let wait = jittered(Duration::from_secs(8));
            assert!((4..=8).contains(&wait.as_secs()), "{wait:?}");
        }
    }
}
