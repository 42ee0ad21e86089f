// kafkajs. Orders and events are those of drivers/__init__.py.
const readline = require("readline");
const { Kafka, logLevel } = require("kafkajs");

const clients = new Map();
const say = (...words) => console.log("@", ...words);
const kafka = (name, bootstrap) => new Kafka({ clientId: name, brokers: [bootstrap], logLevel: logLevel.NOTHING });

async function consume(name, bootstrap, topic, group, protocol, reset, heartbeat) {
  // It sends no heartbeat before its fetch has ended.
  const often = { heartbeatInterval: Number(heartbeat), maxWaitTimeInMs: Number(heartbeat) };
  const consumer = kafka(name, bootstrap).consumer({ groupId: group, ...(often.heartbeatInterval ? often : {}) });
  clients.set(name, { close: () => consumer.disconnect() });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    say(name, "assigned", (payload.memberAssignment[topic] || []).length),
  );
  consumer.on(consumer.events.REBALANCING, () => say(name, "assigned", 0));
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: reset === "earliest" });
  await consumer.run({ eachMessage: async ({ message }) => say(name, "record", message.value.toString()) });
}

async function produce(name, bootstrap, transactional) {
  const options = transactional ? { transactionalId: name, idempotent: true, maxInFlightRequests: 1 } : {};
  const producer = kafka(name, bootstrap).producer(options);
  await producer.connect();
  const send = async (topic, value) => {
    const records = { topic, messages: [{ value }] };
    if (!transactional) return producer.send(records);
    const transaction = await producer.transaction();
    await transaction.send(records);
    await transaction.commit();
  };
  clients.set(name, { send, close: () => producer.disconnect() });
  say(name, "ready");
}

async function admin(name, bootstrap) {
  const client = kafka(name, bootstrap).admin();
  await client.connect();
  const create = (topic) => client.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }] });
  clients.set(name, { create, close: () => client.disconnect() });
  say(name, "ready");
}

async function close(name) {
  const client = clients.get(name);
  clients.delete(name);
  say(name, "closing");
  await client.close();
  say(name, "closed");
}

const orders = {
  consume,
  produce: (name, bootstrap) => produce(name, bootstrap, false),
  transact: (name, bootstrap) => produce(name, bootstrap, true),
  send: (name, ...words) => clients.get(name).send(...words).then(() => say(name, "sent")),
  admin,
  create: (name, topic) => clients.get(name).create(topic).then(() => say(name, "created")),
  close,
};

const lines = readline.createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const [order, name, ...words] = line.split(" ");
  orders[order](name, ...words).catch((error) => say(name, "error", error.message));
});
lines.on("close", () => process.exit(0));
