//! The embedded engine over plain HTTP, with curl: statuses, headers, users, sessions, cancelling.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use contador_tests::Engine;
use contador_tests::curl::{ask, curl, post};

#[test]
fn queries_come_by_get_and_by_post() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let ping = curl(&engine, "/ping", &[], None)?;
    assert_eq!((ping.status, ping.text().as_str()), (200, "Ok.\n"));
    assert_eq!(curl(&engine, "/", &[], None)?.text(), "Ok.\n");
    assert_eq!(curl(&engine, "/nothing", &[], None)?.status, 404);
    assert_eq!(curl(&engine, "/?query=SELECT%201", &[], None)?.text(), "1\n");
    assert_eq!(curl(&engine, "/?query=SELECT+number", &[], Some(b"FROM numbers(2)"))?.text(), "0\n1\n");
    let answer =
        curl(&engine, "/?default_format=JSONEachRow&query_id=mine&param_x=7", &[], Some(b"SELECT {x:UInt8} y"))?;
    assert_eq!(answer.text(), "{\"y\":7}\n");
    assert_eq!(answer.header("x-clickhouse-query-id"), "mine");
    assert_eq!(answer.header("x-clickhouse-format"), "JSONEachRow");
    assert_eq!(answer.header("content-type"), "application/x-ndjson; charset=UTF-8");
    assert_eq!(answer.header("x-clickhouse-timezone"), ask(&engine, "SELECT timezone()")?);
    assert!(answer.header("x-clickhouse-summary").contains("\"read_rows\":\"1\""), "{answer:?}");
    let form = curl(&engine, "/?query=SELECT+%7Bx:String%7D", &["-F", "param_x=a, b"], None)?;
    assert_eq!(form.text(), "a, b\n");
    let in_database = curl(&engine, "/", &["-H", "X-ClickHouse-Database: system"], Some(b"SELECT currentDatabase()"))?;
    assert_eq!(in_database.text(), "system\n");
    Ok(())
}

#[test]
fn a_get_changes_nothing() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (x UInt8) ENGINE = Memory")?;
    for statement in ["DROP%20TABLE%20t", "INSERT%20INTO%20t%20VALUES%20(1)", "INSERT%20INTO%20t%20SELECT%201"] {
        let answer = curl(&engine, &format!("/?query={statement}"), &[], None)?;
        assert_eq!((answer.status, answer.header("x-clickhouse-exception-code")), (500, "164"), "{answer:?}");
    }
    let allowed = curl(&engine, "/?query=SELECT%20count()%20FROM%20t&max_threads=1", &[], None)?;
    assert_eq!(allowed.text(), "0\n");
    Ok(())
}

#[test]
fn errors_have_their_status_code_and_text() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    for (sql, status, code, name) in [
        ("SELECT * FROM nowhere", 404, 60, "UNKNOWN_TABLE"),
        ("SELECT nothing", 404, 47, "UNKNOWN_IDENTIFIER"),
        ("SELEKT", 400, 62, "SYNTAX_ERROR"),
        ("SELECT 1; SELECT 2", 400, 62, "SYNTAX_ERROR"),
        ("", 400, 62, "SYNTAX_ERROR"),
        ("SELECT 1 FORMAT Nothing", 404, 73, "UNKNOWN_FORMAT"),
        ("SELECT throwIf(1)", 500, 395, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"),
        ("SELECT {x:UInt8}", 400, 456, "UNKNOWN_QUERY_PARAMETER"),
        ("SELECT 1 INTO OUTFILE '/tmp/x'", 500, 1, "UNSUPPORTED_METHOD"),
    ] {
        let answer = post(&engine, sql)?;
        let text = answer.text();
        assert_eq!(answer.status, status, "{sql}: {text}");
        assert_eq!(answer.header("x-clickhouse-exception-code"), code.to_string(), "{sql}: {text}");
        assert!(text.starts_with(&format!("Code: {code}. DB::Exception: ")), "{sql}: {text}");
        assert!(text.contains(&format!("({name}) (version ")), "{sql}: {text}");
    }
    // A faulty statement is told in its client's words, not in those that the endpoint adds.
    for (sql, said) in [
        ("SELECT 1 format", "position 16 (end of query): . Expected identifier."),
        ("SELECT 'x", "Single quoted string is not closed: Syntax error: failed at position 8 ('x): 'x."),
        ("SELECT \"x", "position 8 (\"x): \"x."),
        ("SELECT 1 /* x", "position 10 (/* x): /* x."),
        ("SELECT 1 FORMAT JSON SETTINGS x =", "position 34 (end of query)"),
        ("SELECT formatQuery('SELEKT')", "position 1 (SELEKT)"),
    ] {
        for more in ["/", "/?client_protocol_version=54460&default_format=Native"] {
            let text = curl(&engine, more, &[], Some(sql.as_bytes()))?.text();
            assert!(text.starts_with("Code: 62. ") && text.contains(said), "{sql}: {text}");
            assert!(!text.contains("/proc/") && !text.contains("' TRUNCATE"), "{sql}: {text}");
        }
    }
    let unknown = curl(&engine, "/?query=SELECT%201&database=nowhere", &[], None)?;
    assert_eq!((unknown.status, unknown.header("x-clickhouse-exception-code")), (404, "81"));
    let setting = curl(&engine, "/?query=SELECT%201&no_such=1", &[], None)?;
    assert_eq!((setting.status, setting.header("x-clickhouse-exception-code")), (404, "115"));
    Ok(())
}

