//! The parts that each board can be split into by MIG, and where they fit.
//!
//! A board has 7 compute slices and 8 memory slices. A GPU instance of a profile takes some of both; the memory slices
//! are side by side and begin at certain places only, so that not every set of profiles fits, even when its slices add up.

/// A MIG profile of a board: one GPU instance with one compute instance that fills it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigProfile {
    /// Its name, `1g.10gb`.
    pub name: &'static str,
    /// Compute slices, of the board's 7.
    pub compute: u32,
    /// Memory slices, of the board's 8.
    pub memory: u32,
    /// Memory in MiB, about as `nvidia-smi mig -lgip` lists it: a little less than the slices of the board's.
    pub mib: u64,
    /// Streaming multiprocessors.
    pub sms: u32,
}

const fn profile(name: &'static str, compute: u32, memory: u32, mib: u64, sms: u32) -> MigProfile {
    MigProfile { name, compute, memory, mib, sms }
}

const A100_80GB: &[MigProfile] = &[
    profile("1g.10gb", 1, 1, 9_728, 14),
    profile("1g.20gb", 1, 2, 19_968, 14),
    profile("2g.20gb", 2, 2, 19_968, 28),
    profile("3g.40gb", 3, 4, 40_192, 42),
    profile("4g.40gb", 4, 4, 40_192, 56),
    profile("7g.80gb", 7, 8, 80_640, 98),
];

const H100_80GB: &[MigProfile] = &[
    profile("1g.10gb", 1, 1, 9_984, 16),
    profile("1g.20gb", 1, 2, 20_096, 26),
    profile("2g.20gb", 2, 2, 20_096, 32),
    profile("3g.40gb", 3, 4, 40_448, 60),
    profile("4g.40gb", 4, 4, 40_448, 64),
    profile("7g.80gb", 7, 8, 80_896, 132),
];

const H200_141GB: &[MigProfile] = &[
    profile("1g.18gb", 1, 1, 16_384, 16),
    profile("1g.35gb", 1, 2, 33_280, 26),
    profile("2g.35gb", 2, 2, 33_280, 32),
    profile("3g.71gb", 3, 4, 71_168, 60),
    profile("4g.71gb", 4, 4, 71_168, 64),
    profile("7g.141gb", 7, 8, 142_848, 132),
];

const B200_180GB: &[MigProfile] = &[
    profile("1g.23gb", 1, 1, 22_144, 18),
    profile("1g.45gb", 1, 2, 45_056, 30),
    profile("2g.45gb", 2, 2, 45_056, 36),
    profile("3g.90gb", 3, 4, 90_624, 70),
    profile("4g.90gb", 4, 4, 90_624, 72),
    profile("7g.180gb", 7, 8, 182_272, 148),
];

/// The profiles of the board that a scenario names so; none for boards without MIG.
pub fn mig_profiles(board: &str) -> &'static [MigProfile] {
    match board {
        "a100-80gb" => A100_80GB,
        "h100-80gb" => H100_80GB,
        "h200-141gb" => H200_141GB,
        "b200-180gb" => B200_180GB,
        _ => &[],
    }
}

impl MigProfile {
    /// The memory slices at which an instance of it can begin.
    fn starts(&self) -> &'static [u32] {
        match (self.compute, self.memory) {
            (_, 8) | (4, 4) => &[0],
            (_, 4) => &[0, 4],
            (1, 2) => &[0, 2, 4, 6],
            (_, 2) => &[0, 2, 4],
            _ => &[0, 1, 2, 3, 4, 5, 6],
        }
    }

    /// The id that the driver gives a GPU instance of this size at this place. Other profiles of the same size get the
    /// same: an instance that takes the place of another can have its id, and with it its UUID.
    pub fn gpu_instance(&self, start: u32) -> u32 {
        match self.memory {
            8 => 0,
            4 => 1 + start / 4,
            2 => 3 + start / 2,
            _ => 7 + start,
        }
    }
}

/// The memory slice at which each of `profiles` begins when all of them exist; `None` when they don't fit.
pub fn place(profiles: &[&MigProfile]) -> Option<Vec<u32>> {
    let mut starts = Vec::new();
    fits(profiles, 0, &mut starts).then_some(starts)
}

/// Tries the first profile's places in turn; `taken` has a bit for each memory slice.
fn fits(profiles: &[&MigProfile], taken: u32, starts: &mut Vec<u32>) -> bool {
    let Some((first, rest)) = profiles.split_first() else { return true };
    for &start in first.starts() {
        let own = ((1 << first.memory) - 1) << start;
        if taken & own != 0 {
            continue;
        }
        starts.push(start);
        if fits(rest, taken | own, starts) {
            return true;
        }
        starts.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::PROFILES;
    use proptest::prelude::*;

    fn h100(names: &[&str]) -> Vec<&'static MigProfile> {
        let find = |name: &&str| H100_80GB.iter().find(|profile| profile.name == *name).expect("a profile");
        names.iter().map(find).collect()
    }

    #[test]
    fn what_fits_is_known_from_the_boards() {
        for fitting in [
            &["7g.80gb"][..],
            &["4g.40gb", "3g.40gb"],
            &["3g.40gb", "4g.40gb"],
            &["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"],
            &["1g.20gb"; 4],
            &["2g.20gb", "2g.20gb", "2g.20gb", "1g.20gb"],
            &["1g.10gb"; 7],
            &[],
        ] {
            assert!(place(&h100(fitting)).is_some(), "{fitting:?}");
        }
        for unfitting in
            [&["7g.80gb", "1g.10gb"][..], &["4g.40gb", "4g.40gb"], &["3g.40gb", "3g.40gb", "1g.10gb"], &["1g.10gb"; 8]]
        {
            assert_eq!(place(&h100(unfitting)), None, "{unfitting:?}");
        }
    }

    #[test]
    fn boards_that_can_be_split_have_profiles_that_fit_their_memory() {
        for board in PROFILES {
            let profiles = mig_profiles(board.key);
            assert_eq!(board.mig_capable, !profiles.is_empty(), "{}", board.key);
            for profile in profiles {
                let all = board.memory_total / 1_048_576 * u64::from(profile.memory) / 8;
                assert!(profile.mib <= all && profile.mib >= all * 9 / 10, "{} {}", board.key, profile.name);
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_fits_has_slices_and_ids_of_its_own(picks in proptest::collection::vec(0usize..6, 0..9)) {
            let profiles: Vec<_> = picks.iter().map(|pick| &H100_80GB[*pick]).collect();
            if let Some(starts) = place(&profiles) {
                prop_assert!(profiles.iter().map(|profile| profile.compute).sum::<u32>() <= 7);
                prop_assert!(profiles.iter().map(|profile| profile.memory).sum::<u32>() <= 8);
                let mut ids: Vec<_> = profiles.iter().zip(&starts).map(|(p, start)| p.gpu_instance(*start)).collect();
                ids.sort_unstable();
                ids.dedup();
                prop_assert_eq!(ids.len(), profiles.len());
            }
        }
    }
}
