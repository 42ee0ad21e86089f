// Calls of two registry clients, each line `CALL<tab>ok` or `CALL<tab>FAIL reason`: node client.js LIBRARY URL
const assert = require("node:assert/strict");

const [library, url] = process.argv.slice(2);
const avro = (...names) => JSON.stringify({
  type: "record", name: "R", namespace: "n", fields: names.map((name) => ({ name, type: "int", default: 0 })),
});
const needy = JSON.stringify({ type: "record", name: "R", namespace: "n", fields: [{ name: "z", type: "int" }] });
const json = JSON.stringify({ title: "O", type: "object", properties: { x: { type: "integer" } }, additionalProperties: false });
const item = 'syntax = "proto3";\npackage shop;\n\nmessage Item {\n  string name = 1;\n}\n';

async function call(name, work) {
  try {
    await work();
    console.log(`${name}\tok`);
  } catch (error) {
    console.log(`${name}\tFAIL ${String(error.stack ?? error).split("\n").slice(0, 3).join(" ")}`);
  }
}

async function kafkajs() {
  const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");
  const registry = new SchemaRegistry({ host: url });
  const other = () => new SchemaRegistry({ host: url });
  let id;
  await call("register Avro", async () => {
    ({ id } = await registry.register({ type: SchemaType.AVRO, schema: avro("x") }, { subject: "k-value" }));
    assert(id > 0);
  });
  await call("write and read Avro", async () => {
    const data = await registry.encode(id, { x: 3 });
    assert.equal((await other().decode(data)).x, 3);
  });
  await call("id of a schema", async () => {
    assert.equal(await registry.getRegistryIdBySchema("k-value", { type: SchemaType.AVRO, schema: avro("x") }), id);
  });
  await call("latest id, id of a version", async () => {
    assert.equal(await registry.getLatestSchemaId("k-value"), id);
    assert.equal(await registry.getRegistryId("k-value", 1), id);
  });
  await call("schema by id", async () => assert((await other().getSchema(id)) !== undefined));
  await call("incompatible schema", async () => {
    await assert.rejects(
      registry.register({ type: SchemaType.AVRO, schema: needy }, { subject: "k-value" }),
      (error) => error.status === 409 && error.message.includes("incompatible"));
  });
  await call("unknown subject", async () => {
    await assert.rejects(registry.getLatestSchemaId("none"), (error) => error.message.includes("40401") || error.status === 404);
  });
  await call("write and read JSON Schema", async () => {
    const made = await registry.register({ type: SchemaType.JSON, schema: json }, { subject: "kj-value" });
    assert.deepEqual(await other().decode(await registry.encode(made.id, { x: 3 })), { x: 3 });
  });
  await call("write and read Protobuf", async () => {
    const made = await registry.register({ type: SchemaType.PROTOBUF, schema: item }, { subject: "kp-value" });
    assert.equal((await other().decode(await registry.encode(made.id, { name: "pen" }))).name, "pen");
  });
  await call("references", async () => {
    await registry.register({ type: SchemaType.PROTOBUF, schema: item }, { subject: "item" });
    const order = 'syntax = "proto3";\npackage shop;\nimport "item.proto";\nmessage Order {\n  Item item = 1;\n}\n';
    const made = await registry.register(
      { type: SchemaType.PROTOBUF, schema: order, references: [{ name: "item.proto", subject: "item", version: 1 }] },
      { subject: "order" });
    assert.equal((await other().decode(await registry.encode(made.id, { item: { name: "pen" } }))).item.name, "pen");
  });
}

