//! The embedded engine over plain HTTP, with curl: statuses, headers, compressions, formats, sessions, cancelling.

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use contador_tests::Engine;

/// An answer as curl got it.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HashMap<String, String>,
    body: Vec<u8>,
    /// curl's exit code: 18 is a body that broke off.
    exit: i32,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Runs curl with the URL's part behind the address, more arguments, and a body from its standard input.
fn curl(engine: &Engine, path: &str, arguments: &[&str], body: Option<&[u8]>) -> anyhow::Result<Answer> {
    let mut command = Command::new("curl");
    command.args(["-sS", "--include", "--max-time", "120", "-H", "Expect:"]).args(arguments);
    if body.is_some() {
        command.args(["--data-binary", "@-"]);
    }
    command.arg(format!("{}{path}", engine.url()));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("curl")?;
    let mut input = child.stdin.take().context("curl's input")?;
    let body = body.unwrap_or_default().to_vec();
    let feeding = std::thread::spawn(move || input.write_all(&body));
    let output = child.wait_with_output()?;
    // A refusal may come before all of the body is sent.
    let _ = feeding.join();
    let split = output.stdout.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("a header")?;
    let head = String::from_utf8_lossy(&output.stdout[..split]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("a status")?;
    let headers = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Ok(Answer { status, headers, body: output.stdout[split + 4..].to_vec(), exit: output.status.code().unwrap_or(-1) })
}

fn post(engine: &Engine, sql: &str) -> anyhow::Result<Answer> {
    curl(engine, "/", &[], Some(sql.as_bytes()))
}

/// The answer's text, of a statement that must succeed.
fn ask(engine: &Engine, sql: &str) -> anyhow::Result<String> {
    let answer = post(engine, sql)?;
    anyhow::ensure!(answer.status == 200, "{sql}: {}", answer.text());
    Ok(answer.text().trim_end().to_owned())
}

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

/// The shell's own compressors make the bodies, so that nothing of contador checks itself.
fn piped(program: &str, arguments: &[&str], input: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut pipe = child.stdin.take().context("an input")?;
    let input = input.to_vec();
    let feeding = std::thread::spawn(move || pipe.write_all(&input));
    let output = child.wait_with_output()?;
    let _ = feeding.join();
    Ok(output.stdout)
}

#[test]
fn a_million_rows_arrive_in_every_compression() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (way String, id UInt64, s String) ENGINE = MergeTree ORDER BY (way, id)")?;
    let rows = |way: &str| -> Vec<u8> {
        (0..1_000_000_u64).flat_map(|id| format!("{way},{id},row {}\n", id * 7919 % 1_000_003).into_bytes()).collect()
    };
    let target = "/?query=INSERT%20INTO%20t%20FORMAT%20CSV";
    let plain = curl(&engine, target, &[], Some(&rows("plain")))?;
    assert_eq!(plain.status, 200, "{}", plain.text());
    assert!(plain.header("x-clickhouse-summary").contains("\"written_rows\":\"1000000\""), "{plain:?}");
    let gzip = piped("gzip", &["-1"], &rows("gzip"))?;
    let gzip = curl(&engine, target, &["-H", "Content-Encoding: gzip"], Some(&gzip))?;
    assert_eq!(gzip.status, 200, "{}", gzip.text());
    // The statement and its rows in one body.
    let one: Vec<u8> = [&b"INSERT INTO t FORMAT CSV\n"[..], &rows("one")].concat();
    assert_eq!(curl(&engine, "/", &[], Some(&one))?.status, 200);
    // ClickHouse's own blocks, both ways, through the engine's own compression and decompression of a result.
    let blocks = curl(
        &engine,
        "/?compress=1",
        &[],
        Some(b"SELECT 'blocks' AS way, id, s FROM (SELECT id, s FROM t WHERE way = 'gzip') FORMAT Native"),
    )?;
    assert_eq!(blocks.body[16], 0x82);
    let blocks = curl(&engine, "/?decompress=1&query=INSERT%20INTO%20t%20FORMAT%20Native", &[], Some(&blocks.body))?;
    assert_eq!(blocks.status, 200, "{}", blocks.text());
    let expected: u64 = (0..1_000_000_u64).map(|id| id ^ (id * 7919 % 1_000_003)).sum();
    for way in ["plain", "gzip", "one", "blocks"] {
        let sql = format!("SELECT count(), sum(bitXor(id, toUInt64(substring(s, 5)))) FROM t WHERE way = '{way}'");
        assert_eq!(ask(&engine, &sql)?, format!("1000000\t{expected}"), "{way}");
    }
    let compressed =
        curl(&engine, "/", &["-H", "Accept-Encoding: gzip"], Some(b"SELECT id FROM t WHERE way = 'gzip'"))?;
    assert_eq!(compressed.header("content-encoding"), "gzip");
    let lines = piped("gzip", &["-dc"], &compressed.body)?.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines, 1_000_000);
    Ok(())
}

