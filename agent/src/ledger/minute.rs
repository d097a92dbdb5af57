//! A minute of one device: what each owner has of it.

use std::collections::BTreeMap;

use contador_schemas::owner::{Owner, OwnerKind};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::share;
use super::split::{FINE, Rounding, apportion};
use super::tick::{Holder, PPM};

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
    /// Of share, busy time and energy, what is less than a whole unit, in parts of [`FINE`]. Nothing when the minute is
    /// closed.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub odd: [u64; 3],
}

impl Account {
    /// Adds parts of share, busy time and energy.
    fn add(&mut self, parts: [u128; 3]) {
        let whole = [&mut self.share_ms, &mut self.busy_ms, &mut self.energy_mj];
        for ((whole, odd), part) in whole.into_iter().zip(&mut self.odd).zip(parts) {
            let sum = u128::from(*odd) + part;
            *whole = whole.saturating_add(u64::try_from(sum / FINE).unwrap_or(u64::MAX));
            *odd = u64::try_from(sum % FINE).unwrap_or(0);
        }
    }

    /// Whether it is nobody's, and nothing.
    fn is_void(&self) -> bool {
        let nobody = matches!(self.owner.kind, OwnerKind::Idle | OwnerKind::Stranded);
        nobody && (self.share_ms, self.busy_ms, self.energy_mj) == (0, 0, 0)
    }
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

fn is_nothing(odd: &[u64; 3]) -> bool {
    *odd == [0; 3]
}

/// The minute that is not over yet.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct OpenMinute {
    accounts: BTreeMap<Uuid, Account>,
}

/// A piece of time within one minute, with what it took.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Its length in milliseconds.
    pub length_ms: u64,
    /// What there is of it to share: all of it, or of a part of a GPU, its part; in parts of a millisecond, [`FINE`].
    pub share: u128,
    /// Energy in parts of a millijoule, [`FINE`].
    pub energy: u128,
}

impl OpenMinute {
    /// Books a piece in which nobody was looking.
    pub fn unmetered(&mut self, piece: Piece) {
        self.whole(OwnerKind::Unmetered, piece, 0);
    }

    /// Books a piece on those who held the device, or when nobody did, on `nobody`. See [`share`] for who has what.
    pub fn held(&mut self, piece: Piece, holders: &[Holder], utilization_ppm: Option<u32>, nobody: OwnerKind) {
        let busy = piece.share * u128::from(utilization_ppm.unwrap_or(0)) / u128::from(PPM);
        if holders.is_empty() {
            // Instances may cover all of their GPU.
            if nobody != OwnerKind::Stranded || piece.share > 0 {
                self.whole(nobody, piece, busy);
            }
            return;
        }
        let parts: Vec<_> = holders.iter().map(|holder| holder.part).collect();
        let (mut weights, idle) = share::weights(&parts);
        let measured: Option<Vec<u64>> = holders.iter().map(|holder| holder.sm_ppm).collect();
        let measured = measured.filter(|uses| uses.iter().any(|&used| used > 0));
        let uses = measured.as_ref().unwrap_or(&weights);
        let busy = apportion(busy, uses);
        let energy = apportion(piece.energy, uses);
        weights.push(idle);
        let share = apportion(piece.share, &weights);
        for (index, holder) in holders.iter().enumerate() {
            let account = self.account(holder.owner.id(), || Owner::clone(&holder.owner));
            account.held_ms += piece.length_ms;
            account.add([share[index], busy[index], energy[index]]);
            account.memory_mib_ms =
                account.memory_mib_ms.saturating_add(holder.memory_mib.saturating_mul(piece.length_ms));
            if utilization_ppm == Some(0) {
                account.idle_ms += piece.length_ms;
            }
        }
        let left = share.last().copied().unwrap_or(0);
        if left > 0 {
            self.whole(OwnerKind::Idle, Piece { share: left, energy: 0, ..piece }, 0);
        }
    }

    /// Ends the minute that began at `start_ms`, and begins the next. The roundings of share and energy are those of the GPU
    /// and all its instances together; busy time, whose sum may be odd, is never more than the device's share.
    pub fn close(&mut self, start_ms: i64, simulated: bool, [share, energy]: &mut [Rounding; 2]) -> ClosedMinute {
        let mut accounts: Vec<Account> = std::mem::take(self).accounts.into_values().collect();
        for account in &mut accounts {
            account.share_ms += share.take(account.odd[0]);
            account.energy_mj = account.energy_mj.saturating_add(energy.take(account.odd[2]));
        }
        let sum = |of: fn(&Account) -> u64| accounts.iter().map(of).sum::<u64>();
        let mut room = sum(|account| account.share_ms).saturating_sub(sum(|account| account.busy_ms));
        let mut busy = Rounding::of_minute(start_ms);
        for account in &mut accounts {
            let unit = busy.take(account.odd[1]).min(room);
            account.busy_ms += unit;
            room -= unit;
            account.odd = [0; 3];
        }
        accounts.retain(|account| !account.is_void());
        ClosedMinute { device: String::new(), start_ms, simulated, accounts }
    }

    fn whole(&mut self, kind: OwnerKind, piece: Piece, busy: u128) {
        let owner = Owner::of_kind(kind);
        let account = self.account(owner.id(), || owner);
        account.held_ms += piece.length_ms;
        account.add([piece.share, busy, piece.energy]);
    }

    fn account(&mut self, id: Uuid, owner: impl FnOnce() -> Owner) -> &mut Account {
        self.accounts.entry(id).or_insert_with(|| Account { owner: owner(), ..Account::default() })
    }
}