async function confluent() {
  const {
    SchemaRegistryClient, SerdeType, AvroSerializer, AvroDeserializer, JsonSerializer, JsonDeserializer, ProtobufSerializer,
    ProtobufDeserializer, HeaderSchemaIdSerializer, Compatibility, CelExecutor,
  } = require("@confluentinc/schemaregistry");
  const { create, createFileRegistry } = require("@bufbuild/protobuf");
  const { FieldDescriptorProto_Label: Label, FieldDescriptorProto_Type: Type, FileDescriptorProtoSchema, file_google_protobuf_timestamp } =
    require("@bufbuild/protobuf/wkt");
  const make = () => new SchemaRegistryClient({ baseURLs: [url], cacheCapacity: 100 });
  const client = make();
  let id;
  await call("register Avro", async () => {
    id = await client.register("c-value", { schema: avro("x"), schemaType: "AVRO" });
    assert(id > 0);
    const full = await client.registerFullResponse("c-value", { schema: avro("x", "y"), schemaType: "AVRO" });
    assert.equal(full.version ?? 2, 2);
  });
  await call("write and read Avro", async () => {
    const data = await new AvroSerializer(client, SerdeType.VALUE, { useLatestVersion: true }).serialize("c", { x: 3, y: 4 });
    const read = await new AvroDeserializer(make(), SerdeType.VALUE, {}).deserialize("c", data);
    assert.deepEqual({ ...read }, { x: 3, y: 4 });
  });
  await call("write and read JSON Schema", async () => {
    await client.register("cj-value", { schema: json, schemaType: "JSON" });
    const data = await new JsonSerializer(client, SerdeType.VALUE, { useLatestVersion: true, validate: true }).serialize("cj", { x: 3 });
    assert.deepEqual(await new JsonDeserializer(make(), SerdeType.VALUE, {}).deserialize("cj", data), { x: 3 });
  });
  await call("write and read Protobuf, with references", async () => {
    const kinds = messages(create, createFileRegistry, FileDescriptorProtoSchema, file_google_protobuf_timestamp, Type, Label);
    const order = create(kinds.getMessage("shop.Order"), { item: { name: "pen" }, at: { seconds: 7n } });
    const writer = new ProtobufSerializer(client, SerdeType.VALUE, { registry: kinds, autoRegisterSchemas: true });
    const read = await new ProtobufDeserializer(make(), SerdeType.VALUE, {}).deserialize("cp", await writer.serialize("cp", order));
    assert.equal(read.item.name, "pen");
    assert.equal(read.at.seconds, 7n);
    assert((await make().getLatestSchemaMetadata("cp-value")).schema.includes("message Order {"));
    assert.equal((await make().getLatestSchemaMetadata("item.proto")).version, 1);
  });
  await call("write and read Protobuf, nested, by a schema that was registered as text", async () => {
    const text = 'syntax = "proto3";\npackage shop;\n\nmessage Box {\n  message Pen {\n    string name = 1;\n  }\n}\n';
    await client.register("ct-value", { schema: text, schemaType: "PROTOBUF" });
    const pen = { name: "Pen", field: [{ name: "name", number: 1, type: Type.STRING, label: Label.OPTIONAL }] };
    const file = { name: "box.proto", package: "shop", syntax: "proto3", messageType: [{ name: "Box", nestedType: [pen] }] };
    const kinds = createFileRegistry(create(FileDescriptorProtoSchema, file), () => undefined);
    const writer = new ProtobufSerializer(client, SerdeType.VALUE, { registry: kinds, useLatestVersion: true });
    const data = await writer.serialize("ct", create(kinds.getMessage("shop.Box.Pen"), { name: "red" }));
    const read = await new ProtobufDeserializer(make(), SerdeType.VALUE, {}).deserialize("ct", data);
    assert.deepEqual([read.$typeName, read.name], ["shop.Box.Pen", "red"]);
  });
  await call("references, Avro and JSON Schema", async () => {
    const inner = { AVRO: avro("x"), JSON: json };
    const outer = {
      AVRO: JSON.stringify({ type: "record", name: "Outer", fields: [{ name: "r", type: "n.R" }] }),
      JSON: JSON.stringify({ title: "Outer", type: "object", properties: { r: { $ref: "inner.json" } } }),
    };
    const names = { AVRO: "n.R", JSON: "inner.json" };
    const serdes = { AVRO: [AvroSerializer, AvroDeserializer], JSON: [JsonSerializer, JsonDeserializer] };
    for (const [kind, [Writer, Reader]] of Object.entries(serdes)) {
      await client.register(`${kind}-inner`, { schema: inner[kind], schemaType: kind });
      const references = [{ name: names[kind], subject: `${kind}-inner`, version: 1 }];
      await client.register(`${kind}-value`, { schema: outer[kind], schemaType: kind, references });
      const data = await new Writer(client, SerdeType.VALUE, { useLatestVersion: true }).serialize(kind, { r: { x: 3 } });
      assert.equal((await new Reader(make(), SerdeType.VALUE, {}).deserialize(kind, data)).r.x, 3);
    }
  });
  await call("GUID in a header", async () => {
    const headers = {};
    const writer = new AvroSerializer(client, SerdeType.VALUE, {
      useLatestVersion: true, schemaIdSerializer: HeaderSchemaIdSerializer,
    });
    const data = await writer.serialize("c", { x: 3, y: 4 }, headers);
    assert.deepEqual(Object.keys(headers), ["__value_schema_id"]);
    assert.equal((await new AvroDeserializer(make(), SerdeType.VALUE, {}).deserialize("c", data, headers)).y, 4);
  });
  await call("metadata and rules", async () => {
    CelExecutor.register();
    const ruleSet = { domainRules: [{ name: "small", kind: "CONDITION", mode: "WRITE", type: "CEL", expr: "message.x < 10" }] };
    const metadata = { properties: { owner: "shop", stage: "test" } };
    await client.register("cr-value", { schema: avro("x"), schemaType: "AVRO", ruleSet, metadata });
    const writer = new AvroSerializer(client, SerdeType.VALUE, { useLatestWithMetadata: { owner: "shop", stage: "test" } });
    await writer.serialize("cr", { x: 3 });
    await assert.rejects(writer.serialize("cr", { x: 30 }), /small/);
  });
  await call("schema by id", async () => assert.equal((await make().getBySubjectAndId("c-value", id)).schema, avro("x")));
  await call("id of a schema", async () => {
    assert.equal(await make().getId("c-value", { schema: avro("x"), schemaType: "AVRO" }), id);
    assert.equal(await make().getVersion("c-value", { schema: avro("x"), schemaType: "AVRO" }), 1);
  });
  await call("subjects, versions, metadata", async () => {
    assert((await client.getAllSubjects()).includes("c-value"));
    assert.deepEqual(await client.getAllVersions("c-value"), [1, 2]);
    assert.equal((await client.getLatestSchemaMetadata("c-value")).version, 2);
    assert.equal((await client.getSchemaMetadata("c-value", 1)).id, id);
  });
  await call("compatibility", async () => {
    assert.equal(await client.testSubjectCompatibility("c-value", { schema: avro("x"), schemaType: "AVRO" }), true);
    assert.equal(await client.testSubjectCompatibility("c-value", { schema: needy, schemaType: "AVRO" }), false);
  });
  await call("levels", async () => {
    assert.equal(await client.updateCompatibility("c-value", Compatibility.FULL), Compatibility.FULL);
    assert.equal(await client.getCompatibility("c-value"), Compatibility.FULL);
    assert.equal(await client.updateDefaultCompatibility(Compatibility.BACKWARD), Compatibility.BACKWARD);
    assert.equal(await client.getDefaultCompatibility(), Compatibility.BACKWARD);
    assert.equal((await client.getConfig("c-value")).compatibilityLevel, Compatibility.FULL);
  });
  await call("incompatible schema", async () => {
    await assert.rejects(client.register("c-value", { schema: needy, schemaType: "AVRO" }), (error) => error.errorCode === 409);
  });
  await call("deletions", async () => {
    assert.equal(Number(await client.deleteSubjectVersion("c-value", 2)), 2);
    assert.deepEqual(await client.deleteSubject("c-value"), [1]);
    assert.deepEqual([...await client.deleteSubject("c-value", true)].sort(), [1, 2]);
  });
}

/** The messages shop.Item and shop.Order; the file of the second one imports that of the first, and a well-known one. */
function messages(create, createFileRegistry, FileDescriptorProtoSchema, timestamp, Type, Label) {
  const field = (name, number, type, typeName) => ({ name, number, type, typeName, label: Label.OPTIONAL });
  const file = (name, message, dependency, ...fields) => create(FileDescriptorProtoSchema, {
    name, package: "shop", syntax: "proto3", dependency, messageType: [{ name: message, field: fields }],
  });
  const item = file("item.proto", "Item", [], field("name", 1, Type.STRING));
  const order = file("order.proto", "Order", [item.name, "google/protobuf/timestamp.proto"],
    field("item", 1, Type.MESSAGE, ".shop.Item"), field("at", 2, Type.MESSAGE, ".google.protobuf.Timestamp"));
  return createFileRegistry(order, (name) => (name === item.name ? item : timestamp));
}

({ kafkajs, confluent })[library]().catch((error) => { console.log(`the library\tFAIL ${error.stack}`); process.exit(1); });
