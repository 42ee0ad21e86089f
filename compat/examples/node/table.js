'use strict'
// A table whose rows live in a compacted topic: the newest value of each key, and nothing for a key that was deleted.

const { Kafka, logLevel } = require('kafkajs')
const { randomUUID } = require('node:crypto')

const PARTITION = 0
const IDLE_MS = 500 // A log may end in a gap, where records were compacted away: silence is the end, too.

class Table {
  constructor(bootstrap, topic, { idempotent = false } = {}) {
    this.kafka = new Kafka({
      brokers: bootstrap.split(','),
      logLevel: logLevel.NOTHING,
      retry: { initialRetryTime: 20, maxRetryTime: 200, retries: 20 },
    })
    this.topic = topic
    this.producer = this.kafka.producer({ idempotent, maxInFlightRequests: 1, allowAutoTopicCreation: false })
  }

  async put(...rows) {
    await this.producer.connect()
    await this.producer.send({
      topic: this.topic,
      acks: -1,
      messages: rows.map(([key, value]) => ({ key, value, partition: PARTITION })),
    })
    await this.producer.disconnect()
  }

  async delete(key) {
    await this.put([key, null])
  }

  // The table as it is now.
  async rows() {
    const found = new Map()
    for (const [key, value] of await this.history()) {
      found.delete(key)
      if (value !== null) found.set(key, value)
    }
    return Object.fromEntries(found)
  }

  // All records that are left in the log.
  async history() {
    const [{ low, high }] = await this.offsets()
    const found = []
    if (low === high) return found
    const consumer = this.kafka.consumer({ groupId: randomUUID(), maxWaitTimeInMs: 10, readUncommitted: false })
    await consumer.connect()
    await consumer.subscribe({ topic: this.topic, fromBeginning: true })
    await new Promise((resolve, reject) => {
      let idle
      const wait = (ms) => {
        clearTimeout(idle)
        idle = setTimeout(resolve, ms)
      }
      consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error))
      consumer.on(consumer.events.GROUP_JOIN, () => wait(4 * IDLE_MS))
      consumer
        .run({
          autoCommit: false,
          eachBatch: async ({ batch }) => {
            for (const { key, value } of batch.messages) found.push([text(key), text(value)])
            wait(IDLE_MS)
            if (BigInt(batch.lastOffset()) + 1n >= BigInt(high)) resolve()
          },
        })
        .catch(reject)
    })
    await consumer.disconnect()
    return found
  }

  // Where the log begins, inclusive, and ends, exclusive.
  async offsets() {
    const admin = this.kafka.admin()
    await admin.connect()
    try {
      return await admin.fetchTopicOffsets(this.topic)
    } finally {
      await admin.disconnect()
    }
  }
}

const text = (bytes) => (bytes === null ? null : bytes.toString())

module.exports = { Table }