#[test]
fn damaged_blocks_are_refused_whole() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (id UInt64) ENGINE = MergeTree ORDER BY id")?;
    let mut blocks =
        curl(&engine, "/?compress=1", &[], Some(b"SELECT number AS id FROM numbers(1000) FORMAT Native"))?.body;
    let last = blocks.len() - 3;
    blocks[last] ^= 1;
    let answer = curl(&engine, "/?decompress=1&query=INSERT%20INTO%20t%20FORMAT%20Native", &[], Some(&blocks))?;
    assert_eq!((answer.header("x-clickhouse-exception-code"), answer.status), ("40", 500), "{}", answer.text());
    assert_eq!(ask(&engine, "SELECT count() FROM t")?, "0");
    Ok(())
}

#[test]
fn every_format_reads_back() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(
        &engine,
        "CREATE TABLE t (f String, id UInt64, s Nullable(String), a Array(Float64), d DateTime64(3, 'UTC')) ENGINE = Memory",
    )?;
    let formats = [
        "RowBinary",
        "RowBinaryWithNamesAndTypes",
        "Native",
        "JSONEachRow",
        "JSONCompactEachRow",
        "CSV",
        "CSVWithNames",
        "TabSeparated",
        "TSVWithNamesAndTypes",
        "Values",
        "Parquet",
        "Arrow",
        "ArrowStream",
        "ORC",
        "Avro",
        "MsgPack",
    ];
    for format in formats {
        let select = format!(
            "SELECT '{format}' f, number id, if(number % 3 = 0, NULL, 'x\\n''' || toString(number))::Nullable(String) s, \
             [number / 2, 0.25] a, toDateTime64(1700000000 + number, 3, 'UTC') d FROM numbers(70000) FORMAT {format}"
        );
        let data = post(&engine, &select)?;
        assert_eq!(data.status, 200, "{format}: {}", data.text());
        let target = format!("/?query=INSERT%20INTO%20t%20FORMAT%20{format}&input_format_avro_allow_missing_fields=1");
        let inserted = curl(&engine, &target, &[], Some(&data.body))?;
        assert_eq!(inserted.status, 200, "{format}: {}", inserted.text());
    }
    let sums = ask(
        &engine,
        "SELECT groupUniqArray(h) FROM (SELECT (count(), sum(id), sum(cityHash64(s)), sum(arraySum(a)), max(d)) h FROM t GROUP BY f)",
    )?;
    assert!(!sums.contains("),("), "{sums}");
    assert_eq!(
        ask(&engine, "SELECT uniqExact(f), count() FROM t")?,
        format!("{}\t{}", formats.len(), 70_000 * formats.len())
    );
    Ok(())
}

#[test]
fn inserts_of_every_shape_arrive() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (a UInt64, b String) ENGINE = Memory")?;
    ask(&engine, "INSERT INTO t VALUES (1, 'x;y'), (1 + 1, concat('a', 'b'));")?;
    ask(&engine, "INSERT INTO t (a) SELECT number FROM numbers(10)")?;
    ask(&engine, "INSERT INTO t (b, a) SETTINGS max_threads = 1 FORMAT TSV\n")?;
    ask(
        &engine,
        "INSERT INTO t SELECT a + 100, upper(b) FROM input('a UInt64, b String') FORMAT CSV\n1,q\n2,\"r\ns\"\n",
    )?;
    let parameter =
        curl(&engine, "/?param_table=t", &[], Some(b"INSERT INTO {table:Identifier} (a, b) FORMAT CSV\n7,p\n"))?;
    assert_eq!(parameter.status, 200, "{}", parameter.text());
    let mut values = b"INSERT INTO t VALUES ".to_vec();
    for n in 0..100_000 {
        values.extend(format!("({n}, 'values'),").into_bytes());
    }
    values.pop();
    assert_eq!(curl(&engine, "/", &[], Some(&values))?.status, 200);
    assert_eq!(ask(&engine, "SELECT count(), sum(a), uniqExact(b) FROM t WHERE b != 'values'")?, "15\t258\t6");
    assert_eq!(ask(&engine, "SELECT count(), sum(a) FROM t WHERE b = 'values'")?, "100000\t4999950000");
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

#[test]
fn a_second_statement_behind_the_rows_is_refused_with_them() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (x UInt32, s String) ENGINE = MergeTree ORDER BY x")?;
    for sql in ["INSERT INTO t VALUES (1,'a'),(2,'b'); SELECT 1", "INSERT INTO t FORMAT Values (1,'a');x"] {
        let answer = post(&engine, sql)?;
        let text = answer.text();
        assert!(answer.status == 400 && text.contains("Code: 62.") && text.contains("multi-statements"), "{text}");
    }
    assert_eq!(ask(&engine, "SELECT count() FROM t")?, "0");
    ask(&engine, "INSERT INTO t VALUES (1,'a;b'),(2,'it''s; ') ; -- the end; really\n")?;
    assert_eq!(ask(&engine, "SELECT count() FROM t")?, "2");
    Ok(())
}

