//! The GPUs in a list of trackable resources, such as `billing=8,cpu=8,gres/gpu:h100=4,gres/gpu=4,mem=64G,node=1`.
//!
//! Slurm names GPUs with their type, without it, or both, as its `AccountingStorageTRES` says. The number without a type is then
//! that of all of them: what the types leave of it has no type.

use std::borrow::Cow;

use super::UNTYPED;

/// What a job has of a resource.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Kind {
    /// Whole GPUs, or instances of MIG.
    Gpu,
    /// Parts of a GPU that Slurm calls shards.
    Shard,
}

impl Kind {
    /// Slurm's name of the resource.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gres/gpu",
            Self::Shard => "gres/shard",
        }
    }
}

/// So many of one type.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Gpus<'t> {
    pub kind: Kind,
    /// Empty if Slurm names none.
    pub of_type: &'t str,
    /// Above 0.
    pub count: u32,
}

/// The GPUs and shards in a list of resources, each type once.
///
/// # Errors
/// What was expected.
pub(super) fn gpus(text: &str, most: u32) -> Result<Vec<Gpus<'_>>, String> {
    let mut all = of_kind(text, Kind::Gpu, most)?;
    all.extend(of_kind(text, Kind::Shard, most)?);
    Ok(all)
}

fn of_kind(text: &str, kind: Kind, most: u32) -> Result<Vec<Gpus<'_>>, String> {
    let name = kind.as_str();
    let mut typed: Vec<Gpus<'_>> = Vec::new();
    let mut total = None;
    for part in text.split(',') {
        let Some(rest) = part.strip_prefix(name).filter(|rest| rest.starts_with([':', '='])) else { continue };
        let (of_type, count) = rest.rsplit_once('=').ok_or_else(|| format!("{name}[:TYPE]=NUMBER"))?;
        let count = number(count, most).ok_or_else(|| format!("{name} to be a whole number up to {most}"))?;
        let of_type = match of_type.strip_prefix(':') {
            None if of_type.is_empty() && total.replace(count).is_none() => continue,
            Some(of_type) if !of_type.is_empty() && typed.iter().all(|gpus| gpus.of_type != of_type) => of_type,
            _ => return Err(format!("{name} once, and each type of it once")),
        };
        typed.push(Gpus { kind, of_type, count });
    }
    let sum: u64 = typed.iter().map(|gpus| u64::from(gpus.count)).sum();
    let total = total.map_or(sum, u64::from);
    let rest = total.checked_sub(sum).ok_or_else(|| format!("{name} to be as many as those of its types"))?;
    if let Some(count) = u32::try_from(rest).ok().filter(|count| *count > 0) {
        typed.push(Gpus { kind, of_type: "", count });
    }
    typed.retain(|gpus| gpus.count > 0);
    Ok(typed)
}

/// What a type is called in the bill if nothing else is said: as Slurm does, but an instance of MIG as the driver does, so that the
/// rate of whole GPUs is not its own. Slurm's name of one ends in its profile, as `1g.10gb` or `a100_3g.20gb`.
pub(super) fn model(of_type: &str) -> Cow<'_, str> {
    let (model, profile) = of_type.rsplit_once('_').unwrap_or((UNTYPED, of_type));
    let parts = profile.split_once("g.").and_then(|(slices, rest)| Some((slices, rest.split_once("gb")?.0)));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if parts.is_some_and(|(slices, memory)| is_digits(slices) && is_digits(memory)) {
        return Cow::Owned(format!("{model} MIG {profile}"));
    }
    Cow::Borrowed(if of_type.is_empty() { UNTYPED } else { of_type })
}

