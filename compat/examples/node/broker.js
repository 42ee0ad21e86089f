'use strict'
// A broker for tests: `ottla dev` as a child, and its control API.

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')

class Broker {
  static async start() {
    const child = spawn(process.env.OTTLA ?? 'ottla', ['dev', '--listener', '127.0.0.1:0', '--admin', '127.0.0.1:0'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const broker = new Broker()
    broker.child = child
    for await (const line of readline.createInterface({ input: child.stdout })) {
      broker.bootstrap ??= line.match(/^ready (\S+)/)?.[1]
      broker.admin ??= line.match(/^control +(http:\S+)/)?.[1]
      if (broker.admin) return broker
    }
    throw new Error('ottla dev did not start')
  }

  async stop() {
    this.child.kill('SIGTERM')
    await once(this.child, 'exit')
  }

  async call(method, path, body) {
    const answer = await fetch(this.admin + path, {
      method,
      headers: { 'content-type': 'application/json' },
      body: method === 'GET' ? undefined : JSON.stringify(body ?? {}),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return text ? JSON.parse(text) : null
  }

  post(path, body) {
    return this.call('POST', path, body)
  }

  get(path) {
    return this.call('GET', path)
  }

  async createTopic(topic, configs) {
    const admin = new Kafka({ brokers: this.bootstrap.split(','), logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value: String(value) }))
    await admin.createTopics({ topics: [{ topic, numPartitions: 1, configEntries }], waitForLeaders: true })
    await admin.disconnect()
  }

  async topics() {
    const admin = new Kafka({ brokers: this.bootstrap.split(','), logLevel: logLevel.NOTHING }).admin()
    await admin.connect()
    const names = await admin.listTopics()
    await admin.disconnect()
    return names.filter((name) => !name.startsWith('__'))
  }
}

module.exports = { Broker }
