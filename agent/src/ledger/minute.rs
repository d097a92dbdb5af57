//! A minute of one device: what each owner has of it.

use std::collections::BTreeMap;

use contador_schemas::owner::{Owner, OwnerKind};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

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
    /// By rising owner id; `share_ms` sums to 60,000.
    pub accounts: Vec<Account>,
}

impl ClosedMinute {
    /// Names the device, which a timeline does not know.
    pub(super) fn of(mut self, device: &str) -> Self {
        device.clone_into(&mut self.device);
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
    /// Energy in millijoules.
    pub energy_mj: u64,
}

impl OpenMinute {
    /// Books a piece in which nobody was looking.
    pub fn unmetered(&mut self, piece: Piece) {
        self.whole(OwnerKind::Unmetered, piece, 0);
    }

    /// Books a piece on those who held the device, or on nobody when it was idle.
    pub fn held(&mut self, piece: Piece, holders: &[Holder], utilization_ppm: u32) {
        let busy = u64::from(utilization_ppm) * piece.length_ms + self.busy_carry;
        self.busy_carry = busy % 1_000_000;
        let busy = busy / 1_000_000;
        if holders.is_empty() {
            return self.whole(OwnerKind::Idle, piece, busy);
        }
        let rotation = u64::try_from(piece.start_ms).unwrap_or(0);
        let equal = vec![1_u64; holders.len()];
        let measured: Option<Vec<u64>> = holders.iter().map(|holder| holder.sm_ppm).collect();
        let use_of = measured.filter(|weights| weights.iter().any(|&weight| weight > 0)).unwrap_or(equal.clone());
        let share = apportion(piece.length_ms, &equal, rotation);
        let busy = apportion(busy, &use_of, rotation);
        let energy = apportion(piece.energy_mj, &use_of, rotation);
        for (index, holder) in holders.iter().enumerate() {
            let account = self.account(holder.id, || holder.owner.clone());
            account.held_ms += piece.length_ms;
            account.share_ms += share[index];
            account.busy_ms += busy[index];
            account.memory_mib_ms =
                account.memory_mib_ms.saturating_add(holder.memory_mib.saturating_mul(piece.length_ms));
            account.energy_mj = account.energy_mj.saturating_add(energy[index]);
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
        account.share_ms += piece.length_ms;
        account.busy_ms += busy_ms;
        account.energy_mj = account.energy_mj.saturating_add(piece.energy_mj);
    }

    fn account(&mut self, id: Uuid, owner: impl FnOnce() -> Owner) -> &mut Account {
        self.accounts.entry(id).or_insert_with(|| Account { owner: owner(), ..Account::default() })
    }
}