fn number(text: &str, most: u32) -> Option<u32> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten().filter(|number| *number <= most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<(&str, u32)>, String> {
        let all = gpus(text, 1_000_000)?;
        Ok(all.into_iter().filter(|gpus| gpus.kind == Kind::Gpu).map(|gpus| (gpus.of_type, gpus.count)).collect())
    }

    #[test]
    fn gpus_that_are_named_twice_are_counted_once() {
        for (text, expected) in [
            ("billing=8,cpu=8,gres/gpu=4,mem=64G,node=1", vec![("", 4)]),
            ("billing=8,cpu=8,gres/gpu:h100=4,mem=64G,node=1", vec![("h100", 4)]),
            ("gres/gpu:h100=4,gres/gpu=4", vec![("h100", 4)]),
            ("gres/gpu=4,gres/gpu:h100=4", vec![("h100", 4)]),
            ("gres/gpu:a100=1,gres/gpu:h100=2,gres/gpu=3", vec![("a100", 1), ("h100", 2)]),
            // Only some types are kept by the accounting.
            ("gres/gpu:h100=1,gres/gpu=3", vec![("h100", 1), ("", 2)]),
            ("gres/gpu:nvidia_h100_80gb_hbm3=2", vec![("nvidia_h100_80gb_hbm3", 2)]),
            ("gres/gpu:1g.10gb=3,gres/gpu=3", vec![("1g.10gb", 3)]),
            ("gres/gpu=0,cpu=1", vec![]),
            // Other resources, whose names begin the same.
            ("gres/gpumem=80G,gres/gpuutil=90,cpu=1", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_instance_of_mig_is_never_called_like_a_whole_gpu() {
        for (of_type, called) in [
            ("", "gpu"),
            ("h100", "h100"),
            ("nvidia_h100_80gb_hbm3", "nvidia_h100_80gb_hbm3"),
            ("1g.10gb", "gpu MIG 1g.10gb"),
            ("a100_3g.20gb", "a100 MIG 3g.20gb"),
            ("nvidia_a100_1g.5gb+me", "nvidia_a100 MIG 1g.5gb+me"),
            ("g.10gb", "g.10gb"),
            ("rtx_g.gb", "rtx_g.gb"),
        ] {
            assert_eq!(model(of_type), called);
        }
    }

    #[test]
    fn shards_are_told_apart() {
        let all = gpus("cpu=1,gres/shard=3,gres/shard:h100=3", 10).unwrap();
        assert_eq!(all, [Gpus { kind: Kind::Shard, of_type: "h100", count: 3 }]);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (text, expected) in [
            ("gres/gpu:h100=4,gres/gpu=3", "gres/gpu to be as many as those of its types"),
            ("gres/gpu=4,gres/gpu=4", "gres/gpu once, and each type of it once"),
            ("gres/gpu:h100=1,gres/gpu:h100=1", "gres/gpu once, and each type of it once"),
            ("gres/gpu:=1", "gres/gpu once, and each type of it once"),
            ("gres/gpu=", "gres/gpu to be a whole number up to 1000000"),
            ("gres/gpu=1.5", "gres/gpu to be a whole number up to 1000000"),
            ("gres/gpu=1K", "gres/gpu to be a whole number up to 1000000"),
            ("gres/gpu:h100", "gres/gpu[:TYPE]=NUMBER"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
    }

    proptest! {
        /// However a list is ordered, and whichever types it names, all GPUs are in it once.
        #[test]
        fn all_gpus_are_counted_once(counts in prop::collection::vec(1u32..9, 1..4), named in 0usize..4, turn in 0usize..5) {
            let named = named.min(counts.len());
            let all: u32 = counts.iter().sum();
            let mut parts: Vec<String> = counts.iter().take(named).enumerate().map(|(at, n)| format!("gres/gpu:t{at}={n}")).collect();
            parts.push(format!("gres/gpu={all}"));
            parts.push("cpu=7".to_owned());
            let turn = turn % parts.len();
            parts.rotate_left(turn);
            let text = parts.join(",");
            let sum: u32 = read(&text).unwrap().iter().map(|(_, count)| count).sum();
            prop_assert_eq!(sum, all);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(gres/gpu|gres/shard|[:=,0-9a-z]){0,12}") {
            let _ = gpus(&text, 1_000_000);
        }
    }
}
