//! Generic resources as Slurm writes them.
//!
//! A node has `gpu:a100:4(S:0-1),shard:32(S:0-1)`, a job on it `gpu:a100:2(IDX:0-1),shard:3(IDX:0)`: the name, a type where one
//! is configured, how many, and in parentheses which ones. Of a node in use it is `gpu:2,shard:(null):1(IDX:2)`, too.

/// Most resources of one list, and most devices of one resource.
const MAX: usize = 1_024;

/// One resource.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Gres {
    /// `gpu`, `shard`, `mps` and so on.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Which ones, by their place among the node's devices ([`places`](super::places)); empty where that is not told.
    pub index: Vec<u32>,
}

/// The resources of a list; what is none of them is passed over.
pub fn parse(text: &str) -> Vec<Gres> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (place, character) in text.char_indices().chain([(text.len(), ',')]) {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 || place == text.len() => {
                found.extend(one(&text[start..place]));
                start = (place + 1).min(text.len());
            }
            _ => {}
        }
    }
    found.truncate(MAX);
    found
}

/// How many there are of this name in all.
pub fn count(list: &[Gres], name: &str) -> u64 {
    list.iter().filter(|gres| gres.name == name).fold(0, |sum, gres| sum.saturating_add(gres.count))
}

/// Those of a list that are devices, or shares of them.
pub fn devices(list: &[Gres]) -> impl Iterator<Item = &Gres> {
    list.iter().filter(|gres| matches!(gres.name.as_str(), "gpu" | "shard" | "mps") && gres.count > 0)
}

/// The devices of a list, by their place among the node's.
pub fn places(list: &[Gres]) -> Vec<u32> {
    devices(list).flat_map(|gres| gres.index.iter().copied()).collect()
}

fn one(text: &str) -> Option<Gres> {
    // Some lists have this in the place of a type that is not configured.
    let text = text.trim().replace(":(null)", "");
    let (what, which) = text.split_once('(').unwrap_or((&text, ""));
    let mut fields = what.split(':');
    let name = fields.next()?.trim_start_matches("gres/");
    let count = match fields.next_back() {
        Some(count) => number(count)?,
        None => 1,
    };
    let is_name =
        !name.is_empty() && name.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character));
    let index = which.strip_suffix(')').and_then(|which| which.strip_prefix("IDX:")).map(ranges).unwrap_or_default();
    is_name.then(|| Gres { name: name.to_owned(), count, index })
}

/// A number, also with a unit of 1024: `4K`.
fn number(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 1 << 10),
        b'M' | b'm' => (&text[..text.len() - 1], 1 << 20),
        b'G' | b'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// `0-1,3`; nothing when any of it is no number.
pub fn ranges(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) else {
            return Vec::new();
        };
        if first > last || last.abs_diff(first) as usize >= MAX || found.len() >= MAX {
            return Vec::new();
        }
        found.extend(first..=last);
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gres(name: &str, count: u64, index: &[u32]) -> Gres {
        Gres { name: name.into(), count, index: index.to_vec() }
    }

    #[test]
    fn what_a_node_has_and_a_job_got() {
        assert_eq!(parse("gpu:4,shard:32"), [gres("gpu", 4, &[]), gres("shard", 32, &[])]);
        assert_eq!(parse("gpu:a100:4(S:0-1),mps:a100:4K(S:0,1)"), [gres("gpu", 4, &[]), gres("mps", 4096, &[])]);
        let got = [gres("gpu", 3, &[0, 1, 3]), gres("shard", 3, &[0])];
        assert_eq!(parse("gpu:a100:3(IDX:0-1,3),shard:3(IDX:0)"), got);
        assert_eq!(parse("gpu"), [gres("gpu", 1, &[])]);
        assert_eq!(parse("gpu:2,shard:(null):1(IDX:2)"), [gres("gpu", 2, &[]), gres("shard", 1, &[2])]);
        assert_eq!(
            parse("gpu:a:2,gpu:b:3").iter().map(|gres| gres.count).sum::<u64>(),
            count(&parse("gpu:a:2,gpu:b:3"), "gpu")
        );
        for nothing in ["", "(null)", "N/A(", ":", "gpu:x", ",,"] {
            assert_eq!(parse(nothing), [], "{nothing}");
        }
        assert_eq!(parse("gpu:2(IDX:N/A)"), [gres("gpu", 2, &[])]);
        assert!(ranges("0-4294967295").is_empty(), "nobody has so many");
    }

    proptest! {
        #[test]
        fn any_text_has_an_answer(text in "\\PC{0,80}|[a-z0-9:,()IDX-]{0,80}") {
            prop_assert!(parse(&text).len() <= 81);
        }
    }
}
