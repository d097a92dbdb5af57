//! The embedded engine when its slots are taken: long queries, slow uploads and slow readers hold nobody up for long.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use contador_tests::Engine;

/// Sends a statement, with more in the URL's query; the status and the body.
fn post(engine: &Engine, more: &str, sql: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = open(engine, more, sql.len(), sql.as_bytes())?;
    answer(&mut stream)
}

fn ask(engine: &Engine, sql: &str) -> anyhow::Result<String> {
    let (status, text) = post(engine, "", sql)?;
    anyhow::ensure!(status == 200, "{sql}: {text}");
    Ok(text.trim_end().to_owned())
}

/// Starts a request whose body has `length` bytes, and sends some of them.
fn open(engine: &Engine, more: &str, length: usize, body: &[u8]) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", engine.port())).context("connect")?;
    let head = format!("POST /?{more} HTTP/1.0\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    Ok(stream)
}

fn answer(stream: &mut TcpStream) -> anyhow::Result<(u16, String)> {
    stream.set_read_timeout(Some(Duration::from_secs(50)))?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).context("a status")?;
    Ok((status, text.split_once("\r\n\r\n").map_or_else(String::new, |parts| parts.1.to_owned())))
}

const ENDLESS: &str = "SELECT count() AS endless FROM numbers(1000000000000000) WHERE NOT ignore(sipHash64(number))";

/// Waits until so many queries with this mark run; KILL … TEST lists them, and needs no slot of theirs.
fn running(engine: &Engine, mark: &str, expected: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut seen = 0;
    while Instant::now() < deadline {
        seen =
            ask(engine, &format!("KILL QUERY WHERE query LIKE '%AS {mark} FROM%' AND query NOT LIKE '%LIKE%' TEST"))?
                .lines()
                .count();
        if seen == expected {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("{seen} queries with {mark} were running; expected {expected}")
}

/// The statement's text, and how long it took.
fn timed(engine: &Engine, sql: &str) -> anyhow::Result<(String, Duration)> {
    let began = Instant::now();
    Ok((ask(engine, sql)?, began.elapsed()))
}

#[test]
fn long_queries_hold_up_no_insert_no_probe_and_no_kill() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (x UInt32) ENGINE = MergeTree ORDER BY x")?;
    std::thread::scope(|scope| {
        let busy: Vec<_> = (0..10)
            .map(|number| {
                let engine = &engine;
                scope.spawn(move || post(engine, &format!("query_id=busy-{number}"), ENDLESS))
            })
            .collect();
        // Two of the eight slots are kept for rows.
        running(&engine, "endless", 6)?;
        for (sql, expected) in
            [("SELECT 1", "1"), ("INSERT INTO t VALUES (1), (2)", ""), ("SELECT version() > ''", "1")]
        {
            let (text, took) = timed(&engine, sql)?;
            assert_eq!(text, expected);
            assert!(took < Duration::from_secs(10), "{sql} took {took:?}");
        }
        while busy.iter().any(|thread| !thread.is_finished()) {
            for number in 0..10 {
                ask(&engine, &format!("KILL QUERY WHERE query_id = 'busy-{number}' ASYNC"))?;
            }
        }
        for thread in busy {
            let (status, text) = thread.join().expect("a thread")?;
            assert!(status == 500 && text.contains("Code: 394."), "{text}");
        }
        assert_eq!(ask(&engine, "SELECT count() FROM t")?, "2");
        Ok(())
    })
}

#[test]
fn slow_uploads_give_way_to_others() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (x UInt32) ENGINE = MergeTree ORDER BY x")?;
    let begin = || open(&engine, "query=INSERT+INTO+t+FORMAT+CSV", 10_000_000, &b"1\n".repeat(150_000));
    let mut slow: Vec<TcpStream> = (0..8).map(|_| begin()).collect::<Result<_, _>>()?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut trickling: Vec<TcpStream> = slow.iter().map(TcpStream::try_clone).collect::<Result<_, _>>()?;
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                // One that was given up is closed.
                trickling.retain_mut(|stream| stream.write_all(b"1\n").is_ok());
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        std::thread::sleep(Duration::from_secs(1));
        let outcome = (|| {
            let (count, took) = timed(&engine, "SELECT count() FROM t")?;
            assert_eq!(count, "0");
            assert!(took < Duration::from_secs(5), "a query took {took:?}");
            let (_, took) = timed(&engine, "INSERT INTO t VALUES (7)")?;
            assert!(took < Duration::from_secs(20), "an insert took {took:?}");
            anyhow::Ok(())
        })();
        done.store(true, Ordering::SeqCst);
        outcome
    })?;
    let given_up = slow.iter_mut().find_map(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
        let mut text = vec![0; 1000];
        let count = stream.read(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text[..count]).into_owned())
    });
    let given_up = given_up.context("no upload was given up")?;
    assert!(given_up.starts_with("HTTP/1.0 503") && given_up.contains("Code: 209."), "{given_up}");
    drop(slow);
    assert_eq!(ask(&engine, "SELECT count(), sum(x) FROM t")?, "1\t7");
    Ok(())
}

#[test]
fn a_slow_upload_that_nobody_waits_for_goes_on() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (x UInt32) ENGINE = MergeTree ORDER BY x")?;
    let mut stream = open(&engine, "query=INSERT+INTO+t+FORMAT+CSV", 300_014, &b"1\n".repeat(150_000))?;
    for _ in 0..7 {
        std::thread::sleep(Duration::from_secs(1));
        stream.write_all(b"1\n")?;
    }
    assert_eq!(answer(&mut stream)?.0, 200);
    assert_eq!(ask(&engine, "SELECT count() FROM t")?, "150007");
    Ok(())
}

#[test]
fn slow_readers_give_way_to_others() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let sql = b"SELECT number AS unread FROM numbers(1000000000000)";
    let slow: Vec<TcpStream> = (0..8).map(|_| open(&engine, "", sql.len(), sql)).collect::<Result<_, _>>()?;
    running(&engine, "unread", 6)?;
    let (count, took) = timed(&engine, "SELECT count() FROM numbers(10)")?;
    assert_eq!(count, "10");
    assert!(took < Duration::from_secs(20), "a query took {took:?}");
    drop(slow);
    Ok(())
}

#[test]
fn a_request_that_breaks_off_stores_nothing() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (x UInt32) ENGINE = MergeTree ORDER BY x")?;
    let head = "POST /?query=INSERT+INTO+t+FORMAT+CSV HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
    // The second of each is longer than what is read before the statement begins.
    for rows in [1, 200_000] {
        let rows = "1\n".repeat(rows);
        let chunk = format!("{:x}\r\n{rows}\r\n", rows.len());
        for rest in [
            format!("Content-Length: {}\r\n\r\n{rows}", rows.len() + 2),
            format!("Transfer-Encoding: chunked\r\n\r\n{chunk}"),
            format!("Transfer-Encoding: chunked\r\n\r\n{chunk}{}", &chunk[..chunk.len() / 2]),
        ] {
            let mut stream = TcpStream::connect(("127.0.0.1", engine.port()))?;
            stream.write_all(format!("{head}{rest}").as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
            let answer = answer(&mut stream);
            // It may also be closed without a word.
            assert!(answer.as_ref().map_or(true, |(status, _)| *status >= 400), "{answer:?}");
        }
    }
    assert_eq!(ask(&engine, "SELECT count() FROM t")?, "0");
    Ok(())
}
