//! What part of a GPU a MIG instance is.
//!
//! A GPU instance weighs the greater of its part of the compute slices and of its part of the memory slices: who has one of
//! them has kept others from the other one too. So a 3g with 4 of 8 memory slices weighs 1/2, a 1g with 1 of 7 compute slices
//! 1/7, a 1g with 2 memory slices 1/4. Compute instances of one GPU instance share its memory, and divide its weight by
//! their compute slices. Where the weights sum to more than 1 they are divided by their sum: that is left to who
//! apportions by them.

/// The weight of a whole GPU: sevenths, eighths and quarters of it, divided among up to seven compute instances, are whole
/// numbers.
pub const WHOLE: u64 = 56 * 420;

/// No GPU has as many slices; what a driver may say is held to it.
const MOST: u32 = 64;

/// One instance, as its driver tells it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Slices {
    /// Id of its GPU instance.
    pub gpu_instance: u32,
    /// Compute slices; `None` when they are not told.
    pub compute: Option<u32>,
    /// Memory slices of its GPU instance; `None` when they are not told.
    pub memory: Option<u32>,
}

/// How many slices a board has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Board {
    /// Compute slices.
    pub compute: u32,
    /// Memory slices.
    pub memory: u32,
}

impl Default for Board {
    /// 7 and 8, as boards of data centres have.
    fn default() -> Self {
        Self { compute: 7, memory: 8 }
    }
}

impl Board {
    /// The board with so much memory of which an instance with so many memory slices has so much, in bytes. No call of the
    /// driver tells it: an eighth of the memory a slice is a board of 7 and 8, a quarter one of 4 and 4 (A30, RTX PRO 6000).
    pub fn of_memory(board: u64, instance: u64, slices: u32) -> Self {
        let slice = instance / u64::from(slices.max(1));
        // An instance has somewhat less than its part.
        if slice > 0 && board / slice < 6 { Self { compute: 4, memory: 4 } } else { Self::default() }
    }
}

/// The weight of each instance, of [`WHOLE`], in the order of `instances`. What is not told counts as one compute slice.
/// Nobody weighs 0.
pub fn weights(instances: &[Slices], board: Board) -> Vec<u64> {
    let part = |slices: u64, of: u32| slices * WHOLE / u64::from(of.max(1));
    let compute = |instance: &Slices| u64::from(instance.compute.unwrap_or(1).clamp(1, MOST));
    let weight = |instance: &Slices| {
        let siblings = || instances.iter().filter(|other| other.gpu_instance == instance.gpu_instance);
        let all: u64 = siblings().map(compute).sum();
        let memory = siblings().filter_map(|other| other.memory).max().unwrap_or(0).min(MOST);
        let whole = part(all, board.compute).max(part(memory.into(), board.memory));
        whole * compute(instance) / all.max(1)
    };
    instances.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(gpu_instance: u32, compute: u32, memory: u32) -> Slices {
        Slices { gpu_instance, compute: Some(compute), memory: Some(memory) }
    }

    #[test]
    fn the_scarcer_kind_of_slices_decides() {
        // 3g.40gb, 2g.20gb, 1g.10gb, 1g.20gb and 7g.80gb: 1/2, 2/7, 1/7, 1/4, 1.
        let profiles = [own(1, 3, 4), own(2, 2, 2), own(3, 1, 1), own(4, 1, 2), own(5, 7, 8)];
        assert_eq!(weights(&profiles, Board::default()), [11_760, 6_720, 3_360, 5_880, 23_520]);
        // Of an A30: 1g.6gb, 2g.12gb, 4g.24gb.
        let quarters = [own(1, 1, 1), own(2, 2, 2), own(3, 4, 4)];
        assert_eq!(weights(&quarters, Board { compute: 4, memory: 4 }), [5_880, 11_760, 23_520]);
    }

    #[test]
    fn compute_instances_divide_their_gpu_instance() {
        // A 3g.40gb with a 1c and a 2c, and a 1g.10gb.
        let instances = [own(1, 1, 4), own(1, 2, 4), own(9, 1, 1)];
        assert_eq!(weights(&instances, Board::default()), [3_920, 7_840, 3_360]);
        let seven = [own(0, 1, 8); 7];
        assert_eq!(weights(&seven, Board::default()), [WHOLE / 7; 7]);
    }

    #[test]
    fn what_a_driver_may_say_is_a_weight() {
        let untold = Slices { gpu_instance: 1, compute: None, memory: None };
        let size_only = Slices { gpu_instance: 2, compute: None, memory: Some(4) };
        assert_eq!(weights(&[untold, size_only], Board::default()), [WHOLE / 7, WHOLE / 2]);
        let wild = [own(1, 0, 0), own(2, u32::MAX, u32::MAX)];
        assert!(weights(&wild, Board { compute: 0, memory: 0 }).iter().all(|&weight| weight > 0));
        assert!(weights(&[], Board::default()).is_empty());
    }

    #[test]
    fn a_board_is_known_by_the_size_of_a_slice() {
        const MIB: u64 = 1 << 20;
        for (board, instance, slices, is_quarters) in [
            (81_559, 9_984, 1, false),
            (81_559, 40_448, 4, false),
            (81_559, 80_896, 8, false),
            (143_771, 16_384, 1, false),
            (24_576, 5_952, 1, true),
            (24_576, 24_125, 4, true),
            (0, 0, 0, false),
        ] {
            let found = Board::of_memory(board * MIB, instance * MIB, slices);
            assert_eq!(found == Board { compute: 4, memory: 4 }, is_quarters, "{board} {instance} {slices}");
        }
    }
}
