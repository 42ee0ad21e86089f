"""Options of `ottla-spark apply`, and types of options that other commands share.

Imports neither Spark nor Arrow, so that a help text is quick.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from contextlib import suppress

EXAMPLES = """\
examples:
  ottla-spark apply --bootstrap localhost:9092 --topic customers --create --table-format delta --table /srv/customers \\
      --key-schema 'customer STRING' --value-schema 'city STRING, orders BIGINT' \\
      --conf spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0,org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0
  ottla-spark apply … --table-format iceberg --table lake.shop.customers --value-format avro --registry http://registry:8081
  ottla-spark apply --data-dir ./data --topic customers --create --table-format parquet --table ./customers \\
      --value-schema infer
  ottla-spark apply --bootstrap broker:9093 --kafka-config @client.properties --topic customers …

The table stores the progress in each of its commits. Called again, after any end, the command continues from there, and
nothing is applied twice. Missing jars are named, with the option that adds them.

exit codes: 0 done, 1 bad options, topic or table not found, 2 another program applies to the table, 3 a record cannot be decoded,
4 the topic was recreated, or has lost records that are not in the table, 6 Spark, Kafka, the registry or a disk failed (another
call continues)
"""

OF_A_FILE = (
    "@FILE has one NAME=VALUE per line, and keeps passwords out of the process list; the last value of a name counts"
)
"""Help text of an option whose values may be passwords."""

_NAME = re.compile(r"[\w.-]*")


def client_option(text: str) -> str:
    """Check that a text is NAME=VALUE or @FILE."""
    if (text[:1] == "@" and text != "@") or text.find("=") > 0:
        return text
    raise argparse.ArgumentTypeError(f"expected NAME=VALUE or @FILE, found {shown(text)}")


def shown(text: str) -> str:
    """Return the name with which a text begins, without the rest, which may be a password."""
    name = _NAME.match(text)
    assert name is not None  # it matches any text
    return repr(text) if name[0] == text else f"{name[0]!r}…"


def number(at_least: int) -> Callable[[str], int]:
    """Return an option type for integers of at least this size."""

    def parse(text: str) -> int:
        with suppress(ValueError):
            if (found := int(text)) >= at_least:
                return found
        raise argparse.ArgumentTypeError(f"expected a number from {at_least} on, found {text!r}")

    return parse


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options. Those that are fields of `ApplyJob` have the fields' names."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    source = parser.add_argument_group("from")
    sides = source.add_mutually_exclusive_group(required=True)
    sides.add_argument(
        "--bootstrap", metavar="HOST:PORT[,…]", help="brokers of any Kafka, read with Spark's own connector"
    )
    sides.add_argument("--data-dir", metavar="DATA_DIR", help="broker's data directory, read with the format ottla")
    source.add_argument("--topic", required=True, metavar="NAME")
    source.add_argument(
        "--kafka-config", action="append", type=client_option, default=[], metavar="NAME=VALUE|@FILE",
        help=f"option of Kafka's clients, e.g. security.protocol=SSL; {OF_A_FILE} (default: isolation.level=read_committed,"
        " max.poll.records=10000)",
    )  # fmt: skip
    source.add_argument(
        "--max-offsets",
        type=number(1),
        default=1_000_000,
        metavar="N",
        help="maximum number of offsets in a batch (default: %(default)s); with --data-dir only from PySpark 4.2 on",
    )
    source.add_argument(
        "--every", dest="every_s", type=number(1), metavar="SECONDS",
        help="keep running, and apply new records at this interval (default: stop at the topic's current end)",
    )  # fmt: skip

    target = parser.add_argument_group("to")
    target.add_argument(
        "--table", required=True, metavar="NAME", help="catalog.schema.table; for delta and parquet also a path"
    )
    target.add_argument("--table-format", required=True, choices=("delta", "iceberg", "parquet"))
    target.add_argument("--create", dest="creates", action="store_true", help="create the table if it does not exist")
    target.add_argument(
        "--add-columns", dest="adds_columns", action="store_true", help="add missing columns to the table"
    )
    target.add_argument(
        "--keep-deleted", dest="keeps_deleted", action="store_true",
        help="keep a row for each deleted key, with kafka_deleted true and null values",
    )  # fmt: skip
    target.add_argument(
        "--undecodable-to", metavar="TABLE",
        help="table for records without a key, and those that cannot be decoded (default: fail at the first)",
    )  # fmt: skip

    bytes_ = parser.add_argument_group("formats")
    for what, default in (("key", "string"), ("value", "json")):
        bytes_.add_argument(
            f"--{what}-format", choices=("json", "avro", "protobuf", "string", "binary"), default=default,
            help=f"format of {what}s (default: %(default)s)",
        )  # fmt: skip
        bytes_.add_argument(
            f"--{what}-schema", metavar="TEXT|@FILE",
            help="json: columns such as `city STRING, orders BIGINT`, or infer; string, binary: the one column; avro: a"
            " schema; protobuf: @FILE of protoc --descriptor_set_out"
            + ("" if what == "key" else " (default of json: the columns of the table)"),
        )  # fmt: skip
        bytes_.add_argument(f"--{what}-message", metavar="NAME", help="name of the protobuf message")
        bytes_.add_argument(
            f"--{what}-framing", choices=("none", "confluent"),
            help="header before the data of avro, protobuf or json (default: confluent for avro with --registry, else none)",
        )  # fmt: skip
    bytes_.add_argument(
        "--registry",
        metavar="URL|DIR",
        help="schema registry, or a folder with ID.avsc; also the source of avro's readers' schemas",
    )

    odd = parser.add_argument_group("if the topic has changed")
    odd.add_argument(
        "--take-losses",
        dest="takes_losses",
        action="store_true",
        help="continue although records were deleted that were not in the table yet",
    )
    odd.add_argument("--topic-made-anew", action="store_true", help="apply a recreated topic from its beginning")
