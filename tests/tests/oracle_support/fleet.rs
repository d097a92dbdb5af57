//! A small fleet: who holds what part of which device, from which second to which.

use std::sync::Arc;

use contador::bill::facts::{Device, Item};
use contador::bill::period::Period;
use contador_schemas::owner::{Owner, OwnerKind};
use jiff::tz::TimeZone;

use super::dice::{self, Dice};

/// What kind of fleets are made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Metered jobs that start and end with minutes.
    Minutes,
    /// Metered jobs that start and end with seconds.
    Seconds,
    /// Imported allocations alone.
    Imported,
    /// All of them, for a day or two.
    Long,
}

/// A part of a metered device, held for whole seconds.
pub struct Part {
    pub who: usize,
    pub device: usize,
    /// Unix seconds; the end is exclusive.
    pub from: i64,
    pub to: i64,
    /// Milliseconds of a GPU in each second.
    pub share: i64,
    /// Milliseconds of a MIG instance in each second.
    pub instance: i64,
}

/// An imported allocation.
pub struct Import {
    pub who: usize,
    pub device: usize,
    pub from: i64,
    pub to: i64,
    pub gpus: i128,
    /// Of each GPU, times `10^12`.
    pub fraction: i128,
}

/// Bytes that lie, or that move in each second.
pub struct Bytes {
    pub who: usize,
    pub item: Item,
    pub class: &'static str,
    pub from: i64,
    pub to: i64,
    pub bytes: i128,
}

pub struct Fleet {
    pub seed: u64,
    pub mode: Mode,
    pub period: Period,
    /// Unix seconds at which something is known of the devices: from before the period until after it.
    pub first: i64,
    pub last: i64,
    pub devices: Vec<Arc<Device>>,
    pub owners: Vec<(Arc<Owner>, Arc<str>)>,
    pub parts: Vec<Part>,
    pub imports: Vec<Import>,
    pub bytes: Vec<Bytes>,
}

pub const MODELS: [&str; 2] = ["A100", "L4"];
pub const PROFILES: [&str; 2] = ["1g.5gb", "2g.10gb"];
pub const ENVIRONMENTS: [&str; 3] = ["", "production", "test"];
pub const NODES: [&str; 2] = ["n1", "n2"];
pub const CLASSES: [&str; 2] = ["/data", "eth0"];
/// The first of the owners that are nobody: idle, stranded, unattributed, unmetered.
pub const NOBODY: usize = 6;

/// Ends of months and hours that a clock skips or repeats, with their zones; some are half hours off UTC.
const INSTANTS: [(i64, &str); 7] = [
    (1_793_487_600, "Europe/Berlin"),
    (1_792_890_000, "Europe/Berlin"),
    (1_774_746_000, "Europe/Berlin"),
    (1_793_512_800, "America/New_York"),
    (1_793_471_400, "Asia/Kolkata"),
    (1_790_812_800, "UTC"),
    (1_791_034_200, "Australia/Lord_Howe"),
];

impl Fleet {
    pub fn random(seed: u64, mode: Mode) -> Self {
        let mut dice = Dice::new(seed);
        let (at, zone) = dice.pick(&INSTANTS);
        let long = if mode == Mode::Long { 20 } else { 1 };
        let minutes = dice.between(15, 70) * long;
        let off = if dice.chance(25) { dice.between(-59, 59) } else { 0 };
        let from = at - dice.below(minutes) * 60 + off;
        let to = from + minutes * 60 + if dice.chance(20) { dice.below(60) } else { 0 };
        let zone = TimeZone::get(zone).unwrap();
        let mut fleet = Self {
            seed,
            mode,
            period: Period { from: from * 1_000, to: to * 1_000, month: None, zone },
            first: from - from % 60 - dice.between(1, 40) * 60,
            last: to - to % 60 + dice.between(1, 20) * 60,
            devices: Vec::new(),
            owners: owners(&mut dice),
            parts: Vec::new(),
            imports: Vec::new(),
            bytes: Vec::new(),
        };
        if mode != Mode::Imported {
            for _ in 0..dice.between(1, if mode == Mode::Long { 1 } else { 3 }) {
                fleet.gpu(&mut dice);
            }
        }
        if mode == Mode::Imported || dice.chance(40) {
            fleet.import(&mut dice);
        }
        fleet.other(&mut dice);
        fleet
    }

    /// A device whose utilisation is known in a minute or not.
    pub fn is_known(&self, device: usize, minute: i64) -> bool {
        dice::of([self.seed, device as u64, minute.unsigned_abs()]) < 80
    }

    /// Milliseconds of a second in which a part was busy; what shares a device can be busy for longer than its share.
    pub fn busy(&self, part: &Part, second: i64) -> i64 {
        if part.who >= NOBODY {
            return 0;
        }
        match dice::of([self.seed, part.device as u64 + 100, second.unsigned_abs() + part.share.unsigned_abs()]) {
            0..30 => 0,
            30..60 => part.share / 2,
            60..90 => part.share,
            _ => (part.share + 100).min(1_000),
        }
    }

