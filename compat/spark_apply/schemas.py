"""Schemas end to end, as a user has them: JSON, Avro and Protobuf, changed topics, and wrong requests.

JSON schemas are given and inferred; Avro and Protobuf come with and without framing; a topic is recreated or truncated; each
wrong request gets one line. The suite starts in an empty directory, against its own broker.
"""

import json
import signal
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import TopicPartition

from ottla.storage.topics.versions import STRATEGY

from ..support.clients.steps import admin, create_topic
from ..support.suite import Suite
from .debezium import AFTER_ALL, AFTER_HALF, HALF, written_by_debezium
from .encoded import INT64, STRING, avro, avro_envelope, avro_framed, descriptor_set, message, message_framed
from .environments import Environment, debezium_jars, format_jars
from .user import Commands, Rows, holds, refused, registry, written

USAGE, CORRUPT, CHANGED, SPARK_FAILED, INTERRUPTED = 1, 3, 4, 6, 130


def avro_schema(*fields: tuple[str, str]) -> str:
    made = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
    return json.dumps({"type": "record", "name": "customer", "fields": made})


def envelope_schema(row: str) -> str:
    """Return the schema of Debezium's envelope of rows of a schema."""
    fields = [
        {"name": "before", "type": ["null", {**json.loads(row), "name": "Value"}], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": [
            {"name": "db", "type": "string"}, {"name": "lsn", "type": ["null", "long"], "default": None},
        ]}},
        {"name": "op", "type": "string"},
    ]  # fmt: skip
    return json.dumps({"type": "record", "name": "Envelope", "namespace": "shop.public.customers", "fields": fields})


ONE = avro_schema(("city", "string"), ("orders", "long"))
TWO = avro_schema(("city", "string"), ("orders", "long"), ("country", "string"))


def judge(suite: Suite, of: Environment, bootstrap: str, work: Path) -> None:
    jars = {name: format_jars(name, of.kind) for name in ("avro", "protobuf")}
    commands = Commands(suite, of, bootstrap, work / "user", [each for found in jars.values() for each in found])
    try:
        json_given_and_inferred(suite, commands)
        for name, part in (("avro", avro_framed_and_not), ("protobuf", protobuf_framed_and_not)):
            if jars[name]:
                part(suite, commands)
                if name == "avro":
                    debezium_avro(suite, commands)
            else:
                suite.skip(f"{of.kind.name}: {name}", f"spark-{name}_2.13:{of.kind.formats} is not to be had")
        debezium(suite, commands, has_avro=bool(jars["avro"]))
        losses(suite, commands)
        made_anew(suite, commands)
        created_again(suite, commands)
        asked_wrongly(suite, commands)
        stays(suite, commands)
    finally:
        commands.close()


