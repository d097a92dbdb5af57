//! A program that does nothing with its memory but look at it: what a machine takes for that alone.
//!
//! On some machines, virtual ones above all, a page that was left alone for a second is not free to touch: caches and
//! translations are gone, and a hypervisor may have taken the page itself. Every program of that size pays it, whatever it does.

use std::hint::black_box;
use std::num::NonZeroU64;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Names the pages and the milliseconds between two looks, for a program that is started as the floor.
const VARIABLE: &str = "CONTADOR_FLOOR";

/// Has the command be the floor: one look at each of so many pages at every interval.
pub fn configure(command: &mut Command, pages: u64, interval: Duration) {
    command.env(VARIABLE, format!("{pages} {}", interval.as_millis()));
}

/// Is the floor, for ever, when the program was started as that.
pub fn run_if_asked() {
    let Ok(asked) = std::env::var(VARIABLE) else { return };
    let (pages, interval) = asked.split_once(' ').expect("two numbers");
    let pages: usize = pages.parse().expect("a number of pages");
    let interval: NonZeroU64 = interval.parse().expect("milliseconds above 0");
    let page = rustix::param::page_size();
    let mut memory = vec![1_u8; (pages + 1) * page];
    // A step that shares no factor with a power of two goes through all of them, and not in order.
    let step = 7919;
    let places = pages.next_power_of_two();
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        std::thread::sleep(Duration::from_millis(interval.get() - now % interval));
        for turn in 0..places {
            let place = turn * step % places;
            if place < pages {
                // Not the same line of each page, which would be few sets of the cache.
                let at = place * page + place % 64 * 64;
                memory[at] = black_box(memory[at].wrapping_add(1));
            }
        }
    }
}
