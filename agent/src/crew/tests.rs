use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

fn job(crew: &Crew, slow: bool, run: impl FnOnce() + Send + 'static) {
    crew.push(&Crew::job_name("job"), slow, run);
}

/// A job that nobody is called for: it waits for whoever is there.
fn waiting(crew: &Crew, run: impl FnOnce() + Send + 'static) {
    crew.0.0.lock().jobs.push_back(Job { name: Crew::job_name("job"), is_apart: false, run: Box::new(run) });
}

/// A job that waits until something is sent to it, and says before that it has begun.
fn blocked(begun: Sender<()>) -> (Sender<()>, impl FnOnce() + Send + 'static) {
    let (release, wait): (Sender<()>, Receiver<()>) = channel();
    let run = move || {
        begun.send(()).unwrap();
        wait.recv().ok();
    };
    (release, run)
}

/// A crew whose thread is at a job, until something is sent.
fn busy() -> (Crew, Sender<()>) {
    let crew = Crew::start().unwrap();
    let (begun, begins) = channel();
    let (release, run) = blocked(begun);
    job(&crew, false, run);
    begins.recv().unwrap();
    (crew, release)
}

#[test]
fn jobs_that_are_done_soon_are_done_in_order_by_one_thread() {
    let crew = Crew::start().unwrap();
    let (say, said) = channel();
    // Until all are there, the first is not done.
    let (gate, open) = channel::<()>();
    job(&crew, false, move || open.recv().unwrap());
    for number in 0..100 {
        let say = say.clone();
        waiting(&crew, move || say.send((number, thread::current().id())).unwrap());
    }
    gate.send(()).unwrap();
    let all: Vec<_> = said.iter().take(100).collect();
    assert!(all.iter().map(|(number, _)| *number).eq(0..100));
    assert!(all.iter().all(|(_, thread)| *thread == all[0].1));
}

#[test]
fn a_job_that_does_not_end_holds_up_no_other() {
    let crew = Crew::start().unwrap();
    let (begun, begins) = channel();
    let mut held = Vec::new();
    for _ in 0..3 {
        let (release, run) = blocked(begun.clone());
        held.push(release);
        job(&crew, false, run);
        // Nobody but who asks whether it goes on sees to that.
        while begins.try_recv().is_err() {
            crew.tend();
            thread::yield_now();
        }
    }
    let (say, said) = channel();
    job(&crew, false, move || say.send(7).unwrap());
    let answer = loop {
        if let Ok(answer) = said.try_recv() {
            break answer;
        }
        crew.tend();
        thread::yield_now();
    };
    assert_eq!((answer, crew.threads()), (7, 4));
    drop(held);
}

#[test]
fn what_is_slow_is_not_waited_for_at_all() {
    let crew = Crew::start().unwrap();
    let (begun, begins) = channel();
    let held: Vec<_> = (0..4)
        .map(|_| {
            let (release, run) = blocked(begun.clone());
            job(&crew, true, run);
            release
        })
        .collect();
    // All of them are begun, without anybody's asking.
    assert_eq!(begins.iter().take(4).count(), 4);
    drop(held);
}

#[tokio::test]
async fn who_waits_sees_to_it_that_jobs_are_taken() {
    let (crew, release) = busy();
    let (say, said) = channel();
    waiting(&crew, move || say.send(7).unwrap());
    let far = tokio::time::Instant::now() + Duration::from_secs(3_600);
    loop {
        let rest = crew.rest();
        tokio::pin!(rest);
        rest.as_mut().enable();
        if said.try_recv() == Ok(7) {
            break;
        }
        crew.wait(rest, far).await;
    }
    drop(release);
}

#[tokio::test]
async fn what_is_run_is_waited_for_and_gone_when_it_panics() {
    let crew = Crew::start().unwrap();
    let name = Crew::job_name("disk");
    assert_eq!(crew.run(&name, || 7).await, Some(7));
    assert_eq!(crew.run(&name, || std::panic::resume_unwind(Box::new("on purpose"))).await, None::<i32>);
    // Behind a job that does not end, and whoever else waits.
    let (begun, begins) = channel();
    let (release, blocked) = blocked(begun);
    job(&crew, false, blocked);
    begins.recv().unwrap();
    waiting(&crew, || {});
    assert_eq!(crew.run(&name, || 8).await, Some(8));
    drop(release);
}

#[tokio::test]
async fn who_waits_for_the_sensors_does_not_wait_for_what_is_run_after_them() {
    let crew = Crew::start().unwrap();
    let (begun, begins) = channel();
    let (release, sensor) = blocked(begun.clone());
    job(&crew, false, sensor);
    begins.recv().unwrap();
    let rest = crew.rest();
    tokio::pin!(rest);
    rest.as_mut().enable();
    // The same thread goes on with it, and does not come to rest.
    let (held, apart) = blocked(begun);
    let job = Job { name: Crew::job_name("disk"), is_apart: true, run: Box::new(apart) };
    crew.0.0.lock().jobs.push_back(job);
    release.send(()).unwrap();
    rest.await;
    drop(held);
}

#[test]
fn a_thread_bears_the_name_of_its_job() {
    let crew = Crew::start().unwrap();
    let (say, said) = channel();
    let name = Crew::job_name("GPU-5d5ba0d6-d33d");
    crew.push(&name, false, move || say.send(rustix::thread::name().unwrap()).unwrap());
    assert_eq!(said.recv().unwrap().as_c_str(), c"GPU-5d5ba0d6-d3");
}

#[test]
fn a_renewed_crew_goes_on_with_other_threads() {
    let crew = Crew::start().unwrap();
    let (say, said) = channel();
    let work = || {
        let say = say.clone();
        job(&crew, false, move || say.send(thread::current().id()).unwrap());
        said.recv().unwrap()
    };
    let before = work();
    assert_eq!(work(), before);
    crew.renew();
    while crew.threads() > 0 {
        thread::yield_now();
    }
    let after = work();
    assert_ne!(after, before);
    assert_eq!((work(), crew.threads()), (after, 1));
}

#[test]
fn threads_end_with_their_crew_and_do_before_what_they_were_given() {
    let (crew, release) = busy();
    let (say, said) = channel();
    waiting(&crew, move || say.send(7).unwrap());
    let shared = Arc::downgrade(&crew.0.0);
    drop(crew);
    release.send(()).unwrap();
    assert_eq!(said.recv(), Ok(7));
    while shared.strong_count() > 0 {
        thread::yield_now();
    }
}