#[test]
fn a_late_error_breaks_the_answer_off_or_is_waited_for() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let sql = b"SELECT throwIf(number = 2000000), number FROM numbers(3000000) SETTINGS max_threads = 1";
    for arguments in [&[][..], &["-H", "Accept-Encoding: gzip"], &["-H", "Accept-Encoding: zstd"]] {
        let answer = curl(&engine, "/?buffer_size=1000", arguments, Some(sql))?;
        assert_eq!((answer.status, answer.exit), (200, 18), "{arguments:?}");
        if arguments.is_empty() {
            let text = answer.text();
            let tag = answer.header("x-clickhouse-exception-tag").to_owned();
            let mark = format!("__exception__\r\n{tag}\r\nCode: 395. DB::Exception: ");
            let end = text.len() - 1000;
            assert!(text[end..].contains(&mark), "{tag}: {}", &text[end..]);
        }
    }
    let waited = curl(&engine, "/?wait_end_of_query=1", &[], Some(sql))?;
    assert_eq!((waited.status, waited.exit, waited.header("x-clickhouse-exception-code")), (500, 0, "395"));
    let good = curl(&engine, "/?wait_end_of_query=1", &[], Some(b"SELECT number FROM numbers(3000000)"))?;
    assert_eq!((good.status, good.body.split(|byte| *byte == b'\n').count()), (200, 3_000_001));
    Ok(())
}

#[test]
fn only_the_user_with_the_password_may_ask() -> anyhow::Result<()> {
    let engine = Engine::start_with(&["--user", "finance"], Some("s:e?cret"))?;
    let select = Some(&b"SELECT 1"[..]);
    assert_eq!(curl(&engine, "/ping", &[], None)?.status, 200);
    for arguments in
        [&["-u", "finance:s:e?cret"][..], &["-H", "X-ClickHouse-User: finance", "-H", "X-ClickHouse-Key: s:e?cret"]]
    {
        assert_eq!(curl(&engine, "/", arguments, select)?.text(), "1\n", "{arguments:?}");
    }
    assert_eq!(curl(&engine, "/?user=finance&password=s:e%3Fcret", &[], select)?.text(), "1\n");
    let wrong: [&[&str]; 5] = [
        &[],
        &["-u", "finance:wrong"],
        &["-u", "default:s:e?cret"],
        &["-H", "Authorization: Bearer s:e?cret"],
        &["-u", "finance:s:e?cret", "-H", "X-ClickHouse-User: finance"],
    ];
    for arguments in wrong {
        let answer = curl(&engine, "/", arguments, select)?;
        assert_eq!((answer.status, answer.header("x-clickhouse-exception-code")), (403, "516"), "{arguments:?}");
    }
    Ok(())
}

