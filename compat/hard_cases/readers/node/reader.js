// kafkajs: it has no position and cannot read without a group; a program is at the end when a batch says that no lag is left.
// Reads and answers as readers/__init__.py says, all of a case side by side, as each joins a group of its own.
const { Kafka, logLevel } = require("kafkajs");

async function read(bootstrap, wanted, number) {
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, clientId: "hard-cases" });
  const consumer = kafka.consumer({
    groupId: `hard-cases-${wanted.topic}-${number}`,
    readUncommitted: wanted.level === "read_uncommitted",
    maxWaitTimeInMs: 100,
  });
  const answer = { records: [], position: wanted.offset, at_end: wanted.offset >= wanted.end };
  let moved = Date.now();
  consumer.on(consumer.events.GROUP_JOIN, () => (moved = Date.now()));
  consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) => {
    const next = Number(payload.lastOffset) + 1;
    if (next > answer.position) {
      answer.position = next;
      moved = Date.now();
    }
    answer.at_end = answer.position >= wanted.end;
  });
  await consumer.connect();
  await consumer.subscribe({ topic: wanted.topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ message }) => {
      const at = Number(message.offset);
      if (at < wanted.offset) return; // fetched before the seek was heard
      answer.records.push([at, text(message.key), text(message.value)]);
      moved = Date.now();
    },
  });
  consumer.seek({ topic: wanted.topic, partition: 0, offset: String(wanted.offset) });
  while (!answer.at_end && Date.now() - moved < wanted.idle_s * 1000) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await consumer.disconnect();
  const seen = new Map(answer.records.map((record) => [record[0], record]));
  answer.twice = answer.records.length - seen.size;
  answer.records = [...seen.values()].sort((one, other) => one[0] - other[0]);
  return answer;
}

function text(data) {
  return data === null || data === undefined ? null : data.toString();
}

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const asked = JSON.parse(Buffer.concat(chunks).toString());
  const answers = await Promise.all(
    asked.reads.map((wanted, number) => read(asked.bootstrap, wanted, number)),
  );
  for (const answer of answers) console.log(JSON.stringify(answer));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
