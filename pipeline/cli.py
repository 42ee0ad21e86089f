"""The command `ottla-spark`: jobs over a data directory.

Exit codes:
    0  done
    1  invalid options, or a request that makes no sense
    2  a live server holds the data directory
    3  damage in the log
    4  the segments have changed since the plan, or a server changed them during the read; another call may succeed
    5  `verify` or `prove-erased` has found something
    6  Spark, a disk or the server failed; what is staged stays, and another call continues

A command's result goes to standard output, as one JSON object with --json. Progress and errors go to standard error, a line
each.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from ..protocol.errors import KafkaError
from ..storage.erasure.key_lines import ENCODINGS
from .apply.options import OF_A_FILE, add_options, client_option, number, option_name
from .errors import PipelineError, UsageError, as_pipeline_error, without_the_extra

EXAMPLES = """\
examples:
  ottla-spark compact ./data --topic orders --dry-run     show what would be removed
  ottla-spark compact ./data --topic orders --install     with the server stopped; add --include-active to clean the whole log
  ottla-spark verify ./data --topic orders --against ./copy-from-before
  ottla-spark verify --bootstrap source:9092 --topic orders --against mirror:9092
  ottla-spark prove-erased ./data --topic customers --keys-from keys.txt --report proof.html
  ottla-spark snapshot ./data --topic orders --out ./orders-latest
  ottla-spark restore ./orders-latest --topic orders --bootstrap localhost:9092
  ottla-spark read ./data --topic orders --limit 5
  ottla-spark check /mnt/logs/data --master spark://host:7077
  ottla-spark doctor                                      what this machine has for Spark, and what is missing

exit codes: 0 success, 1 usage error, 2 data directory in use by a server, 3 damaged log, 4 segments changed since or during the plan,
5 verify found problems or prove-erased values, 6 Spark, a disk or the server failed (call again to continue)
"""

Commands: TypeAlias = "argparse._SubParsersAction[SparkParser]"


class SparkParser(argparse.ArgumentParser):
    """Argument parser that reports an error in one line and refers to the help."""

    def error(self, message: str) -> NoReturn:
        self.exit(UsageError.exit_code, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _Named(argparse.Action):
    """Option whose values are collected in one dictionary. The last value of a name counts."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, getattr(namespace, self.dest) | dict([values]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        from . import cli_runs

        return cli_runs.run(options)
    except ImportError as error:
        if (missing := without_the_extra(error)) is None:
            raise
        return _refused(missing, UsageError.exit_code)
    except (PipelineError, KafkaError, OSError) as error:
        failure = as_pipeline_error(error)
        return _refused(str(failure), failure.exit_code)
    except KeyboardInterrupt:
        on = "another call continues" if options.command == "apply" else "--resume continues"
        return _refused(f"stopped; {'applied' if options.command == 'apply' else 'staged'} data is kept, and {on}", 130)


def _refused(text: str, exit_code: int) -> int:
    text = " ".join(text.split())
    text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)  # names of files may be among it
    print(f"ottla-spark: {text}", file=sys.stderr)
    return exit_code


