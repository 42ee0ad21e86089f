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
  ottla-spark apply --data-dir ./data --topic customers --create --table-format delta-rs --table ./customers \\
      --value-schema infer
  ottla-spark apply --bootstrap broker:9093 --kafka-config @client.properties --topic customers …

Each commit of the table contains its position in the topic: when called again, the command continues from there, and applies
nothing twice. Missing jars are reported with the option that adds them.

exit codes: 0 success, 1 usage error, or topic or table not found, 2 another program applies to the table, 3 undecodable record,
4 the topic was recreated, or has lost records that are not in the table, 6 Spark, Kafka, the registry or a disk failed (call again
to continue)
"""

OF_A_FILE = (
    "@FILE has one NAME=VALUE per line, and keeps passwords out of process lists; later options override earlier ones"
)
"""Help text of an option whose values may be passwords."""

TABLE_FORMATS = ("delta", "delta-rs", "iceberg")
_NAME = re.compile(r"[\w.-]*")


def client_option(text: str) -> str:
    """Check that a text is NAME=VALUE or @FILE."""
    if (text[:1] == "@" and text != "@") or text.find("=") > 0:
        return text
    raise argparse.ArgumentTypeError(f"expected NAME=VALUE or @FILE, found {option_name(text)}")


def option_name(text: str) -> str:
    """Return the name with which a text begins, without the rest, which may be a password."""
    name = _NAME.match(text)
    assert name is not None  # it matches any text
    return repr(text) if name[0] == text else f"{name[0]!r}…"


def table_format(text: str) -> str:
    """Check that a table format exists, also for programs."""
    if text not in TABLE_FORMATS:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(TABLE_FORMATS)}, found {text}")
    return text


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
        "--bootstrap", metavar="HOST:PORT[,…]", help="broker address of any Kafka, read through Spark's connector"
    )
    sides.add_argument(
        "--data-dir", metavar="DATA_DIR", help="data directory of a broker, read through the format ottla"
    )
    source.add_argument("--topic", required=True, metavar="NAME")
    source.add_argument(
        "--kafka-config", action="append", type=client_option, default=[], metavar="NAME=VALUE|@FILE",
        help=f"Kafka client option, e.g. security.protocol=SSL; {OF_A_FILE} (default: isolation.level=read_committed,"
        " max.poll.records=10000)",
    )  # fmt: skip
    source.add_argument(
        "--max-offsets",
        type=number(1),
        metavar="N",
        help="approximate number of offsets in a batch after the first load (default: 1 GiB of the log, or a tenth of the table's"
        " rows if that is more); with --data-dir from PySpark 4.2",
    )
    source.add_argument(
        "--every", dest="every_s", type=number(1), metavar="SECONDS",
        help="keep running, and apply new records at this interval (default: stop at the current end of the topic)",
    )  # fmt: skip

    target = parser.add_argument_group("to")
    target.add_argument(
        "--table", required=True, metavar="NAME", help="table: catalog.schema.table, or for delta and delta-rs a path"
    )
    target.add_argument(
        "--table-format", required=True, type=table_format, metavar=f"{{{','.join(TABLE_FORMATS)}}}",
        help="format of the table; delta-rs is Delta Lake without jars, for tables that fit into the driver's memory",
    )  # fmt: skip
    target.add_argument("--create", dest="creates", action="store_true", help="create the table if missing")
    target.add_argument(
        "--add-columns", dest="adds_columns", action="store_true", help="add missing columns to the table"
    )
    target.add_argument(
        "--keep-deleted", dest="keeps_deleted", action="store_true",
        help="keep a deleted key as a row with kafka_deleted true and null values",
    )  # fmt: skip
    target.add_argument(
        "--undecodable-to", metavar="TABLE",
        help="destination for records without a key, and for undecodable records (default: fail at the first)",
    )  # fmt: skip

    bytes_ = parser.add_argument_group("decoding of keys and values")
    for what, default in (("key", "string"), ("value", "json")):
        bytes_.add_argument(
            f"--{what}-format", default=default,
            choices=("json", "avro", "debezium", "debezium-avro", "protobuf", "string", "binary"),
            help=f"format of the {what}; debezium is JSON in Debezium's envelope (default: %(default)s)",
        )  # fmt: skip
        bytes_.add_argument(
            f"--{what}-schema", metavar="TEXT|@FILE",
            help="json, debezium: columns, e.g. `city STRING, orders BIGINT`, or infer; string, binary: the one column; avro: a"
            " schema; protobuf: @FILE of protoc --descriptor_set_out"
            + ("" if what == "key" else " (default of json and debezium: the columns of the table)"),
        )  # fmt: skip
        bytes_.add_argument(f"--{what}-message", metavar="NAME", help="protobuf: name of the message")
        bytes_.add_argument(
            f"--{what}-framing", choices=("none", "confluent"),
            help="header before the data of avro, protobuf, json or debezium (default: confluent for avro with --registry, else none)",
        )  # fmt: skip
    bytes_.add_argument(
        "--registry",
        metavar="URL|DIR",
        help="schema registry, or a directory with ID.avsc files; also for the reader schemas of avro",
    )

    odd = parser.add_argument_group("if the topic has changed")
    odd.add_argument(
        "--take-losses",
        dest="takes_losses",
        action="store_true",
        help="continue although records that are not in the table yet were deleted",
    )
    odd.add_argument(
        "--topic-made-anew",
        action="store_true",
        help="accept that the topic was recreated, and apply it from its beginning",
    )
