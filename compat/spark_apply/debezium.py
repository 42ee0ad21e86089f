"""Changes of a table as Debezium writes them: its own `Envelope`, by the converters of Kafka Connect, in a JVM without Spark.

    python -m compat.spark_apply.debezium JARS REGISTRY TOPIC

Prints a line of JSON for each converter: `JsonConverter` with schemas, and without, and Apicurio's `AvroConverter`, which Debezium's images
have. The line has [key, value or null] in hexadecimal for each record. TOPIC names the subjects of the Avro schemas in the registry.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..support.environments import ROOT
from .environments import Environment, variables

TOPIC = "shop.public.customers"
CHANGES: tuple[tuple[str, str, str | None, int], ...] = (
    ("r", "a", "Oslo", 1),
    ("r", "b", "Oslo", 2),
    ("c", "c", None, 3),
    ("u", "b", "Bergen", 4),
    ("d", "c", None, 3),
    ("c", "d", "Bodø", 5),
    ("d", "d", "Bodø", 5),
    ("u", "a", "Tromsø", 6),
    ("d", "b", "Bergen", 4),
    ("c", "e", "Oslo", 7),
)
"""Op, key, city, number of orders."""
HALF = 9
"""Number of records of the first seven changes: a tombstone follows each deletion."""
AFTER_HALF: dict[str, dict[str, Any]] = {"a": {"city": "Oslo", "orders": 1}, "b": {"city": "Bergen", "orders": 4}}
AFTER_ALL: dict[str, dict[str, Any]] = {"a": {"city": "Tromsø", "orders": 6}, "e": {"city": "Oslo", "orders": 7}}

Records = list[tuple[bytes, bytes | None]]


def written_by_debezium(of: Environment, jars: Sequence[Path], registry: str, topic: str) -> list[Records]:
    """Return the records of the changes: in JSON with schemas, and without, and in Avro.

    Args:
        registry: Address of the registry that gives the Avro schemas their ids.
        topic: Names the Avro schemas' subjects.
    """
    command = [str(of.python), "-m", "compat.spark_apply.debezium", os.pathsep.join(map(str, jars)), registry, topic]
    environment = {**variables(of), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return [
        [(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) for key, value in line] for line in lines
    ]


def main() -> None:
    import pyspark
    from py4j.java_gateway import JavaGateway

    (own,) = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    gateway = JavaGateway.launch_gateway(jarpath=str(own), classpath=sys.argv[1], java_path=java, die_on_exit=True)
    try:
        registry, topic = sys.argv[2:]
        for converter in (partial(_json, True), partial(_json, False), partial(_avro, registry)):
            records = _records(gateway.jvm, topic, partial(converter, gateway.jvm))
            found = [(key.hex(), None if value is None else value.hex()) for key, value in records]
            print(json.dumps(found), flush=True)
    finally:
        gateway.shutdown()


def _records(jvm: Any, topic: str, converter: Callable[[bool], Any]) -> Iterator[tuple[bytes, bytes | None]]:
    data = jvm.org.apache.kafka.connect.data
    text, number = data.Schema.OPTIONAL_STRING_SCHEMA, data.Schema.OPTIONAL_INT32_SCHEMA  # Py4J passes an Integer
    keys = data.SchemaBuilder.struct().name(f"{TOPIC}.Key").field("key", data.Schema.STRING_SCHEMA).build()
    rows = data.SchemaBuilder.struct().name(f"{TOPIC}.Value").optional()
    rows = rows.field("key", data.Schema.STRING_SCHEMA).field("city", text).field("orders", number).build()
    sources = data.SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source")
    sources = sources.field("db", data.Schema.STRING_SCHEMA).field("lsn", data.Schema.OPTIONAL_INT64_SCHEMA).build()
    made = jvm.io.debezium.data.Envelope.defineSchema().withName(f"{TOPIC}.Envelope").withRecord(rows)
    envelope = made.withSource(sources).build()
    key_converter, value_converter = (converter(is_key) for is_key in (True, False))
    for lsn, (op, key, city, orders) in enumerate(CHANGES):
        row = data.Struct(rows).put("key", key).put("city", city).put("orders", orders)
        source, now = (
            data.Struct(sources).put("db", "shop"),
            jvm.java.time.Instant.ofEpochMilli(1_764_540_000_000 + lsn),
        )
        if op == "u":
            value = envelope.update(row, row, source, now)
        else:
            value = {"r": envelope.read, "c": envelope.create, "d": envelope.delete}[op](row, source, now)
        key_bytes = bytes(key_converter.fromConnectData(topic, keys, data.Struct(keys).put("key", key)))
        yield key_bytes, bytes(value_converter.fromConnectData(topic, envelope.schema(), value))
        if op == "d":
            yield key_bytes, None


def _json(has_schemas: bool, jvm: Any, is_key: bool) -> Any:
    made = jvm.org.apache.kafka.connect.json.JsonConverter()
    return _configured(jvm, made, {"schemas.enable": str(has_schemas).lower()}, is_key)


def _avro(registry: str, jvm: Any, is_key: bool) -> Any:
    made = jvm.io.apicurio.registry.utils.converter.AvroConverter()
    own = {"url": registry, "auto-register": "true", "as-confluent": "true"}
    return _configured(jvm, made, {f"apicurio.registry.{name}": value for name, value in own.items()}, is_key)


def _configured(jvm: Any, converter: Any, options: Mapping[str, str], is_key: bool) -> Any:
    given = jvm.java.util.HashMap()
    for name, value in options.items():
        given.put(name, value)
    converter.configure(given, is_key)
    return converter


if __name__ == "__main__":
    main()
