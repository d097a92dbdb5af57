//! The threads that call the engine. They are kept, since the engine takes milliseconds to greet a new one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Stack of each; the engine's parser and planner recurse deeply.
const STACK: usize = 16 << 20;

type Work = Box<dyn FnOnce() + Send>;

/// A fixed number of threads.
pub struct Workers {
    sender: Sender<Work>,
}

impl Workers {
    /// Starts `count` threads; they end when this is dropped.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(count: usize) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..count {
            let receiver = Arc::clone(&receiver);
            std::thread::Builder::new()
                .name(format!("statement-{number}"))
                .stack_size(STACK)
                .spawn(move || work(&receiver))?;
        }
        Ok(Self { sender })
    }

    /// Has one of them do this as soon as it is free. The slots see to it that one is, or is about to be.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) {
        // The receivers live as long as this.
        let _ = self.sender.send(Box::new(work));
    }
}

fn work(receiver: &Mutex<Receiver<Work>>) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = next else { return };
        // The panic's own message is written already; its client is told that there is no answer.
        let _ = catch_unwind(AssertUnwindSafe(work));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_costs_no_thread() {
        let workers = Workers::start(2).expect("two threads");
        let (sender, receiver) = channel();
        for number in 0..10 {
            let sender = sender.clone();
            workers.run(move || {
                assert!(number % 2 == 0, "an odd number, as this test wants it");
                sender.send(number).expect("a receiver");
            });
        }
        let mut done: Vec<i32> = receiver.iter().take(5).collect();
        done.sort_unstable();
        assert_eq!(done, [0, 2, 4, 6, 8]);
    }
}
