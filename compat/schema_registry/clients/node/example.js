const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");

async function orders(url) {
  const registry = new SchemaRegistry({ host: url });
  const schema = JSON.stringify({ type: "record", name: "Order", fields: [{ name: "total", type: "int" }] });
  const { id } = await registry.register({ type: SchemaType.AVRO, schema }, { subject: "orders-value" });
  const value = await registry.encode(id, { total: 3 }); // send it with any Kafka client
  console.log((await registry.decode(value)).total);
}

orders(process.argv[2] ?? "http://localhost:8081");