def json_given_and_inferred(suite: Suite, commands: Commands) -> None:
    row = {"city": "Oslo", "orders": 3, "address": {"street": "a", "no": 7}, "tags": ["x"]}
    written(
        commands, "inferred", ("a", row), ("b", {"city": "Bergen", "orders": 4}), ("c", {"city": "Tromsø"}), ("c", None)
    )
    nothing = dict.fromkeys(row)
    wanted = {"a": row, "b": {**nothing, "city": "Bergen", "orders": 4}}
    ran = commands.apply("inferred", "--create", "--value-schema", "infer")
    holds(suite, commands, "JSON, its schema inferred", ran, "inferred", wanted)
    written(commands, "inferred", ("b", None), ("d", {"orders": 1, "unknown": True}))
    ran = commands.apply("inferred")
    wanted = {"a": row, "d": {**nothing, "orders": 1}}
    holds(suite, commands, "JSON, the table's columns", ran, "inferred", wanted)
    (commands.work / "columns.txt").write_text("city STRING,\n  orders DECIMAL(10, 2)\n")
    row = {"city": "Oslo", "orders": 1.5, "more": 1}
    written(
        commands, "given", ('{"key": "a", "shop": 1}', row), cleanup_policy="delete"
    )  # a compacted one takes no null keys
    keys = ["--key-format", "json", "--key-schema", "key STRING, shop INT"]
    ran = commands.apply("given", "--create", "--value-schema", "@columns.txt", *keys)
    wanted = {"a": {"shop": 1, "city": "Oslo", "orders": "1.50"}}
    holds(suite, commands, "JSON, a schema from a file, keys of two columns", ran, "given", wanted)
    written(commands, "given", (None, {"city": "Oslo"}), (b"{", {"city": "Oslo"}), ('{"key": "b", "shop": 1}', b"[1]"))
    ran = commands.apply("given", "--value-schema", "@columns.txt", *keys)
    refused(
        suite,
        commands,
        "what cannot be decoded",
        ran,
        CORRUPT,
        "given-0, offset 1: expected a record that can be decoded",
    )
    aside = commands.table("aside")
    ran = commands.apply("given", *keys, "--undecodable-to", aside)
    holds(suite, commands, "undecodable records are put aside", ran, "given", wanted)
    bad = sorted(row["offset"] for row in commands.rows_of("aside"))
    suite.equal(f"{commands.of.kind.name}: their offsets", [1, 2, 3], bad)
    written(
        commands, "odd", ("a", {"n": 1}), ("b", b""), ("c", b" "), ("d", b'{"n":1} x'), ("e", b"{}"), ("f", {"n": 2})
    )
    ran = commands.apply("odd", "--create", "--value-schema", "n BIGINT")
    refused(suite, commands, "an empty value", ran, CORRUPT, "odd-0, offset 1: expected a record that can be decoded")
    odd = commands.table("odd-aside")
    ran = commands.apply("odd", "--create", "--value-schema", "n BIGINT", "--undecodable-to", odd)
    holds(suite, commands, "JSON that is none is put aside", ran, "odd", {"a": {"n": 1}, "f": {"n": 2}})
    written(commands, "odd", ("g", {"n": 3, "address": {"zip-code": 1, "a:b": {"c`d": [{"e-f": "x"}]}}}))
    ran = commands.apply("odd", "--value-schema", "infer", "--add-columns", "--undecodable-to", odd)
    address = {"zip-code": 1, "a:b": {"c`d": [{"e-f": "x"}]}}
    wanted = {key: {"n": n, "address": address if key == "g" else None} for key, n in (("a", 1), ("f", 2), ("g", 3))}
    holds(suite, commands, "nested fields of any name are added", ran, "odd", wanted)
    frame = b"\x00\x00\x00\x00\x07"
    written(commands, "framed-json", ("a", frame + b'{"n":1}'), ("b", b'{"n":2}'))
    framed = ["--create", "--value-schema", "n BIGINT", "--value-framing", "confluent"]
    ran = commands.apply("framed-json", *framed, "--undecodable-to", odd)
    holds(suite, commands, "JSON in Confluent's framing", ran, "framed-json", {"a": {"n": 1}})
    written(commands, "numbers", *((text, {"n": 1}) for text in ("1", "01", " 1", "2")), ("02", None))
    typed = ["--create", "--key-schema", "key BIGINT", "--value-schema", "n BIGINT", "--undecodable-to", odd]
    ran = commands.apply("numbers", *typed)
    suite.equal(
        f"{commands.of.kind.name}: rows of text keys as numbers", {1: {"n": 1}, 2: {"n": 1}}, commands.rows("numbers")
    )
    suite.check(f"{commands.of.kind.name}: text keys as numbers", ran.code == 0, ran.refusal)


