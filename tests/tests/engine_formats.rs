//! What goes into the embedded engine and comes out of it, with curl: formats, compressions, cut and damaged bodies.

use contador_tests::Engine;
use contador_tests::curl::{ask, curl, piped, post};

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
