"""Drives `contador clickhouse` with clickhouse-connect, as a stranger to contador would.

Usage: connect.py PORT USER PASSWORD. Every check is an assertion; prints the name of each that passed.
"""

import datetime
import decimal
import sys
import threading
import time
import uuid
import zlib

import clickhouse_connect
from clickhouse_connect.driver.exceptions import DatabaseError

PORT, USER, PASSWORD = int(sys.argv[1]), sys.argv[2], sys.argv[3]
ROWS = 1_000_000


def client(password=PASSWORD, **options):
    return clickhouse_connect.get_client(host="127.0.0.1", port=PORT, username=USER, password=password, **options)


def code(action):
    """The text of the server's refusal."""
    try:
        action()
    except DatabaseError as error:
        return str(error)
    raise AssertionError("expected a refusal")


def ping():
    assert client().ping()


def typed_selects():
    parameters = {
        "u": 18446744073709551615,
        "s": "tab\t, line\n, quote ', back\\slash, ünï",
        "d": datetime.date(2026, 10, 31),
        "t": datetime.datetime(2026, 10, 31, 23, 59, 59),
        "m": decimal.Decimal("123456789.000001"),
        "a": ["x", "y'z"],
        "i": uuid.UUID("0123e456-7890-4abc-8def-0123456789ab"),
    }
    sql = """SELECT {u:UInt64} u, {s:String} s, {d:Date} d, {t:DateTime('UTC')} t, {m:Decimal(18, 6)} m,
             {a:Array(String)} a, {i:UUID} i, NULL::Nullable(Int8) n, map('k', 1.5) o, toLowCardinality('low') l,
             (1::Int128, 'two')::Tuple(Int128, String) p, [true, false] b"""
    result = client().query(sql, parameters=parameters)
    row = dict(zip(result.column_names, result.result_rows[0]))
    expected = dict(parameters, n=None, o={"k": 1.5}, l="low", p=(1, "two"), b=[True, False])
    row["t"] = row["t"].replace(tzinfo=None)
    assert row == expected, f"{row} instead of {expected}"
    assert result.summary["read_rows"] == "1", result.summary
    assert client().command("SELECT 1 + 1") == 2
    assert client().raw_query("SELECT 1 AS x", fmt="JSONEachRow") == b'{"x":1}\n'


def rows(start, count):
    ids = list(range(start, start + count))
    return ids, [f"row {i * 7919 % 1000003}" for i in ids], [i / 4 for i in ids]


def million():
    """A million rows in the client's default format and compression, counted and summed on both sides."""
    c = client()
    c.command("CREATE TABLE million (id UInt64, s String, f Float64) ENGINE = MergeTree ORDER BY id")
    columns = rows(0, ROWS)
    begun = time.monotonic()
    summary = c.insert("million", columns, column_names=["id", "s", "f"], column_oriented=True)
    spent = time.monotonic() - begun
    assert summary.written_rows == ROWS, summary.summary
    expected = sum(zlib.crc32(f"{i}:{s}".encode()) for i, s in zip(*columns[:2]))
    count, total, floats = c.query("SELECT count(), sum(CRC32(concat(toString(id), ':', s))), sum(f) FROM million").first_row
    assert (count, total, floats) == (ROWS, expected, sum(columns[2])), (count, total, floats, expected)
    print(f"inserted {ROWS / spent:.0f} rows/s", end="; ")
    begun = time.monotonic()
    back = c.query("SELECT id, s, f FROM million ORDER BY id", column_oriented=True).result_columns
    assert [list(column) for column in back] == [list(column) for column in columns]
    print(f"read {ROWS / (time.monotonic() - begun):.0f} rows/s", end="; ")


def compressions():
    for compress in ["lz4", "zstd", "gzip", False]:
        c = client(compress=compress)
        table = f"packed_{compress}".lower()
        c.command(f"CREATE TABLE {table} (id UInt64, s String, f Float64) ENGINE = MergeTree ORDER BY id")
        c.insert(table, rows(0, 100_000), column_names=["id", "s", "f"], column_oriented=True)
        assert c.query(f"SELECT count(), max(s) FROM {table}").first_row == (100_000, max(rows(0, 100_000)[1]))
        assert len(c.query(f"SELECT * FROM {table}").result_rows) == 100_000
    c.raw_insert("packed_lz4", ["id", "s", "f"], insert_block=b"1,a,2\n3,b,4\n", fmt="CSV", compression=None)
    assert c.command("SELECT count() FROM packed_lz4") == 100_002


def errors():
    c = client()
    assert "60" in code(lambda: c.query("SELECT * FROM nowhere")).split("Code:")[-1][:5]
    assert "62" in code(lambda: c.command("SELEKT 1")).split("Code:")[-1][:5]
    assert "27" in code(lambda: c.raw_insert("million", ["id"], insert_block=b"x\n", fmt="TSV")).split("Code:")[-1][:5]
    # The failure comes after a part of the answer; the client must not take the part for the whole.
    try:
        c.query("SELECT throwIf(number = 9000000)::UInt8, number FROM numbers(10000000) SETTINGS max_threads = 1")
    except Exception as error:  # the client has several kinds for a broken answer
        assert "395" in str(error) or "throwIf" in str(error), repr(error)
    else:
        raise AssertionError("half an answer was taken for the whole")
    assert c.ping()


def wrong_password():
    assert "516" in code(lambda: client(password="wrong"))


def sessions():
    c = client(session_id="of-connect")
    c.command("CREATE TEMPORARY TABLE mine (x UInt8)")
    c.command("SET max_block_size = 777")
    c.insert("mine", [[1], [2]], column_names=["x"])
    assert c.command("SELECT count() FROM mine") == 2
    assert c.query("SELECT getSetting('max_block_size')", settings={"max_threads": 1}).first_row == (777,)
    assert c.query("SELECT getSetting('max_block_size')", settings={"max_block_size": 5}).first_row == (5,)
    assert c.query("SELECT getSetting('max_block_size')").first_row == (777,)
    assert "60" in code(lambda: client().command("SELECT * FROM mine"))


def two_at_once():
    """A long SELECT doesn't hold up inserts."""
    first, second = client(), client()
    second.command("CREATE TABLE beside (x UInt64) ENGINE = MergeTree ORDER BY x")
    done = threading.Event()
    failures = []

    def long():
        try:
            first.command("SELECT sum(sleepEachRow(1)) FROM numbers(2) SETTINGS max_block_size = 1")
        except Exception as error:
            failures.append(error)
        done.set()

    thread = threading.Thread(target=long)
    thread.start()
    inserted = 0
    while not done.is_set():
        second.insert("beside", [[inserted]], column_names=["x"])
        inserted += 1
    thread.join()
    assert not failures, failures
    assert second.command("SELECT count() FROM beside") == inserted
    assert inserted > 10, f"{inserted} inserts in 2 s beside a long SELECT"


for check in [ping, typed_selects, million, compressions, errors, wrong_password, sessions, two_at_once]:
    check()
    print(check.__name__, "passed", flush=True)