def avro_framed_and_not(suite: Suite, commands: Commands) -> None:
    (commands.work / "one.avsc").write_text(ONE)
    schema = ["--value-format", "avro", "--value-schema", "@one.avsc"]
    written(
        commands, "bare", ("a", avro(["Oslo", 3])), ("b", avro([None, -70_000])), ("c", avro(["x", 1])), ("c", None)
    )
    wanted: Rows = {"a": {"city": "Oslo", "orders": 3}, "b": {"city": None, "orders": -70_000}}
    ran = commands.apply("bare", "--create", *schema)
    holds(suite, commands, "Avro, a local schema", ran, "bare", wanted)
    written(commands, "bare", ("d", b"\x07"))
    ran = commands.apply("bare", *schema)
    refused(suite, commands, "what is no Avro", ran, CORRUPT, "bare-0, offset 4: expected a record that can be decoded")

    written(commands, "framed", ("a", avro_framed(7, ["Oslo", 3])), ("b", avro_framed(7, [None, -70_000])))
    ran = commands.apply("framed", "--create", *schema, "--value-framing", "confluent")
    holds(suite, commands, "Avro in Confluent's framing, a local schema", ran, "framed", wanted)
    written(commands, "framed", ("c", avro(["no frame", 1])))
    ran = commands.apply("framed", *schema, "--value-framing", "confluent")
    refused(suite, commands, "Avro without its frame", ran, CORRUPT, "magic byte and schema id are missing")

    known = {7: ONE}
    folder = commands.work / "schemas"
    folder.mkdir()
    (folder / "7.avsc").write_text(ONE)
    with registry(known, f"{commands.topic('evolved')}-value") as url:
        by_url = ["--value-format", "avro", "--registry", url]
        written(commands, "evolved", ("a", avro_framed(7, ["Oslo", 3])), ("b", avro_framed(7, [None, -70_000])))
        holds(suite, commands, "Avro, a registry", commands.apply("evolved", "--create", *by_url), "evolved", wanted)
        ran = commands.apply(
            "evolved", "--create", "--value-format", "avro", "--registry", "schemas", table="by_folder"
        )
        holds(suite, commands, "Avro, a folder of schemas", ran, "by_folder", wanted)
        known[9] = TWO
        written(commands, "evolved", ("b", avro_framed(9, ["Bergen", 5, "NO"])), ("c", avro_framed(7, ["old", 6])))
        pinned = commands.apply("evolved", *by_url, "--value-schema", "@one.avsc", "--create", table="pinned")
        left_out: Rows = {"a": wanted["a"], "b": {"city": "Bergen", "orders": 5}, "c": {"city": "old", "orders": 6}}
        holds(suite, commands, "Avro, a new schema's field left out", pinned, "pinned", left_out)
        grown = commands.apply("evolved", *by_url, "--add-columns")
        with_country = {key: {**row, "country": "NO" if key == "b" else None} for key, row in left_out.items()}
        holds(suite, commands, "Avro, a new schema's field added", grown, "evolved", with_country)
        ran = commands.apply("evolved", *by_url, table="pinned")
        refused(
            suite,
            commands,
            "a table that lacks the newest schema's field",
            ran,
            USAGE,
            "expected the columns country string",
        )
        written(commands, "evolved", ("d", avro_framed(8, ["x", 1])))
        refused(
            suite,
            commands,
            "an id that the registry lacks",
            commands.apply("evolved", *by_url),
            USAGE,
            "expected schema 8",
        )
    ran = commands.apply("evolved", *by_url)
    refused(suite, commands, "a registry that is down", ran, SPARK_FAILED, "does not answer")


def protobuf_framed_and_not(suite: Suite, commands: Commands) -> None:
    (commands.work / "shop.desc").write_bytes(descriptor_set("shop", "Customer", [("city", STRING), ("orders", INT64)]))
    schema = ["--value-format", "protobuf", "--value-schema", "@shop.desc", "--value-message", "shop.Customer"]
    for topic, of, framing in (("message", message, "none"), ("framed-message", framed_message, "confluent")):
        written(commands, topic, ("a", of(["Oslo", 3])), ("b", of(["", 0])), ("c", of(["x", 1])), ("c", None))
        ran = commands.apply(topic, "--create", *schema, "--value-framing", framing)
        wanted: Rows = {"a": {"city": "Oslo", "orders": 3}, "b": {"city": "", "orders": 0}}
        holds(suite, commands, f"Protobuf, framing {framing}", ran, topic, wanted)
    written(commands, "message", ("d", b"\xff\xff"))
    refused(
        suite,
        commands,
        "what is no message",
        commands.apply("message", *schema),
        CORRUPT,
        "message-0, offset 4: expected",
    )
    ran = commands.apply("message", *schema[:-1], "shop.Nobody")
    refused(suite, commands, "a message that the file lacks", ran, USAGE, "message shop.Nobody")
    ran = commands.apply("message", *schema[:-2])
    refused(suite, commands, "Protobuf without a message's name", ran, USAGE, "expected --value-message NAME")
    ran = commands.apply("message", *schema[:2], *schema[4:])
    refused(suite, commands, "Protobuf without a file", ran, USAGE, "expected a descriptor file")


