//! Users by the C library (`getpwuid_r(3)`): it asks what `/etc/nsswitch.conf` names, such as SSSD, which may ask LDAP.
//!
//! That may take a while, or for ever, so that a thread of its own asks, one user after the other. Who wants a name waits for
//! [`MOMENT`] the first time, and not at all while the thread is late. What was answered is remembered, and so is that there is
//! no such user, or no answer: a directory that is down is not asked for each process, at each tick.

use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User};

use crate::owners::label;

/// How long somebody waits for a name that nobody has asked for yet.
const MOMENT: Duration = Duration::from_millis(100);

/// How long a name holds, that there is none, and that there was no answer.
const NAMED: Duration = Duration::from_secs(3_600);
const ABSENT: Duration = Duration::from_secs(300);
const FAILED: Duration = Duration::from_secs(60);

/// Most users that are remembered.
const MAX_USERS: usize = 4_096;

/// The name of a user, if there is such a user.
pub type Answer = Result<Option<String>, String>;

/// Asks for one user; it may block for ever.
pub type Ask = Box<dyn Fn(u32) -> Answer + Send>;

/// How the thread is asked, and answers.
type Line = (Sender<u32>, Receiver<(u32, Answer)>);

/// What is known of the users that were asked for.
pub struct Directory {
    /// Before the thread is started.
    ask: Option<Ask>,
    /// Gone when the thread could not be started.
    line: Option<Line>,
    known: HashMap<u32, Known>,
    /// It was waited for in vain, and there are still questions without an answer.
    is_late: bool,
    /// How often names have come, or were due.
    version: u64,
    /// When what was answered does not hold any more, of the first of those whom somebody may still ask for.
    due: Option<Instant>,
}

#[derive(Debug, Default)]
struct Known {
    name: Option<String>,
    /// There is no answer yet.
    is_asked: bool,
    /// Until when that holds; `None`: there was never an answer.
    until: Option<Instant>,
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("known", &self.known).field("is_late", &self.is_late).finish_non_exhaustive()
    }
}

impl Directory {
    /// That of this machine.
    pub fn of_machine() -> Self {
        Self::new(Box::new(|uid| {
            let user = User::from_uid(Uid::from_raw(uid)).map_err(|error| error.to_string())?;
            Ok(user.map(|user| user.name))
        }))
    }

    /// One that asks so, on a thread of its own.
    pub(super) fn new(ask: Ask) -> Self {
        Self { ask: Some(ask), line: None, known: HashMap::new(), is_late: false, version: 0, due: None }
    }

    /// The name of a user, as far as it is known at `now`. A name that is asked for again counts until the answer is there.
    pub fn name(&mut self, uid: u32, now: Instant) -> Option<&str> {
        self.hear(now);
        let known = self.known.get(&uid);
        let is_due = known.is_none_or(|known| !known.is_asked && known.until.is_none_or(|until| now >= until));
        if is_due {
            let is_new = known.is_none();
            self.ask(uid, now);
            if is_new && !self.is_late {
                self.wait(uid, now);
            }
        }
        self.known.get(&uid)?.name.as_deref()
    }

    /// Whether there is no answer yet, of a user that was asked for.
    pub fn is_asking(&self, uid: u32) -> bool {
        self.known.get(&uid).is_some_and(|known| known.is_asked && known.until.is_none())
    }

    /// How often, until `now`, a name has come or is to be asked for again. Whom nobody asks for then is not asked for, either.
    pub fn version(&mut self, now: Instant) -> u64 {
        self.hear(now);
        if self.due.is_some_and(|due| now >= due) {
            self.version += 1;
            let untils = self.known.values().filter(|known| !known.is_asked).filter_map(|known| known.until);
            self.due = untils.filter(|until| now < *until).min();
        }
        self.version
    }

    /// Takes that something holds until then.
    fn holds_until(&mut self, until: Instant) {
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
    }

    fn ask(&mut self, uid: u32, now: Instant) {
        if self.known.len() >= MAX_USERS && !self.known.contains_key(&uid) {
            self.known.retain(|_, known| known.is_asked);
            // It answers nobody.
            if self.known.len() >= MAX_USERS {
                return;
            }
        }
        if let Some(ask) = self.ask.take() {
            self.line = start(ask);
        }
        let is_asked = self.line.as_ref().is_some_and(|(questions, _)| questions.send(uid).is_ok());
        let known = self.known.entry(uid).or_default();
        known.is_asked = is_asked;
        if !is_asked {
            known.until = Some(now + FAILED);
            self.holds_until(now + FAILED);
        }
    }

