// Drives `contador clickhouse` with @clickhouse/client, as a stranger to contador would.
//
// Usage: NODE_PATH=…/node_modules node client.cjs PORT USER PASSWORD. Prints the name of each check that passed.
'use strict'

const assert = require('node:assert/strict')
const { Readable } = require('node:stream')
const { ClickHouseLogLevel, createClient } = require('@clickhouse/client')

const [port, username, password] = process.argv.slice(2)
const ROWS = 1_000_000

const client = (options = {}) =>
  createClient({
    url: `http://127.0.0.1:${port}`,
    username,
    password,
    // A 64-bit number is more than JavaScript's numbers hold.
    clickhouse_settings: { output_format_json_quote_64bit_integers: 1 },
    // The refusals below are expected.
    log: { level: ClickHouseLogLevel.OFF },
    ...options,
  })

/** CRC-32 as zlib has it; older versions of Node don't offer theirs. */
const table = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1
  return n >>> 0
})
const crc32 = (text) => {
  let crc = 0xffffffff
  for (const byte of Buffer.from(text)) crc = (crc >>> 8) ^ table[(crc ^ byte) & 0xff]
  return (crc ^ 0xffffffff) >>> 0
}

const one = async (c, query, more = {}) => (await (await c.query({ query, format: 'JSONEachRow', ...more })).json())[0]

const refusal = async (promise) => {
  try {
    await promise
  } catch (error) {
    return error
  }
  assert.fail('expected a refusal')
}