def debezium(suite: Suite, commands: Commands, has_avro: bool) -> None:
    """Check changes of Debezium's own envelopes and converters: a first load, and later batches."""
    name = commands.of.kind.name
    if not (jars := debezium_jars()):
        suite.skip(f"{name}: debezium", "Debezium's jars cannot be downloaded")
        return
    in_json = ["--key-format", "debezium", "--key-schema", "key STRING", "--value-format", "debezium"]
    with registry({}) as url:
        topics = [f"debezium-{what}" for what in ("with-schemas", "without-schemas", "converter")]
        written_records = written_by_debezium(commands.of, jars, f"{url}/apis/registry/v2", commands.topic(topics[2]))
        for topic, records in zip(topics, written_records, strict=True):
            is_avro = topic == topics[2]
            if is_avro and not has_avro:
                continue
            options, given = in_json, ["--value-schema", "city STRING, orders BIGINT"]
            if is_avro:
                options, given = ["--key-format", "avro", "--value-format", "debezium-avro", "--registry", url], []
            written(commands, topic, *records[:HALF])
            ran = commands.apply(topic, "--create", *options, *given)
            holds(suite, commands, f"{topic}, a first load", ran, topic, AFTER_HALF)
            written(commands, topic, *records[HALF:])
            holds(suite, commands, f"{topic}, later batches", commands.apply(topic, *options), topic, AFTER_ALL)
            found, whole = [] if is_avro else ["--value-schema", "infer"], f"{topic}-whole"
            ran = commands.apply(topic, "--create", *options, *found, table=whole)
            holds(suite, commands, f"{topic}, a first load of all", ran, whole, AFTER_ALL)


def debezium_avro(suite: Suite, commands: Commands) -> None:
    """Check envelopes in Avro: changes, deletions, a new column of the row."""
    known = {7: envelope_schema(ONE)}
    with registry(known, f"{commands.topic('debezium-avro')}-value") as url:
        options = ["--value-format", "debezium-avro", "--registry", url]
        changes: Sequence[tuple[str, str, list[str | int | None]]]
        changes = (("a", "r", ["Oslo", 3]), ("b", "c", [None, 4]), ("b", "u", ["Bergen", 5]), ("c", "c", ["x", 1]))
        written(commands, "debezium-avro", *((key, avro_envelope(7, op, row)) for key, op, row in changes))
        written(commands, "debezium-avro", ("c", avro_envelope(7, "d", None)), ("c", None))
        wanted: Rows = {"a": {"city": "Oslo", "orders": 3}, "b": {"city": "Bergen", "orders": 5}}
        ran = commands.apply("debezium-avro", "--create", *options)
        holds(suite, commands, "Debezium in Avro, a first load", ran, "debezium-avro", wanted)
        written(commands, "debezium-avro", ("a", avro_envelope(7, "d", None)), ("d", avro_envelope(7, "c", ["x", 1])))
        wanted = {"b": wanted["b"], "d": {"city": "x", "orders": 1}}
        ran = commands.apply("debezium-avro", *options)
        holds(suite, commands, "Debezium in Avro, later batches", ran, "debezium-avro", wanted)
        known[9] = envelope_schema(TWO)
        written(commands, "debezium-avro", ("e", avro_envelope(9, "c", ["y", 2, "NO"])))
        pinned = ["--value-schema", "@envelope.avsc"]
        (commands.work / "envelope.avsc").write_text(known[7])
        ran = commands.apply("debezium-avro", "--create", *options, *pinned, table="debezium-pinned")
        left_out = {**wanted, "e": {"city": "y", "orders": 2}}
        holds(suite, commands, "Debezium in Avro, a new column left out", ran, "debezium-pinned", left_out)
        ran = commands.apply("debezium-avro", *options, "--add-columns")
        grown = {key: {**row, "country": "NO" if key == "e" else None} for key, row in left_out.items()}
        holds(suite, commands, "Debezium in Avro, a new column added", ran, "debezium-avro", grown)


def framed_message(values: Sequence[str | int]) -> bytes:
    return message_framed(7, values)


COLUMNS = ["--value-schema", "n BIGINT"]


def losses(suite: Suite, commands: Commands) -> None:
    """Check records that retention took before they were applied; here DeleteRecords does."""
    topic = commands.topic("lost")
    written(commands, "lost", ("a", {"n": 1}), ("b", {"n": 2}), cleanup_policy="delete")
    holds(
        suite,
        commands,
        "before losses",
        commands.apply("lost", "--create", *COLUMNS),
        "lost",
        {"a": {"n": 1}, "b": {"n": 2}},
    )
    written(commands, "lost", ("b", {"n": 3}), ("c", {"n": 4}), ("d", {"n": 5}))
    client = admin(commands.bootstrap)
    for done in client.delete_records([TopicPartition(topic, 0, 4)]).values():
        done.result(30)
    ran = commands.apply("lost", *COLUMNS)
    refused(
        suite,
        commands,
        "records that are gone",
        ran,
        CHANGED,
        "lost-0: expected records from the table's position 2 on",
    )
    wanted = {"a": {"n": 1}, "b": {"n": 2}, "d": {"n": 5}}
    holds(suite, commands, "--take-losses", commands.apply("lost", *COLUMNS, "--take-losses"), "lost", wanted)
    written(commands, "lost", ("a", None))
    holds(suite, commands, "after losses", commands.apply("lost", *COLUMNS), "lost", {key: wanted[key] for key in "bd"})