#[test]
fn a_body_that_was_cut_off_is_refused_whole() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    ask(&engine, "CREATE TABLE t (x UInt64) ENGINE = MergeTree ORDER BY x")?;
    let sql = b"SELECT number FROM numbers(2000000) FORMAT RowBinary";
    for encoding in ["lz4", "deflate", "gzip", "zstd"] {
        let accept = format!("Accept-Encoding: {encoding}");
        let packed = curl(&engine, "/", &["-H", &accept], Some(sql))?.body;
        let content = format!("Content-Encoding: {encoding}");
        let insert =
            |body: &[u8]| curl(&engine, "/?query=INSERT+INTO+t+FORMAT+RowBinary", &["-H", &content], Some(body));
        let mut cuts = vec![packed.len() - 1, packed.len() - 4, packed.len() / 2];
        if encoding == "lz4" {
            // The second of its blocks, each of which starts with its size behind the header's 7 bytes.
            let size = |at: usize| u32::from_le_bytes(packed[at..at + 4].try_into().expect("four")) & 0x7fff_ffff;
            let second = 7 + 4 + usize::try_from(size(7))?;
            assert!(second < packed.len() - 8, "there is one block only");
            cuts.push(second);
        }
        for cut in cuts {
            let answer = insert(&packed[..cut])?;
            assert_eq!((answer.status, answer.header("x-clickhouse-exception-code")), (400, "271"), "{encoding} {cut}");
        }
        assert_eq!(ask(&engine, "SELECT count() FROM t")?, "0", "{encoding}");
        assert_eq!(insert(&packed)?.status, 200, "{encoding}");
        assert_eq!(ask(&engine, "SELECT count(), sum(x) FROM t")?, "2000000\t1999999000000", "{encoding}");
        ask(&engine, "TRUNCATE TABLE t")?;
    }
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

/// A column of every type whose end must be found, in the Native format of a revision, byte for byte the same as
/// without the bytes that the revision adds.
#[test]
fn native_blocks_of_a_revision_have_its_bytes() -> anyhow::Result<()> {
    let engine = Engine::start()?;
    let types = [
        "number AS a",
        "toString(number) AS b",
        "if(number % 2 = 0, NULL, number)::Nullable(Int16) AS c",
        "range(number % 5) AS d",
        "arrayMap(x -> (x, toString(x)), range(number % 3))::Array(Tuple(n UInt8, `s (t` Nullable(String))) AS e",
        "toLowCardinality(toString(number % 10)) AS f",
        "[toString(number % 3)]::Array(LowCardinality(Nullable(String))) AS g",
        "map(toString(number), [number])::Map(LowCardinality(String), Array(UInt32)) AS h",
        "toDecimal128(number, 6) AS i",
        "toDateTime64(number, 3, 'Europe/Berlin') AS j",
        "toUUID('0123e456-7890-4abc-8def-0123456789ab') AS k",
        "CAST(number % 2, 'Enum8(\\'a)\\' = 0, \\'b,\\' = 1)') AS l",
        "toFixedString('abc', 3) AS m",
        "(1::Float64, 2::Float64)::Point AS n",
        "toIPv6('::1') AS o",
        "[]::Array(LowCardinality(String)) AS p",
        "number % 2 = 0 AS q",
    ];
    let rows = "FROM numbers(1000) SETTINGS max_block_size = 1000 FORMAT Native";
    let native = |sql: &str, revision: &str| {
        let answer = curl(&engine, &format!("/?client_protocol_version={revision}"), &[], Some(sql.as_bytes()))?;
        anyhow::ensure!(answer.status == 200, "{sql}: {}", answer.text());
        anyhow::Ok(answer.body)
    };
    const INFO: &[u8] = b"\x01\x00\x02\xff\xff\xff\xff\x00";
    for column in types {
        let sql = format!("SELECT {column} {rows}");
        let (plain, revised) = (native(&sql, "54405")?, native(&sql, "54460")?);
        assert_eq!(plain.len() + INFO.len() + 1, revised.len(), "{sql}");
        assert_eq!(&revised[..INFO.len()], INFO, "{sql}");
        // The added zero stands behind the type's name, so what is before and behind it is the same.
        let type_length = usize::from(plain[5]);
        let cut = 6 + type_length;
        assert_eq!(plain[..cut], revised[INFO.len()..INFO.len() + cut], "{sql}");
        assert_eq!((revised[INFO.len() + cut], &plain[cut..]), (0, &revised[INFO.len() + cut + 1..]), "{sql}");
    }
    let all = format!("SELECT {} FROM numbers(300000) FORMAT Native", types.join(", "));
    let blocks = |bytes: &[u8]| bytes.windows(INFO.len()).filter(|window| *window == INFO).count();
    let (plain, revised) = (native(&all, "0")?, native(&all, "54460")?);
    let added = revised.len() - plain.len();
    assert!(blocks(&revised) > 3);
    assert_eq!(added, blocks(&revised) * (INFO.len() + types.len()));
    Ok(())
}
