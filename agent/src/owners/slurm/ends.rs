//! When jobs have ceased to hold what they held, by the controller's word: it may come some time after that.
//!
//! What was booked before the word came stays booked: such an end counts where it is after the last round before that, and else the
//! job has held until that round.
//!
//! The controller tells whole seconds. Of a job that it does not end, or has not told of yet, the end is when the kernel shows no
//! process of it any more, and nothing is told here.

use contador_schemas::owner::Owner;

use super::told::Told;
use crate::owners::DeviceId;
use crate::owners::claim::{Claim, Ended, is_same_work};

/// For how long an end is told, in milliseconds: longer than from round to round.
const TOLD_FOR_MS: i64 = 90_000;

/// The ends that are told, and since when, Unix milliseconds.
#[derive(Debug, Default)]
pub(super) struct Ends(Vec<(Ended, i64)>);

/// What a job holds.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The devices; none: it holds nothing.
    devices: Vec<DeviceId>,
    /// Since when, Unix milliseconds.
    since_ms: i64,
    /// Who it is, as it was said last.
    owner: Owner,
}

impl Held {
    /// Takes what `owner`'s job holds at `now_ms`. When that is nothing any more, `told` may say since when.
    pub(super) fn take(&mut self, claims: &[Claim], owner: &Owner, told: Option<&Told>, now_ms: i64, ends: &mut Ends) {
        if claims.is_empty() {
            return self.end(told, now_ms, ends);
        }
        if self.owner != *owner {
            self.owner.clone_from(owner);
        }
        if self.devices.is_empty() {
            self.since_ms = now_ms;
            ends.0.retain(|(end, _)| !is_same_work(&end.owner, owner));
        }
        self.devices.clear();
        self.devices.extend(claims.iter().map(|claim| claim.device.clone()));
    }

    /// Whether somebody else has a device that it holds.
    pub(super) fn is_of_another(&self, claims: &[Claim]) -> bool {
        claims
            .iter()
            .any(|claim| self.devices.contains(&claim.device) && !is_same_work(&claim.holder.owner, &self.owner))
    }

    /// Takes that it holds nothing any more.
    pub(super) fn end(&mut self, told: Option<&Told>, now_ms: i64, ends: &mut Ends) {
        let devices = std::mem::take(&mut self.devices);
        // An end before that second is one of an earlier time that it held.
        let Some(at_ms) = told
            .and_then(Told::held_until_ms)
            .filter(|at_ms| *at_ms >= self.since_ms - self.since_ms.rem_euclid(1_000))
        else {
            return;
        };
        let end = |device| (Ended { device, owner: self.owner.clone(), at_ms }, now_ms);
        ends.0.extend(devices.into_iter().map(end));
    }
}

impl Ends {
    /// Those that a round at `now_ms` may not have heard of.
    pub(super) fn told(&mut self, now_ms: i64) -> Vec<Ended> {
        self.0.retain(|(_, since_ms)| (0..TOLD_FOR_MS).contains(&(now_ms - since_ms)));
        self.0.iter().map(|(end, _)| end.clone()).collect()
    }
}