def made_anew(suite: Suite, commands: Commands) -> None:
    written(commands, "anew", *((key, {"n": 1}) for key in "abcd"))
    was = {key: {"n": 1} for key in "abcd"}
    holds(suite, commands, "before the topic goes", commands.apply("anew", "--create", *COLUMNS), "anew", was)
    client, topic = admin(commands.bootstrap), commands.topic("anew")
    for done in client.delete_topics([topic], operation_timeout=30).values():
        done.result(60)
    while topic in client.list_topics(timeout=30).topics:
        pass
    ran = commands.apply("anew", *COLUMNS)
    refused(suite, commands, "a topic that is gone", ran, USAGE, "anew: expected a topic of")
    written(commands, "anew", ("a", {"n": 2}), ("b", None), ("e", {"n": 2}))
    refused(
        suite,
        commands,
        "a topic made anew",
        commands.apply("anew", *COLUMNS),
        CHANGED,
        "the topic was deleted and created again (--topic-made-anew",
    )
    wanted = {"a": {"n": 2}, "c": {"n": 1}, "d": {"n": 1}, "e": {"n": 2}}
    holds(suite, commands, "--topic-made-anew", commands.apply("anew", *COLUMNS, "--topic-made-anew"), "anew", wanted)
    ran = commands.apply("anew", *COLUMNS)
    suite.check(
        f"{commands.of.kind.name}: then it is the topic",
        ran.code == 0 and ": 0 records" in ran.out,
        ran.refusal or ran.out,
    )


def created_again(suite: Suite, commands: Commands) -> None:
    """Check a topic that is created again during `--every`: it ends, and the table has nothing of the new topic."""
    written(commands, "again", *((f"old-{n}", {"n": n}) for n in range(100)))
    running = commands.started("again", "--create", *COLUMNS, "--every", "1")
    said = iter(running.stderr or ())
    suite.check(f"{commands.of.kind.name}: the topic before", any("100 records, up to 0: 100" in line for line in said))
    client, topic = admin(commands.bootstrap), commands.topic("again")
    for done in client.delete_topics([topic], operation_timeout=30).values():
        done.result(60)
    while topic in client.list_topics(timeout=30).topics:
        pass
    written(commands, "again", *((f"new-{n}", {"n": n}) for n in range(150)))
    code = running.wait(180)
    last = "".join(said).strip()
    name = f"{commands.of.kind.name}: a topic created again under --every"
    suite.check(f"{name} ends it", code in (USAGE, CHANGED, SPARK_FAILED), f"{code} {last[-400:]}")
    suite.equal(f"{name}: the old rows", {f"old-{n}": {"n": n} for n in range(100)}, commands.rows("again"))
    refused(suite, commands, "a topic created again", commands.apply("again", *COLUMNS), CHANGED, "(--topic-made-anew")