    /// Waits a moment for the answer.
    fn wait(&mut self, uid: u32, now: Instant) {
        let until = Instant::now() + MOMENT;
        while self.is_asking(uid) {
            let Some((_, answers)) = &self.line else { return };
            match answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((uid, answer)) => self.take(uid, answer, now),
                Err(RecvTimeoutError::Timeout) => {
                    self.is_late = true;
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes what was answered meanwhile.
    fn hear(&mut self, now: Instant) {
        while let Some((_, answers)) = &self.line {
            match answers.try_recv() {
                Ok((uid, answer)) => self.take(uid, answer, now),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    // The thread is gone: nobody is named by it any more.
                    self.line = None;
                    self.known.values_mut().for_each(|known| known.is_asked = false);
                }
            }
        }
        self.is_late &= self.known.values().any(|known| known.is_asked);
    }

    fn take(&mut self, uid: u32, answer: Answer, now: Instant) {
        let Some(known) = self.known.get_mut(&uid) else { return };
        known.is_asked = false;
        let name = match answer {
            Ok(name) => name.filter(|name| !name.is_empty() && label::is_valid(name)),
            Err(error) => {
                tracing::debug!(uid, error, "the name of a user can't be found out");
                known.until = Some(now + FAILED);
                self.holds_until(now + FAILED);
                return;
            }
        };
        let until = now + if name.is_some() { NAMED } else { ABSENT };
        known.until = Some(until);
        if known.name != name {
            known.name = name;
            self.version += 1;
        }
        self.holds_until(until);
    }
}

/// Starts the thread, which ends when nobody asks any more.
fn start(ask: Ask) -> Option<Line> {
    let (questions, asked) = mpsc::channel::<u32>();
    let (say, answers) = mpsc::channel();
    let work = move || {
        while let Ok(uid) = asked.recv() {
            if say.send((uid, ask(uid))).is_err() {
                return;
            }
        }
    };
    match std::thread::Builder::new().name("users".into()).spawn(work) {
        Ok(_) => Some((questions, answers)),
        Err(error) => {
            tracing::warn!(%error, "the thread that asks for users can't be started");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A directory that counts how often it is asked.
    fn counting(answer: impl Fn(u32) -> Answer + Send + 'static) -> (Directory, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let ask = move |uid| {
            counted.fetch_add(1, Ordering::SeqCst);
            answer(uid)
        };
        (Directory::new(Box::new(ask)), count)
    }

    /// The name once there is an answer.
    fn settled(directory: &mut Directory, uid: u32, now: Instant) -> Option<String> {
        let start = Instant::now();
        loop {
            let name = directory.name(uid, now).map(str::to_owned);
            if !directory.known[&uid].is_asked {
                return name;
            }
            assert!(start.elapsed().as_secs() < 60);
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_was_answered_is_not_asked_again_for_a_while() {
        let (mut directory, asked) = counting(|uid| match uid {
            1 => Ok(Some("ana".into())),
            2 => Ok(None),
            3 => Ok(Some("a\nb".into())),
            _ => Err("down".into()),
        });
        let now = Instant::now();
        let names = |directory: &mut Directory, now| [1, 2, 3, 4].map(|uid| settled(directory, uid, now));
        let none = || [Some("ana".to_owned()), None, None, None];
        assert_eq!(names(&mut directory, now), none());
        let second = Duration::from_secs(1);
        for (later, expected) in
            [(FAILED - second, 4), (FAILED, 5), (ABSENT - second, 6), (ABSENT, 8), (NAMED - second, 11), (NAMED, 12)]
        {
            assert_eq!(names(&mut directory, now + later), none());
            assert_eq!(asked.load(Ordering::SeqCst), expected, "after {later:?}");
        }
        assert_eq!(directory.version(Instant::now()), 1);
    }

    #[test]
    fn a_directory_that_hangs_is_waited_for_once() {
        let (release, held) = mpsc::channel::<Answer>();
        let held = Mutex::new(held);
        let (mut directory, asked) = counting(move |_| held.lock().unwrap().recv().unwrap());
        let now = Instant::now();
        assert_eq!(directory.name(1, now), None);
        assert!(directory.is_late && directory.is_asking(1));
        // Those who come later don't wait: this would take an hour and more.
        for uid in 2..=40_000 {
            assert_eq!(directory.name(uid % 4_000 + 2, now), None);
        }
        assert!(asked.load(Ordering::SeqCst) <= 1);
        // It answers: each is named as soon as that is so, and that is said.
        for uid in 1..=4_001 {
            release.send(Ok(Some(format!("user{uid}")))).unwrap();
        }
        assert_eq!(settled(&mut directory, 1, now).as_deref(), Some("user1"));
        let start = Instant::now();
        while directory.version(Instant::now()) < 4_001 {
            assert!(start.elapsed().as_secs() < 60);
            std::thread::yield_now();
        }
        assert!(!directory.is_late && !directory.is_asking(1));
        assert!(directory.known.values().all(|known| known.name.is_some()));
    }

    #[test]
    fn no_more_users_are_remembered_than_there_is_room_for() {
        let (mut directory, _) = counting(|uid| Ok(Some(uid.to_string())));
        let now = Instant::now();
        for uid in 0..10_000 {
            assert_eq!(settled(&mut directory, uid, now), Some(uid.to_string()));
            assert!(directory.known.len() <= MAX_USERS);
        }
    }

    #[test]
    fn without_a_thread_nobody_is_named_and_nobody_waits() {
        let mut directory = Directory::new(Box::new(|_| std::panic::resume_unwind(Box::new("on purpose"))));
        let now = Instant::now();
        assert_eq!(directory.name(1, now), None);
        let start = Instant::now();
        while directory.line.is_some() {
            directory.version(Instant::now());
            assert!(start.elapsed().as_secs() < 60);
        }
        assert_eq!(directory.name(2, now), None);
        assert!(!directory.is_asking(1) && !directory.is_asking(2));
    }

    /// A name that has run out is asked for without anybody waiting, and counts until it is answered.
    #[test]
    fn an_old_name_counts_until_the_next_answer() {
        let (release, held) = mpsc::channel::<Answer>();
        let held = Mutex::new(held);
        let (mut directory, _) = counting(move |_| held.lock().unwrap().recv().unwrap());
        let now = Instant::now();
        release.send(Ok(Some("ana".into()))).unwrap();
        assert_eq!(settled(&mut directory, 1, now).as_deref(), Some("ana"));
        assert_eq!(directory.name(1, now + NAMED), Some("ana"));
        assert!(directory.known[&1].is_asked && !directory.is_late && !directory.is_asking(1));
        release.send(Err("down".into())).unwrap();
        assert_eq!(settled(&mut directory, 1, now + NAMED).as_deref(), Some("ana"));
        assert_eq!(directory.name(1, now + NAMED + FAILED), Some("ana"));
        release.send(Ok(None)).unwrap();
        assert_eq!(settled(&mut directory, 1, now + NAMED + FAILED), None);
    }

    /// Who does not ask as long as nothing is new hears of what is due.
    #[test]
    fn that_a_name_is_to_be_asked_for_again_is_something_new() {
        let (release, held) = mpsc::channel::<Answer>();
        let held = Mutex::new(held);
        let (mut directory, _) = counting(move |_| held.lock().unwrap().recv().unwrap());
        let now = Instant::now();
        release.send(Err("down".into())).unwrap();
        assert_eq!(settled(&mut directory, 1, now), None);
        let version = directory.version(now);
        let just = Duration::from_nanos(1);
        assert_eq!(directory.version(now + FAILED - just), version);
        let due = now + FAILED;
        assert_eq!([directory.version(due), directory.version(due)], [version + 1; 2], "once");
        release.send(Ok(None)).unwrap();
        assert_eq!(settled(&mut directory, 1, due), None);
        assert_eq!(directory.version(due + ABSENT - just), version + 1);
        assert_eq!(directory.version(due + ABSENT), version + 2);
        release.send(Ok(Some("ana".into()))).unwrap();
        assert_eq!(settled(&mut directory, 1, due + ABSENT).as_deref(), Some("ana"));
        assert_eq!(directory.version(due + ABSENT), version + 3, "he has a name");
        // Nobody asks for him any more.
        let later = due + ABSENT + NAMED;
        assert_eq!([0, 1, 2].map(|hour| directory.version(later + hour * NAMED)), [version + 4; 3]);
    }
}
