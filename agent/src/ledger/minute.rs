//! A minute of one device: what each owner has of it.

use std::collections::BTreeMap;

use contador_schemas::owner::{Owner, OwnerKind};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::share;
use super::split::apportion;
use super::tick::Holder;

/// Milliseconds in a minute.
pub const MINUTE_MS: i64 = 60_000;

/// What one owner has of one minute.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Account {
    /// Who.
    pub owner: Owner,
    /// Milliseconds in which it held any part of the device.
    pub held_ms: u64,
    /// Its part of the minute's milliseconds.
    pub share_ms: u64,
    /// Its part of the milliseconds in which the device was busy.
    pub busy_ms: u64,
    /// MiB held times milliseconds.
    pub memory_mib_ms: u64,
    /// Its part of the energy, millijoules.
    pub energy_mj: u64,
    /// Of `held_ms`, milliseconds in which the device had no work: its utilisation is known, and was 0. Of nobody's time
    /// (idle, stranded, unmetered) it is 0.
    #[serde(default)]
    pub idle_ms: u64,
}

/// A minute that is over.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ClosedMinute {
    /// Device UUID.
    pub device: String,
    /// Start of the minute, Unix milliseconds.
    pub start_ms: i64,
    /// Whether the device is a simulated one.
    pub simulated: bool,
    /// By rising owner id; `share_ms` sums to 60,000 over the device and its MIG instances.
    pub accounts: Vec<Account>,
}

impl ClosedMinute {
    /// Names the device, which a timeline does not know; it knows the instances.
    pub(super) fn of(mut self, device: &str) -> Self {
        if self.device.is_empty() {
            device.clone_into(&mut self.device);
        }
        self
    }
}

/// The minute that is not over yet.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct OpenMinute {
    accounts: BTreeMap<Uuid, Account>,
    /// Busy time not yet given to anybody, in millionths of a millisecond; below a million.
    busy_carry: u64,
}

/// A piece of time within one minute, with what it took.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Its start, Unix milliseconds; says whose turn the odd millisecond is.
    pub start_ms: i64,
    /// Its length in milliseconds.
    pub length_ms: u64,
    /// What there is of it to share, in milliseconds: all of it, or of a part of a GPU, its part.
    pub share_ms: u64,
    /// Energy in millijoules.
    pub energy_mj: u64,
}

impl Piece {
    /// Says in which order odd units go round.
    pub(super) fn rotation(&self) -> u64 {
        u64::try_from(self.start_ms).unwrap_or(0)
    }
}

impl OpenMinute {
    /// Books a piece in which nobody was looking.
    pub fn unmetered(&mut self, piece: Piece) {
        self.whole(OwnerKind::Unmetered, piece, 0);
    }

    /// Books a piece on those who held the device, or when nobody did, on `nobody`. See [`share`] for who has what.
    pub fn held(&mut self, piece: Piece, holders: &[Holder], utilization_ppm: Option<u32>, nobody: OwnerKind) {
        let busy = u64::from(utilization_ppm.unwrap_or(0)) * piece.share_ms + self.busy_carry;
        self.busy_carry = busy % 1_000_000;
        let busy = busy / 1_000_000;
        if holders.is_empty() {
            // Instances may cover all of their GPU.
            if nobody != OwnerKind::Stranded || piece.share_ms > 0 {
                self.whole(nobody, piece, busy);
            }
            return;
        }
        let rotation = piece.rotation();
        let parts: Vec<_> = holders.iter().map(|holder| holder.part).collect();
        let (mut weights, idle) = share::weights(&parts);
        let measured: Option<Vec<u64>> = holders.iter().map(|holder| holder.sm_ppm).collect();
        let measured = measured.filter(|uses| uses.iter().any(|&used| used > 0));
        let uses = measured.as_ref().unwrap_or(&weights);
        let busy = apportion(busy, uses, rotation);
        let energy = apportion(piece.energy_mj, uses, rotation);
        weights.push(idle);
        let share = apportion(piece.share_ms, &weights, rotation);
        for (index, holder) in holders.iter().enumerate() {
            let account = self.account(holder.id, || holder.owner.clone());
            account.held_ms += piece.length_ms;
            account.share_ms += share[index];
            account.busy_ms += busy[index];
            account.memory_mib_ms =
                account.memory_mib_ms.saturating_add(holder.memory_mib.saturating_mul(piece.length_ms));
            account.energy_mj = account.energy_mj.saturating_add(energy[index]);
            if utilization_ppm == Some(0) {
                account.idle_ms += piece.length_ms;
            }
        }
        let left = share.last().copied().unwrap_or(0);
        if left > 0 {
            self.whole(OwnerKind::Idle, Piece { share_ms: left, energy_mj: 0, ..piece }, 0);
        }
    }

    /// Ends the minute that began at `start_ms`, and begins the next.
    pub fn close(&mut self, start_ms: i64, simulated: bool) -> ClosedMinute {
        let accounts = std::mem::take(self).accounts.into_values().collect();
        ClosedMinute { device: String::new(), start_ms, simulated, accounts }
    }

    fn whole(&mut self, kind: OwnerKind, piece: Piece, busy_ms: u64) {
        let owner = Owner::of_kind(kind);
        let account = self.account(owner.id(), || owner);
        account.held_ms += piece.length_ms;
        account.share_ms += piece.share_ms;
        account.busy_ms += busy_ms;
        account.energy_mj = account.energy_mj.saturating_add(piece.energy_mj);
    }

    fn account(&mut self, id: Uuid, owner: impl FnOnce() -> Owner) -> &mut Account {
        self.accounts.entry(id).or_insert_with(|| Account { owner: owner(), ..Account::default() })
    }
}