def asked_wrongly(suite: Suite, commands: Commands) -> None:
    written(commands, "wrong", ("a", {"n": 1}))
    create_topic(commands.bootstrap, commands.topic("empty"))
    create_topic(
        commands.bootstrap, commands.topic("versions"), configs={"cleanup.policy": "compact", STRATEGY: "timestamp"}
    )
    (commands.work / "bytes").write_bytes(b"\xff\xfe")
    (commands.work / "list.avsc").write_text("[]")
    create, avro_of = ["--create"], ["--value-format", "avro", "--value-schema"]
    cases: list[tuple[str, str, list[str], str]] = [
        ("a schema's file that is not there", "wrong", [*create, "--value-schema", "@nowhere"], "nowhere"),
        ("a schema's file that is a folder", "wrong", [*create, "--value-schema", "@."], "."),
        ("a schema's file that is no text", "wrong", [*create, "--value-schema", "@bytes"], "--value-schema: expected"),
        (
            "a schema that is none",
            "wrong",
            [*create, "--value-schema", "n NUMBER OF"],
            "--value-schema: expected columns such as",
        ),
        ("a topic with versions", "versions", [*create, "--value-schema", "n INT"], f"{STRATEGY}=timestamp"),
        ("a column twice", "wrong", [*create, "--value-schema", "n INT, N INT"], "n"),
        ("no schema for a new table", "wrong", create, "--value-schema: expected columns such as"),
        (
            "an empty topic's schema",
            "empty",
            [*create, "--value-schema", "infer"],
            "expected records to look at, found none",
        ),
        (
            "two columns of a text",
            "wrong",
            [*create, *COLUMNS, "--key-schema", "a INT, b INT"],
            "expected one column for the format string",
        ),
        ("a column of ours", "wrong", [*create, "--value-schema", "kafka_offset INT"], "expected another name"),
        (
            "Avro without a schema",
            "wrong",
            [*create, "--value-format", "avro"],
            "expected --registry or --value-schema @FILE",
        ),
        (
            "an Avro schema that is none",
            "wrong",
            [*create, *avro_of, "@list.avsc"],
            "expected an Avro schema of a record",
        ),
        (
            "a registry without a scheme",
            "wrong",
            [*create, "--value-format", "avro", "--registry", "host:8081"],
            "registry: expected",
        ),
        (
            "a client's option that is none",
            "wrong",
            [*create, *COLUMNS, "--kafka-config", "security.protocol=NONE"],
            "--kafka-config",
        ),
        ("an option of the client's that is no pair", "wrong", ["--kafka-config", "x"], "expected NAME=VALUE"),
        ("no seconds", "wrong", ["--every", "0"], "expected a number from 1 on"),
        ("two sources", "wrong", ["--data-dir", "x"], "not allowed with argument --bootstrap"),
        (
            "what is put aside in the table itself",
            "wrong",
            [*create, *COLUMNS, "--undecodable-to", commands.table("wrong")],
            "--undecodable-to: expected another table",
        ),
    ]
    for what, topic, more, words in cases:
        refused(suite, commands, what, commands.apply(topic, *more), USAGE, words)
    if commands.of.kind.name == "delta":
        ran = commands.run(
            *("wrong" if each == "./wrong" else each for each in commands.words("wrong", None, *create, *COLUMNS))
        )
        refused(
            suite,
            commands,
            "a table in a catalog that ends with the session",
            ran,
            USAGE,
            "expected a path such as ./wrong",
        )
    ran = commands.apply("no-such-topic", *create, *COLUMNS)
    refused(suite, commands, "a topic that is not there", ran, USAGE, "expected a topic of")
    ran = commands.apply("wrong", *COLUMNS)
    refused(suite, commands, "a table that is not there", ran, USAGE, "expected a table, found none")
    line = commands.words("wrong", None, *create, *COLUMNS)
    ran = commands.run(*("127.0.0.1:1" if each == commands.bootstrap else each for each in line))
    refused(suite, commands, "a broker that is not there", ran, SPARK_FAILED, "no broker answers at 127.0.0.1:1")
    ran = commands.apply("wrong", *create, *COLUMNS)
    holds(suite, commands, "and nothing was left by those", ran, "wrong", {"a": {"n": 1}})


def stays(suite: Suite, commands: Commands) -> None:
    """Check that `--every` processes new records until it is interrupted."""
    written(commands, "staying", ("a", {"n": 1}))
    running = commands.started("staying", "--create", *COLUMNS, "--every", "1")
    said = iter(running.stderr or ())
    suite.check(
        f"{commands.of.kind.name}: --every applies existing records",
        any("1 records, up to 0: 1" in line for line in said),
    )
    written(commands, "staying", ("a", None), ("b", {"n": 2}))
    suite.check(f"{commands.of.kind.name}: and later ones", any("2 records, up to 0: 3" in line for line in said))
    running.send_signal(signal.SIGINT)
    last = "".join(said).strip()
    code = running.wait(120)
    words = "stopped; applied data is kept"
    suite.check(
        f"{commands.of.kind.name}: interrupted, it ends in one line",
        code == INTERRUPTED and words in last and len(last.splitlines()) == 1,
        f"{code} {last}",
    )
    suite.equal(f"{commands.of.kind.name}: its rows", {"b": {"n": 2}}, commands.rows("staying"))
