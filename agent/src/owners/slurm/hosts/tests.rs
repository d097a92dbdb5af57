use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn names(list: &str) -> Vec<String> {
    HostList::parse(list).unwrap().names(10_000).unwrap()
}

#[test]
fn names_are_those_of_slurm() {
    // What `scontrol show hostnames` of Slurm 22.05 prints of each; the last two it refuses, and newer releases may not.
    for (list, expected) in [
        ("", ""),
        ("n1", "n1"),
        ("n1,n7", "n1 n7"),
        ("n[1-3]", "n1 n2 n3"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[8-11,20]", "n8 n9 n10 n11 n20"),
        ("rack[1-2]n[1-2]", "rack1n1 rack1n2 rack2n1 rack2n2"),
        ("n[98-101]", "n98 n99 n100 n101"),
        ("x,gpu-[1,3],y[2-2]", "x gpu-1 gpu-3 y2"),
        ("n[1-010]", "n1 n2 n3 n4 n5 n6 n7 n8 n9 n10"),
        ("/dev/nvidia[0-1]", "/dev/nvidia0 /dev/nvidia1"),
        ("a[001-003,12]b", "a001b a002b a003b a12b"),
        ("a[1-2]b[3-4]c", "a1b3c a1b4c a2b3c a2b4c"),
    ] {
        assert_eq!(names(list), expected.split_whitespace().collect::<Vec<_>>(), "{list}");
    }
    for wrong in [
        "n[", "n]", "n[1", "n[]", "n[1-]", "n[a]", "n[2-1]", "n[[1]]", "n[1]]", "n[1,]", "n[1-2-3]", "n[ 1]", "n[03-1]",
    ] {
        assert_eq!(HostList::parse(wrong), None, "{wrong}");
    }
    assert_eq!(HostList::parse(&"n,".repeat(MAX_BYTES)), None);
}

#[test]
fn a_list_may_be_larger_than_anybody_has_room_for() {
    let list = HostList::parse("n[0-999999999999999999]x[0-999999999999999999][0-999999999999999999]").unwrap();
    assert_eq!(list.names(usize::MAX / 2), None);
    assert!(list.has("n7x12") && list.has("n999999999999999999x00") && !list.has("n07x12") && !list.has("n7x1"));
    // Whichever digits belong to which range.
    let wide = HostList::parse(&"[0-999999999999999999]".repeat(40)).unwrap();
    assert!(wide.has(&"7".repeat(400)) && !wide.has(&format!("{}x", "7".repeat(400))));
    assert_eq!(HostList::parse("n[1-5]").unwrap().names(4), None);
    assert_eq!(HostList::parse("n[1-5]").unwrap().names(5).map(|names| names.len()), Some(5));
}

/// A range: its first number, how many there are, and how many digits are written.
type Numbers = (u64, u64, usize);

/// A name as it is written and the names that it stands for, by counting.
fn written((first, groups): &(String, Vec<(Vec<Numbers>, String)>)) -> (String, Vec<String>) {
    let (mut text, mut all) = (first.clone(), vec![first.clone()]);
    for (ranges, after) in groups {
        let mut numbers = Vec::new();
        let mut inside = Vec::new();
        for (first, more, width) in ranges {
            let digits = |number: u64| {
                let plain = number.to_string();
                "0".repeat(width.saturating_sub(plain.len())) + &plain
            };
            inside.push(if *more == 0 {
                digits(*first)
            } else {
                format!("{}-{}", digits(*first), digits(first + more))
            });
            for step in 0..=*more {
                numbers.push(digits(first + step));
            }
        }
        text += &format!("[{}]{after}", inside.join(","));
        let mut longer = Vec::new();
        for name in &all {
            for number in &numbers {
                longer.push(format!("{name}{number}{after}"));
            }
        }
        all = longer;
    }
    (text, all)
}

fn name() -> impl Strategy<Value = (String, Vec<(Vec<Numbers>, String)>)> {
    let numbers = vec((0_u64..130, 0_u64..4, 0_usize..5), 1..4);
    ("[a-z][a-z0-9-]{0,3}", vec((numbers, "[a-z.-]{0,2}"), 0..3))
}

proptest! {
    #[test]
    fn what_is_written_is_read(of in vec(name(), 0..4), other in "[a-z][a-z0-9-]{0,4}") {
        let (texts, each): (Vec<String>, Vec<Vec<String>>) = of.iter().map(written).unzip();
        let (list, expected) = (HostList::parse(&texts.join(",")).unwrap(), each.concat());
        prop_assert_eq!(list.names(expected.len()), Some(expected.clone()));
        prop_assert!(expected.is_empty() || list.names(expected.len() - 1).is_none());
        let all: HashSet<&String> = expected.iter().collect();
        prop_assert!(expected.iter().all(|name| list.has(name)));
        // Names that are almost one of them, and any other one.
        let near = expected.iter().flat_map(|name| {
            let ends = [format!("{name}0"), format!("0{name}"), name[..name.len() - 1].to_owned()];
            let zeros = (0..name.len()).map(|at| format!("{}0{}", &name[..at], &name[at..]));
            ends.into_iter().chain(zeros).collect::<Vec<_>>()
        });
        for name in near.chain([other]) {
            prop_assert_eq!(list.has(&name), all.contains(&name), "{}", name);
        }
    }

    #[test]
    fn any_text_has_an_answer(list in "\\PC{0,40}|[a-z0-9,\\[\\]-]{0,40}", name in "\\PC{0,20}|[a-z0-9]{0,20}") {
        if let Some(list) = HostList::parse(&list) && let Some(names) = list.names(1_000) {
            prop_assert_eq!(names.contains(&name), list.has(&name));
        }
    }
}
