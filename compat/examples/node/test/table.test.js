'use strict'
// Ten tests of a table in a compacted topic. The same ten, in the same order, are in the other languages beside us.

const { after, before, beforeEach, test } = require('node:test')
const assert = require('node:assert/strict')
const { Table } = require('../table')
const { Broker } = require('../broker')

const HOUR_MS = 3_600_000
const COMPACTED = { 'cleanup.policy': 'compact' }
const TOPIC = 'rows'

let broker

before(async () => {
  broker = await Broker.start()
})
after(() => broker.stop())
beforeEach(() => broker.post('/v1/reset'))

async function table(configs, options) {
  await broker.createTopic(TOPIC, configs)
  return new Table(broker.bootstrap, TOPIC, options)
}

// `count` rows over so many keys, one after the other.
const values = (count, keys) => Array.from({ length: count }, (_, n) => [`key ${n % keys}`, `value ${n}`])

test('1 a table is what its topic says', async () => {
  const rows = await table(COMPACTED)
  await rows.put(['a', '1'])
  await rows.put(['b', '2'])
  await rows.put(['a', '3'])
  await rows.delete('b')
  assert.deepEqual(await rows.rows(), { a: '3' })
})

test('2 compaction leaves the newest record of each key', async () => {
  const rows = await table(COMPACTED)
  await rows.put(...values(100, 10))
  const found = await rows.rows()
  await broker.post(`/v1/topics/${TOPIC}/compact`, { force: true })
  assert.equal((await rows.history()).length, 10)
  assert.deepEqual(await rows.rows(), found)
})

test('3 after eight days all but the last record is compacted', async () => {
  const rows = await table(COMPACTED)
  await rows.put(...values(100, 10))
  await broker.post('/v1/clock/advance', { by_ms: 8 * 24 * HOUR_MS }) // more than segment.ms
  await rows.put(['key 0', 'one more'])
  assert.equal((await rows.history()).length, 11)
  assert.equal((await rows.rows())['key 0'], 'one more')
})

test('4 a tombstone stays for a day and goes', async () => {
  const rows = await table(COMPACTED)
  await rows.put(['a', '1'])
  await rows.delete('a')
  await rows.put(['b', '2'])
  await broker.post(`/v1/topics/${TOPIC}/compact`, { force: true })
  assert.deepEqual(await rows.history(), [['a', null], ['b', '2']])
  await broker.post('/v1/clock/advance', { by_ms: 25 * HOUR_MS }) // more than delete.retention.ms
  await broker.post(`/v1/topics/${TOPIC}/compact`, { force: true })
  assert.deepEqual(await rows.history(), [['b', '2']])
})

test('5 young records are not compacted', async () => {
  const rows = await table({ ...COMPACTED, 'min.compaction.lag.ms': HOUR_MS })
  await rows.put(...values(20, 2))
  await broker.post(`/v1/topics/${TOPIC}/compact`, { roll: true })
  assert.equal((await rows.history()).length, 20)
  await broker.post('/v1/clock/advance', { by_ms: 2 * HOUR_MS })
  await broker.post(`/v1/topics/${TOPIC}/compact`)
  assert.equal((await rows.history()).length, 2)
})

test('6 retention takes what is too old', async () => {
  const rows = await table({ 'cleanup.policy': 'delete', 'retention.ms': HOUR_MS })
  await rows.put(...values(20, 2))
  await broker.post(`/v1/topics/${TOPIC}/roll`)
  await broker.post('/v1/clock/advance', { by_ms: 2 * HOUR_MS })
  await broker.post('/v1/retention', { topic: TOPIC })
  await rows.put(['a', 'later'])
  assert.deepEqual(await rows.history(), [['a', 'later']])
  assert.equal((await rows.offsets())[0].low, '20')
})

test('7 a write whose answer is lost is there once', async () => {
  const rows = await table(COMPACTED, { idempotent: true })
  const lost = await broker.post('/v1/faults', { api: 'Produce', topic: TOPIC, disconnect: 'after' })
  await rows.put(['a', '1'])
  assert.equal((await broker.get(`/v1/faults/${lost.fault_id}`)).hits, 1)
  assert.deepEqual(await rows.history(), [['a', '1']])
})

test('8 a reader lives through a leader that moves', async () => {
  const rows = await table(COMPACTED)
  await rows.put(['a', '1'])
  const moved = await broker.post('/v1/faults', {
    api: 'Fetch',
    topic: TOPIC,
    error: 'NOT_LEADER_OR_FOLLOWER',
    count: 3,
  })
  assert.deepEqual(await rows.rows(), { a: '1' })
  assert.equal((await broker.get(`/v1/faults/${moved.fault_id}`)).hits, 3)
})

test('9 a reset leaves nothing', async () => {
  await (await table(COMPACTED)).put(['a', '1'])
  await broker.post('/v1/reset')
  assert.deepEqual(await broker.topics(), [])
  assert.deepEqual(await (await table(COMPACTED)).rows(), {})
})

test('10 every hard log is read to its end', async () => {
  for (const { name, looks_like } of (await broker.get('/v1/cases')).cases) {
    const loaded = await broker.post(`/v1/cases/${name}`)
    const expected = loaded.read_committed.map(({ key, value }) => [key, value])
    assert.deepEqual(await new Table(broker.bootstrap, loaded.topic).history(), expected, `${name}: ${looks_like}`)
  }
})