    /// Millijoules of a second.
    pub fn energy(&self, part: &Part, second: i64) -> i64 {
        let of = dice::of([self.seed, part.device as u64 + 200, second.unsigned_abs()]);
        part.share * i64::try_from(of).unwrap() / 2
    }

    fn device(&mut self, id: &str, node: &str, model: &str, profile: &str) -> usize {
        let text = str::to_owned;
        let device = Device { id: text(id), node: text(node), gpu_model: text(model), mig_profile: text(profile) };
        self.devices.push(Arc::new(device));
        self.devices.len() - 1
    }

    /// A metered GPU: whole, shared by two, or cut into MIG instances.
    fn gpu(&mut self, dice: &mut Dice) {
        let (model, node) = (dice.pick(&MODELS), dice.pick(&NODES));
        let id = format!("GPU-{}", self.devices.len());
        let whole = self.device(&id, node, model, "");
        if dice.chance(70) {
            for lane in lanes(dice) {
                self.lane(dice, whole, *lane, 0);
            }
            return;
        }
        let layout = dice.pick(&[&[140_i64; 7][..], &[500, 280], &[250, 250, 140], &[1_000]]);
        for weight in layout {
            let profile = if *weight == 140 { PROFILES[0] } else { PROFILES[1] };
            let id = format!("MIG-{}", self.devices.len());
            let instance = self.device(&id, node, model, profile);
            for lane in lanes(dice) {
                self.lane(dice, instance, weight * lane / 1_000, *lane);
            }
        }
        let share = 1_000 - layout.iter().sum::<i64>();
        if share > 0 {
            let (from, to) = (self.first, self.last);
            self.parts.push(Part { who: NOBODY + 1, device: whole, from, to, share, instance: 0 });
        }
    }

    /// Somebody or nobody, one after the other, on a fixed part of a device.
    fn lane(&mut self, dice: &mut Dice, device: usize, share: i64, instance: i64) {
        let mut from = self.first;
        while from < self.last {
            let length = if self.mode == Mode::Seconds { dice.between(1, 2_400) } else { dice.between(1, 45) * 60 };
            let length = if self.mode == Mode::Long { length * 6 } else { length };
            let to = self.last.min(from + length);
            let who = if dice.chance(65) { dice.below(6) } else { dice.pick(&[6, 6, 6, 8, 9]) };
            let who = usize::try_from(who).unwrap();
            self.parts.push(Part { who, device, from, to, share, instance });
            from = to;
        }
    }

    fn import(&mut self, dice: &mut Dice) {
        let mut devices = Vec::new();
        for _ in 0..dice.between(1, 2) {
            let (id, node) = dice.pick(&[("", ""), ("", "n1"), ("GPU-x", "n2")]);
            let profile = if dice.chance(20) { PROFILES[0] } else { "" };
            let model = dice.pick(&MODELS);
            devices.push(self.device(id, node, model, profile));
        }
        for _ in 0..dice.between(1, 8) {
            let from = dice.between(self.first, self.last - 1);
            let to = from + dice.between(1, (self.last - from).min(7_200));
            let fraction =
                dice.pick(&[1_000_000_000_000, 1_000_000_000_000, 500_000_000_000, 333_333_333_333, 142_857_142_857]);
            let (who, device) = (usize::try_from(dice.below(6)).unwrap(), dice.pick(&devices));
            let import = Import { who, device, from, to, gpus: dice.between(1, 3).into(), fraction };
            if dice.chance(25) {
                // Another of the same owner from the same instant on, and not for as long.
                let to = dice.between(from + 1, to);
                self.imports.push(Import { to, ..import });
            }
            self.imports.push(import);
        }
    }

    fn other(&mut self, dice: &mut Dice) {
        for _ in 0..dice.below(3) {
            let (item, class) = dice.pick(&[(Item::Storage, CLASSES[0]), (Item::Network, CLASSES[1])]);
            let from = dice.between(self.first, self.last - 1);
            let to = dice.between(from + 1, self.last);
            let who = usize::try_from(dice.below(6)).unwrap();
            self.bytes.push(Bytes { who, item, class, from, to, bytes: i128::from(dice.below(1 << 40)) });
        }
    }
}

/// Thousandths of a device that one after the other hold.
fn lanes(dice: &mut Dice) -> &'static [i64] {
    dice.pick(&[&[1_000][..], &[1_000], &[500, 500], &[300, 700]])
}

fn owners(dice: &mut Dice) -> Vec<(Arc<Owner>, Arc<str>)> {
    let mut owners = Vec::new();
    for (department, project, centre) in [
        ("research", "vision", "r1"),
        ("research", "ranking", "r1"),
        ("research", "", ""),
        ("search", "ranking", "s1"),
        ("support", "chat", ""),
        ("", "", ""),
    ] {
        let environment = dice.pick(&ENVIRONMENTS);
        let text = str::to_owned;
        let owner = Owner {
            department: text(department),
            project: text(project),
            environment: text(environment),
            ..Owner::default()
        };
        owners.push((Arc::new(owner), Arc::from(centre)));
    }
    let nobody = OwnerKind::ALL.into_iter().skip(1).map(|kind| (Arc::new(Owner::of_kind(kind)), Arc::from("")));
    owners.extend(nobody);
    owners
}