const checks = {
  async ping() {
    const c = client()
    assert.deepEqual(await c.ping(), { success: true })
    assert.deepEqual(await c.ping({ select: true }), { success: true })
    await c.close()
  },

  async typedSelects() {
    const c = client()
    const s = "tab\t, line\n, quote ', back\\slash, ünï"
    const row = await one(
      c,
      `SELECT {u:UInt64} u, {s:String} s, {d:Date} d, {a:Array(String)} a, {n:Nullable(Int8)} n, {b:Bool} b,
              {m:Map(String, UInt8)} m, {f:Float64} f`,
      { query_params: { u: '18446744073709551615', s, d: '2026-10-31', a: ['x', "y'z"], n: null, b: true, m: { k: 7 }, f: 0.25 } }
    )
    assert.deepEqual(row, { u: '18446744073709551615', s, d: '2026-10-31', a: ['x', "y'z"], n: null, b: true, m: { k: 7 }, f: 0.25 })
    const whole = await (await c.query({ query: 'SELECT number FROM numbers(3)' })).json()
    assert.equal(whole.rows, 3)
    assert.deepEqual(whole.meta, [{ name: 'number', type: 'UInt64' }])
    const result = await c.query({ query: 'SELECT 1', query_id: 'of-node' })
    assert.equal(result.query_id, 'of-node')
    await result.text()
    // Parameters too long for a URL go as a form.
    const long = 'x'.repeat(200_000)
    const asForm = { query_params: { s: long }, use_multipart_params_auto: true }
    assert.equal((await one(c, 'SELECT length({s:String})::UInt32 l', asForm)).l, 200_000)
    await c.close()
  },

  /** A million rows in the client's default format, counted and summed on both sides. */
  async million() {
    const c = client()
    await c.command({ query: 'CREATE TABLE of_node (id UInt64, s String, f Float64) ENGINE = MergeTree ORDER BY id' })
    let expected = 0n
    const rows = function* () {
      for (let id = 0; id < ROWS; id++) {
        const s = `row ${(id * 7919) % 1000003}`
        expected += BigInt(crc32(`${id}:${s}`))
        yield { id, s, f: id / 4 }
      }
    }
    const begun = performance.now()
    const inserted = await c.insert({ table: 'of_node', values: Readable.from(rows()), format: 'JSONEachRow' })
    const spent = performance.now() - begun
    assert.equal(inserted.summary.written_rows, String(ROWS))
    const row = await one(c, "SELECT count() n, sum(CRC32(concat(toString(id), ':', s)))::String total FROM of_node")
    assert.deepEqual(row, { n: String(ROWS), total: String(expected) })
    let read = 0
    const stream = (await c.query({ query: 'SELECT * FROM of_node', format: 'JSONEachRow' })).stream()
    for await (const lines of stream) read += lines.length
    assert.equal(read, ROWS)
    process.stdout.write(`inserted ${Math.round((ROWS / spent) * 1000)} rows/s; `)
    await c.close()
  },

  async compressions() {
    const c = client({ compression: { request: true, response: true } })
    await c.command({ query: 'CREATE TABLE packed_by_node (id UInt64, s String) ENGINE = MergeTree ORDER BY id' })
    const values = Array.from({ length: 100_000 }, (_, id) => ({ id, s: `row ${id}` }))
    await c.insert({ table: 'packed_by_node', values, format: 'JSONEachRow' })
    await c.insert({ table: 'packed_by_node', values: Readable.from(['200000,a\n', '200001,b\n'], { objectMode: false }), format: 'CSV' })
    const back = await (await c.query({ query: 'SELECT id, s FROM packed_by_node ORDER BY id', format: 'JSONEachRow' })).json()
    assert.equal(back.length, 100_002)
    assert.deepEqual(back[99_999], { id: '99999', s: 'row 99999' })
    await c.close()
  },

  async errors() {
    const c = client()
    const missing = await refusal(c.query({ query: 'SELECT * FROM nowhere' }))
    assert.deepEqual([missing.code, missing.type], ['60', 'UNKNOWN_TABLE'])
    assert.equal((await refusal(c.command({ query: 'SELEKT 1' }))).code, '62')
    assert.equal((await refusal(c.query({ query: 'SELECT 1', clickhouse_settings: { no_such: 1 } }))).code, '115')
    assert.equal((await refusal(c.insert({ table: 'of_node', values: [{ id: 'x' }], format: 'JSONEachRow' }))).code, '27')
    // The failure comes after a part of the answer; the client must not take the part for the whole.
    const late = await c.query({
      query: 'SELECT throwIf(number = 9000000)::UInt8, number FROM numbers(10000000) SETTINGS max_threads = 1',
      format: 'CSV',
    })
    await refusal(late.text())
    assert.deepEqual(await c.ping(), { success: true })
    await c.close()
  },

  async wrongPassword() {
    const c = client({ password: 'wrong' })
    assert.equal((await refusal(c.query({ query: 'SELECT 1' }))).code, '516')
    await c.close()
  },

  async sessions() {
    const c = client({ session_id: 'of-node', max_open_connections: 1 })
    await c.command({ query: 'CREATE TEMPORARY TABLE mine (x UInt8)' })
    await c.insert({ table: 'mine', values: [{ x: 1 }, { x: 2 }], format: 'JSONEachRow' })
    assert.equal((await one(c, 'SELECT count() n FROM mine')).n, '2')
    await c.close()
  },

  /** Aborting a request ends its query, and no other. */
  async abort() {
    const c = client()
    const other = one(c, 'SELECT sum(sleepEachRow(1)) z FROM numbers(2) SETTINGS max_block_size = 1')
    const controller = new AbortController()
    const endless = 'SELECT count() FROM numbers(1000000000000000) WHERE NOT ignore(sipHash64(number))'
    const aborted = refusal(c.query({ query: endless, abort_signal: controller.signal }))
    const running = async () => (await one(c, "SELECT count() n FROM system.processes WHERE query LIKE '%sipHash64(number))%' AND query NOT LIKE '%LIKE%'")).n
    const until = async (n) => {
      for (const end = Date.now() + 20_000; Date.now() < end; ) {
        if ((await running()) === n) return
      }
      assert.fail(`never were there ${n} such queries`)
    }
    await until('1')
    controller.abort()
    await aborted
    await until('0')
    assert.equal((await other).z, '0')
    await c.close()
  },
}

const main = async () => {
  for (const [name, check] of Object.entries(checks)) {
    await check()
    console.log(name, 'passed')
  }
}
main().catch((error) => {
  console.error(error)
  process.exitCode = 1
})