#[test]
fn sessions_keep_what_is_theirs() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let inside = |sql: &str, more: &str| curl(&engine, &format!("/?session_id=s{more}"), &[], Some(sql.as_bytes()));
    assert_eq!(inside("SELECT 1", "&session_check=1")?.header("x-clickhouse-exception-code"), "372");
    assert_eq!(inside("CREATE TEMPORARY TABLE mine (x UInt8)", "")?.status, 200);
    assert_eq!(inside("INSERT INTO mine VALUES (1), (2)", "&session_check=1")?.status, 200);
    assert_eq!(inside("SELECT sum(x) FROM mine", "")?.text(), "3\n");
    assert_eq!(inside("USE system", "")?.status, 200);
    assert_eq!(inside("SELECT currentDatabase()", "&database=default")?.text(), "default\n");
    assert_eq!(inside("SELECT currentDatabase()", "")?.text(), "system\n");
    assert_eq!(post(&engine, "SELECT sum(x) FROM mine")?.status, 404);
    assert_eq!(inside("SELECT 1", "&close_session=1")?.status, 200);
    assert_eq!(inside("SELECT sum(x) FROM mine", "")?.status, 404);
    assert_eq!(curl(&engine, "/?session_id=short&session_timeout=1", &[], Some(b"SELECT 1"))?.status, 200);
    let deadline = Instant::now() + Duration::from_secs(10);
    // Each of these asks for a session that must exist, and so doesn't keep it alive once it is gone.
    loop {
        std::thread::sleep(Duration::from_millis(1200));
        let again = curl(&engine, "/?session_id=short&session_check=1&session_timeout=1", &[], Some(b"SELECT 1"))?;
        if again.header("x-clickhouse-exception-code") == "372" {
            break;
        }
        assert!(Instant::now() < deadline, "the session never ended");
    }
    Ok(())
}

#[test]
fn a_session_outlives_a_read_only_request() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (x UInt8) ENGINE = Memory")?;
    let inside = |sql: &str, more: &str| curl(&engine, &format!("/?session_id=s{more}"), &[], Some(sql.as_bytes()));
    assert_eq!(inside("CREATE TEMPORARY TABLE mine (x UInt8)", "")?.status, 200);
    for mode in ["&readonly=1", "&readonly=2"] {
        assert_eq!(inside("SELECT 1", mode)?.text(), "1\n");
        for sql in ["INSERT INTO t VALUES (1)", "INSERT INTO t SELECT 1", "DROP TABLE t"] {
            assert_eq!(inside(sql, mode)?.header("x-clickhouse-exception-code"), "164", "{sql}");
        }
        assert_eq!(inside("INSERT INTO mine VALUES (1)", "&session_check=1")?.status, 200, "{mode}");
    }
    assert_eq!(inside("SET max_threads = 3", "&readonly=1")?.header("x-clickhouse-exception-code"), "164");
    // What a SET sets stays, what came with it doesn't.
    assert_eq!(inside("SET max_threads = 3", "&max_block_size=77&database=system")?.status, 200);
    let settings = "SELECT getSetting('max_threads'), getSetting('max_block_size') = 77, currentDatabase()";
    assert_eq!(inside(settings, "")?.text(), "3\t0\tdefault\n");
    assert_eq!(inside("USE system", "&max_block_size=77")?.status, 200);
    assert_eq!(inside(settings, "")?.text(), "3\t0\tsystem\n");
    assert_eq!(inside("SELECT count() FROM mine", "&session_check=1")?.text(), "2\n");
    // A session that makes itself read-only stays so, and stays usable.
    assert_eq!(inside("SET readonly = 1", "")?.status, 200);
    for _ in 0..2 {
        assert_eq!(inside("SELECT count() FROM mine", "&session_check=1")?.text(), "2\n");
        let changed = inside("INSERT INTO default.t SELECT 1", "&session_check=1")?;
        assert_eq!(changed.header("x-clickhouse-exception-code"), "164", "{changed:?}");
    }
    assert_eq!(ask(&engine, "SELECT count() FROM t")?, "0");
    Ok(())
}

/// Waits until so many queries with this mark run.
fn running(engine: &Engine, mark: &str, expected: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let sql = format!("SELECT count() FROM system.processes WHERE query LIKE '%{mark}%' AND query NOT LIKE '%LIKE%'");
    let mut seen = String::new();
    while Instant::now() < deadline {
        seen = ask(engine, &sql)?;
        if seen == expected {
            return Ok(());
        }
    }
    anyhow::bail!("{seen} queries with {mark} were running; expected {expected}")
}

