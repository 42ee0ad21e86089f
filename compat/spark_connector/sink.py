"""The sink: rows of a DataFrame are written to the topic, and librdkafka reads them."""

from ..support.clients.steps import CODECS, ReadRecord, create_topic, read_partitions
from ..support.suite import Suite
from .connector import Connector

ROWS = 200
PARTITIONS = 2
HEADERS = (
    "array(named_struct('key', 'h', 'value', CAST('1' AS BINARY)), named_struct('key', 'h', 'value', null)) AS headers"
)
KEY = "IF(id % 10 = 7, null, CAST('k' || id % 25 AS BINARY)) AS key"
VALUE = "IF(id % 13 = 5, null, 'v' || id) AS value"
PARTITION = f"CAST(id % {PARTITIONS} AS INT) AS partition"


def judge(suite: Suite, spark: Connector, *, quick: bool) -> None:
    bootstrap = spark.broker["kafka.bootstrap.servers"]
    frame = spark.spark.range(ROWS).coalesce(1)
    for codec in CODECS[:1] if quick else CODECS:
        topic = f"sink-{codec}"
        create_topic(bootstrap, topic, partitions=PARTITIONS)
        chosen = frame.selectExpr(KEY, VALUE, PARTITION, HEADERS)
        spark.write(chosen, topic=topic, includeHeaders="true", **{"kafka.compression.type": codec})
        suite.equal(f"sink, {codec}: keys, values, partitions, headers", expected(), written(bootstrap, topic))
    for what, options in {
        "acks=0": {"kafka.acks": "0", "kafka.enable.idempotence": "false"},
        "acks=1": {"kafka.acks": "1", "kafka.enable.idempotence": "false"},
        "batches of one record": {"kafka.batch.size": "0"},
    }.items():
        if not quick:
            topic = "sink-" + what.replace("=", "-").replace(" ", "-")
            create_topic(bootstrap, topic, partitions=PARTITIONS)
            spark.write(frame.selectExpr(KEY, VALUE, PARTITION, HEADERS), topic=topic, **options)
            suite.equal(f"sink, {what}", expected(), written(bootstrap, topic))
    if not quick:
        judge_topic_column(suite, spark)


def judge_topic_column(suite: Suite, spark: Connector) -> None:
    bootstrap = spark.broker["kafka.bootstrap.servers"]
    for topic in ("sink-even", "sink-odd", "sink-option"):
        create_topic(bootstrap, topic, partitions=1)
    frame = spark.spark.range(ROWS).coalesce(1)
    frame = frame.selectExpr("IF(id % 2 = 0, 'sink-even', 'sink-odd') AS topic", "CAST(id AS STRING) AS value")
    spark.write(frame)
    for parity, topic in enumerate(("sink-even", "sink-odd")):
        wanted = [b"%d" % number for number in range(parity, ROWS, 2)]
        suite.equal(f"sink, the topic column names {topic}", wanted, values(bootstrap, topic))
    spark.write(frame, topic="sink-option")
    every = [b"%d" % number for number in range(ROWS)]
    suite.equal("sink, the option wins over the column", every, values(bootstrap, "sink-option"))


def expected() -> list[list[tuple[bytes | None, bytes | None, object]]]:
    """Return (key, value, headers) of each partition, in the order of the rows."""
    headers: object = (("h", b"1"), ("h", None))
    made = [
        (None if id % 10 == 7 else b"k%d" % (id % 25), None if id % 13 == 5 else b"v%d" % id, headers)
        for id in range(ROWS)
    ]
    return [made[number::PARTITIONS] for number in range(PARTITIONS)]


def written(bootstrap: str, topic: str) -> list[list[tuple[bytes | None, bytes | None, object]]]:
    found = read(bootstrap, topic, PARTITIONS)
    return [[(record.key, record.value, record.headers) for record in records] for records in found]


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    return [record.value for record in read(bootstrap, topic, 1)[0]]


def read(bootstrap: str, topic: str, partitions: int) -> list[list[ReadRecord]]:
    return list(read_partitions(bootstrap, [(topic, number) for number in range(partitions)]).values())