def _parser() -> SparkParser:
    parser = SparkParser(
        prog="ottla-spark",
        description="Compact, verify, snapshot and read logs that outgrow one machine, on Spark.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=SparkParser)
    for add in (
        _plan,
        _compact,
        _install,
        _verify,
        _prove_erased,
        _snapshot,
        _restore,
        _apply,
        _read,
        _status,
        _check,
        _doctor,
    ):
        add(commands)
    return parser


def _plan(commands: Commands) -> None:
    parser = _command(commands, "plan", "plan a compaction, and save the plan next to the data directory")
    _log_options(parser)
    _at_once_option(parser)
    _html_option(parser)


def _compact(commands: Commands) -> None:
    parser = _command(commands, "compact", "compact into a staging directory next to the data directory")
    _log_options(parser)
    parser.add_argument("--install", dest="installs", action="store_true", help="then install the result in the log")
    _admin_option(parser)
    _at_once_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would be removed, and write nothing")
    _html_option(parser)
    parser.add_argument(
        "--resume", action="store_true",
        help="continue the pending plan, even if configs have changed; exit code 4 if its segments have changed (default:"
        " make a new plan then)",
    )  # fmt: skip
    parser.add_argument(
        "--include-active", dest="includes_active", action="store_true",
        help="roll the active segment first, to include its records; requires a server that was stopped cleanly",
    )  # fmt: skip
    parser.add_argument(
        "--max-groups", type=number(1), metavar="N", help="maximum number of groups to install for each partition"
    )
    parser.add_argument(
        "--on-corrupt",
        choices=("fail", "skip-partition"),
        default="fail",
        help="action for a damaged log (default: %(default)s)",
    )
    parser.add_argument("--no-verify", dest="verifies", action="store_false", help="do not verify the staged segments")


def _install(commands: Commands) -> None:
    parser = _command(commands, "install", "install the segments that `compact` has staged")
    _log_options(parser, needs_topic=False)
    _admin_option(parser)
    parser.add_argument("--plan", dest="plan_id", metavar="ID", help="install only this plan")
    parser.add_argument(
        "--max-groups", type=number(1), metavar="N", help="maximum number of groups to install for each plan"
    )


def _verify(commands: Commands) -> None:
    parser = _command(
        commands,
        "verify",
        "verify the guarantees of compaction in a log, or in a topic over the wire",
        needs_dir=False,
    )
    _log_options(parser, needs_topic=False)
    parser.add_argument(
        "--against", metavar="DIR|HOST:PORT",
        help="earlier copy of the data directory, or of all: A,B; with --bootstrap, address of the Kafka with the other topic",
    )  # fmt: skip
    parser.add_argument(
        "--plan",
        dest="plan_id",
        metavar="ID",
        help="verify the segments of this plan, staged or installed, against their originals",
    )
    parser.add_argument(
        "--drop-originals",
        action="store_true",
        help="with --plan, if it passes and is installed: delete the plan and the files that it has replaced",
    )
    wire = parser.add_argument_group(
        "over the wire",
        "any Kafka, through Spark's connector (--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION);"
        " --against or --against-topic compares two topics, key by key",
    )
    wire.add_argument("--bootstrap", metavar="HOST:PORT[,…]", help="broker address, instead of DATA_DIR")
    wire.add_argument("--against-topic", metavar="NAME", help="topic to compare with (default: the same name)")
    wire.add_argument(
        "--command-config", metavar="FILE", help="file with client properties as for Apache Kafka's tools"
    )
    wire.add_argument(
        "--against-command-config",
        metavar="FILE",
        help="file with client properties for --against (default: --command-config)",
    )
    wire.add_argument("--headers", action="store_true", help="compare headers as well")
    wire.add_argument("--every-version", action="store_true", help="compare all records of a key, and their order")
    wire.add_argument(
        "--clean-end",
        metavar="OFFSET|JSON",
        help='offset below which everything is compacted: 4711, or by partition {"0": 4711, …}',
    )
    wire.add_argument(
        "--no-transactions", action="store_true",
        help="assume that the topic has no transactions: everything below a missing offset is compacted",
    )  # fmt: skip
    wire.add_argument(
        "--cleaned-within", type=number(0), metavar="MS",
        help="time in milliseconds within which a record is cleaned after its timestamp (default for append timestamps:"
        " max.compaction.lag.ms plus one hour)",
    )  # fmt: skip


def _prove_erased(commands: Commands) -> None:
    text = "find all that is left of some keys, in every file of their topic; exit code 5 if a value is left"
    parser = _command(commands, "prove-erased", text)
    _log_options(parser, is_one=True, is_whole=True)
    parser.add_argument("--keys-from", required=True, metavar="FILE", help="file with a key in each line")
    parser.add_argument(
        "--key-encoding", choices=ENCODINGS, default="text",
        help="encoding of the keys (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--report", metavar="FILE", help="write the report as an HTML page")


def _snapshot(commands: Commands) -> None:
    parser = _command(commands, "snapshot", "write the latest value of each key as Parquet")
    _log_options(parser, is_one=True)
    parser.add_argument("--out", required=True, metavar="DIR", help="new directory")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing snapshot")


def _restore(commands: Commands) -> None:
    parser = commands.add_parser(
        "restore", help="write a snapshot to a topic, through a standard producer, in several processes"
    )
    parser.add_argument("snapshot", metavar="DIR", help="snapshot written by `snapshot`")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT[,…]")
    parser.add_argument(
        "--create",
        action="store_true",
        help="create the topic if missing, compacted and with the snapshot's partitions",
    )
    parser.add_argument(
        "--resume", dest="resumes", action="store_true",
        help="continue a restore of the same snapshot that was interrupted: no record is written twice",
    )  # fmt: skip
    parser.add_argument(
        "--processes", type=number(1), default=os.cpu_count() or 1, metavar="N",
        help="number of processes, each of which writes a partition at a time (default: the number of processors)",
    )  # fmt: skip
    parser.add_argument(
        "--producer-config", action="append", type=client_option, default=[], metavar="NAME=VALUE|@FILE",
        help=f"producer option of librdkafka; repeatable; {OF_A_FILE}",
    )  # fmt: skip
    _fs_option(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="do not print progress")


def _apply(commands: Commands) -> None:
    text = "apply a change feed to a table with one row per key: Delta Lake or Apache Iceberg"
    parser = _described(commands, "apply", text)
    add_options(parser)
    _spark_options(parser)


def _read(commands: Commands) -> None:
    parser = _command(commands, "read", "print records as JSON objects")
    _log_options(parser)
    parser.add_argument("--from-offset", type=number(0), metavar="N", help="first offset (default: the log start)")
    parser.add_argument(
        "--limit", type=number(1), metavar="N", help="maximum number of records of each partition (default: all)"
    )
    parser.add_argument(
        "--isolation-level", choices=("read_committed", "read_uncommitted"), default="read_committed",
        help="isolation level (default: %(default)s)",
    )  # fmt: skip


def _status(commands: Commands) -> None:
    parser = _command(commands, "status", "show the plans of a data directory and their progress")
    _log_options(parser, needs_topic=False)
    parser.add_argument("--forget", metavar="ID", help="delete this plan, and the replaced files that it keeps")


def _check(commands: Commands) -> None:
    parser = _described(
        commands, "check", "show the versions of each executor of a cluster; exit code 6 if they do not match"
    )
    parser.add_argument(
        "data_dir",
        metavar="DATA_DIR",
        nargs="?",
        help="data directory that executors must see; separate several by commas",
    )
    _spark_options(parser)


def _doctor(commands: Commands) -> None:
    parser = _described(
        commands,
        "doctor",
        "show what this machine has for Spark, and what each command still needs; exit code 1 if Spark cannot start",
    )
    _session_options(parser)


def _described(commands: Commands, name: str, text: str) -> SparkParser:
    return commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")


def _command(commands: Commands, name: str, text: str, *, needs_dir: bool = True) -> SparkParser:
    parser = _described(commands, name, text)
    parser.add_argument(
        "data_dir", metavar="DATA_DIR", nargs=None if needs_dir else "?",
        help="data directory of Ottla or Apache Kafka; several as in log.dirs: A,B; or the address of a copy",
    )  # fmt: skip
    return parser


def _log_options(
    parser: SparkParser, *, needs_topic: bool = True, is_one: bool = False, is_whole: bool = False
) -> None:
    which = None if is_one else "topic, or several" + ("" if needs_topic else " (default: all)")
    parser.add_argument("--topic", required=needs_topic, metavar="NAME" if is_one else "NAME[,…]", help=which)
    if not is_whole:
        parser.add_argument("--partition", type=number(0), metavar="N", help="only this partition")
    parser.add_argument(
        "--config", dest="configs", action=_Named, type=_name_and_value, default={}, metavar="NAME=VALUE",
        help="topic config that is not stored with the topic, i.e. that is set in server.properties"
        " (log.cleaner.delete.retention.ms there is delete.retention.ms here), or producer.id.expiration.ms; repeatable",
    )  # fmt: skip
    _fs_option(parser)
    _spark_options(parser, "; `none`: run in this process, without a JVM")


def _spark_options(parser: SparkParser, more: str = "") -> None:
    parser.add_argument(
        "--master", default=_default_master(os.environ), metavar="URL",
        help=f"Spark master{more} (default: $OTTLA_SPARK_MASTER, else the master of spark-submit, else local[*])",
    )  # fmt: skip
    _session_options(parser)
    parser.add_argument("--quiet", action="store_true", help="do not print progress")


def _session_options(parser: SparkParser) -> None:
    parser.add_argument(
        "--conf",
        action=_Named,
        type=_name_and_value,
        default={},
        metavar="NAME=VALUE",
        help="Spark option; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _default_master(environment: Mapping[str, str]) -> str | None:
    """Return the default of --master: None under spark-submit, which passes its gateway's port to the Python that it starts."""
    return environment.get("OTTLA_SPARK_MASTER", None if "PYSPARK_GATEWAY_PORT" in environment else "local[*]")


def _fs_option(parser: SparkParser) -> None:
    parser.add_argument(
        "--fs-option", dest="fs_options", action=_Named, type=_name_and_value, default={}, metavar="NAME=VALUE",
        help="option of the object store of an address, e.g. s3://BUCKET/PREFIX: s3.region, s3.endpoint_override, …;"
        " repeatable; credentials come from the environment",
    )  # fmt: skip


def _html_option(parser: SparkParser) -> None:
    parser.add_argument(
        "--html", metavar="FILE", help="HTML file for a drawing of what would be removed, segment by segment"
    )


def _at_once_option(parser: SparkParser) -> None:
    text = "number of partitions to process at a time on Spark, one job each (default: %(default)s)"
    parser.add_argument("--at-once", type=number(1), default=4, metavar="N", help=text)


def _admin_option(parser: SparkParser) -> None:
    text = "admin listener of the running server to install through (default: the server must be stopped)"
    parser.add_argument("--admin", metavar="HOST:PORT", help=text)


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {option_name(text)}")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