#[test]
fn a_closed_connection_ends_its_query_alone() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let spawn = |sql: &str| {
        Command::new("curl").args(["-s", engine.url(), "-d", sql]).stdout(Stdio::null()).spawn().context("curl")
    };
    // One that sends nothing until its end, one that sends all the time, and one of another client's.
    let mut silent =
        spawn("SELECT count() AS silent FROM numbers(1000000000000000) WHERE NOT ignore(sipHash64(number))")?;
    let mut loud = spawn("SELECT number AS loud FROM numbers(1000000000000000)")?;
    let mut other = spawn("SELECT sum(sleepEachRow(1)) AS other FROM numbers(3) SETTINGS max_block_size = 1")?;
    for mark in ["AS silent", "AS loud", "AS other"] {
        running(&engine, mark, "1")?;
    }
    silent.kill()?;
    loud.kill()?;
    silent.wait()?;
    loud.wait()?;
    running(&engine, "AS silent", "0")?;
    running(&engine, "AS loud", "0")?;
    assert!(other.wait()?.success());
    Ok(())
}

#[test]
fn a_session_that_made_itself_read_only_can_be_stopped_like_any_other() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let endless = "SELECT count() AS victim FROM numbers(1000000000000000) WHERE NOT ignore(sipHash64(number))";
    for session in ["left", "killed"] {
        assert_eq!(curl(&engine, &format!("/?session_id={session}"), &[], Some(b"SET readonly = 1"))?.status, 200);
        let refused = curl(&engine, &format!("/?session_id={session}&max_block_size=7"), &[], Some(b"SELECT 1"))?;
        assert!(refused.text().contains("max_block_size"), "{refused:?}");
    }
    // Its client leaves.
    let url = format!("{}/?session_id=left", engine.url());
    let mut left = Command::new("curl").args(["-s", &url, "-d", endless]).stdout(Stdio::null()).spawn()?;
    running(&engine, "AS victim", "1")?;
    left.kill()?;
    left.wait()?;
    // The engine's list may keep what has failed in such a session; the session itself is free again.
    let deadline = Instant::now() + Duration::from_secs(20);
    while curl(&engine, "/?session_id=left", &[], Some(b"SELECT 1"))?.status != 200 {
        assert!(Instant::now() < deadline, "the session is still busy");
    }
    // It is killed by the id that its client chose.
    std::thread::scope(|scope| {
        let victim = scope.spawn(|| curl(&engine, "/?session_id=killed&query_id=mine", &[], Some(endless.as_bytes())));
        running(&engine, "AS victim", "1")?;
        ask(&engine, "KILL QUERY WHERE query_id = 'mine' ASYNC")?;
        let answer = victim.join().expect("a thread")?;
        assert_eq!((answer.status, answer.header("x-clickhouse-exception-code")), (500, "394"), "{answer:?}");
        Ok(())
    })
}

#[test]
fn a_query_is_killed_by_the_id_its_client_chose() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let endless = "SELECT count() AS victim FROM numbers(1000000000000000) WHERE NOT ignore(sipHash64(number))";
    std::thread::scope(|scope| {
        let victim = scope.spawn(|| curl(&engine, "/?query_id=chosen", &[], Some(endless.as_bytes())));
        running(&engine, "AS victim", "1")?;
        // No second one of that name runs beside it.
        let second = curl(&engine, "/?query_id=chosen", &[], Some(b"SELECT 1"))?;
        assert_eq!((second.status, second.header("x-clickhouse-exception-code")), (500, "216"), "{second:?}");
        ask(&engine, "KILL QUERY WHERE query_id = 'other' SYNC")?;
        ask(&engine, "KILL QUERY WHERE query_id = 'chosen' SYNC")?;
        let answer = victim.join().expect("a thread")?;
        assert_eq!((answer.status, answer.header("x-clickhouse-exception-code")), (500, "394"), "{answer:?}");
        // Unless it is to take its place.
        let victim = scope.spawn(|| curl(&engine, "/?query_id=chosen", &[], Some(endless.as_bytes())));
        running(&engine, "AS victim", "1")?;
        let third = curl(&engine, "/?query_id=chosen&replace_running_query=1", &[], Some(b"SELECT 3"))?;
        assert_eq!((third.status, third.text().as_str()), (200, "3\n"));
        let answer = victim.join().expect("a thread")?;
        assert_eq!(answer.header("x-clickhouse-exception-code"), "394", "{answer:?}");
        Ok(())
    })
}
