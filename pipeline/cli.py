"""The command `ottla-spark`: jobs over a data directory.

Exit codes: 0 done, 1 bad options, or what was asked for makes no sense, 2 a live server holds the data directory,
3 damage in the log, 4 the segments have changed since the plan, or a server was at work where that cannot be read through
(another call will do), 5 `verify` has found something, 6 Spark, a disk or the server failed (what is staged stays, and
another call goes on).

What a command says of its result goes to standard output, as one JSON object with --json; progress and refusals, a line
each, to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from ..protocol.errors import KafkaError
from .apply.options import OF_A_FILE, add_options, client_option, number, shown
from .errors import PipelineError, UsageError, as_pipeline_error, without_the_extra

EXAMPLES = """\
examples:
  ottla-spark compact ./data --topic orders --dry-run     what would go
  ottla-spark compact ./data --topic orders --install     with the server stopped; --include-active: all that is in the log
  ottla-spark verify ./data --topic orders --against ./copy-from-before
  ottla-spark verify --bootstrap source:9092 --topic orders --against mirror:9092
  ottla-spark snapshot ./data --topic orders --out ./orders-latest
  ottla-spark restore ./orders-latest --topic orders --bootstrap localhost:9092
  ottla-spark read ./data --topic orders --limit 5
  ottla-spark check /mnt/logs/data --master spark://host:7077

exit codes: 0 done, 1 bad options, 2 a server holds the data directory, 3 damaged log, 4 segments changed since the plan, or meanwhile,
5 verify found something, 6 Spark, a disk or the server failed (another call goes on)
"""

Commands: TypeAlias = "argparse._SubParsersAction[SparkParser]"


class SparkParser(argparse.ArgumentParser):
    """Says what is wrong in one line; what would be right stands in the help."""

    def error(self, message: str) -> NoReturn:
        self.exit(UsageError.exit_code, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _Named(argparse.Action):
    """Puts all values of an option into one dictionary. A later one wins."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, getattr(namespace, self.dest) | dict([values]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
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
        on = "another call goes on" if options.command == "apply" else "--resume goes on"
        return _refused(
            f"stopped; what is {'applied' if options.command == 'apply' else 'staged'} stays, and {on}", 130
        )


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
    for add in (_plan, _compact, _install, _verify, _snapshot, _restore, _apply, _read, _status, _check):
        add(commands)
    return parser


def _plan(commands: Commands) -> None:
    parser = _command(commands, "plan", "fix what a compaction would do, and save it beside the data directory")
    _log_options(parser)
    _at_once_option(parser)
    _html_option(parser)


def _compact(commands: Commands) -> None:
    parser = _command(commands, "compact", "compact into a directory beside the data directory")
    _log_options(parser)
    parser.add_argument("--install", dest="installs", action="store_true", help="then put the result into the log")
    _admin_option(parser)
    _at_once_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and leave nothing behind")
    _html_option(parser)
    parser.add_argument(
        "--resume", action="store_true",
        help="insist on the pending plan where there is one: whatever the configs are now, and if its segments have"
        " changed, stop with exit code 4 (without it a new plan is made then)",
    )  # fmt: skip
    parser.add_argument(
        "--include-active", dest="includes_active", action="store_true",
        help="roll the active segment first, so that its records count; the server must be stopped, and was stopped cleanly",
    )  # fmt: skip
    parser.add_argument("--max-groups", type=number(1), metavar="N", help="install so many groups of each partition")
    parser.add_argument(
        "--on-corrupt",
        choices=("fail", "skip-partition"),
        default="fail",
        help="what to do about a damaged log (default: %(default)s)",
    )
    parser.add_argument("--no-verify", dest="verifies", action="store_false", help="do not verify what is staged")


def _install(commands: Commands) -> None:
    parser = _command(commands, "install", "put what compact has staged into the log")
    _log_options(parser, needs_topic=False)
    _admin_option(parser)
    parser.add_argument("--plan", dest="plan_id", metavar="ID", help="this one only")
    parser.add_argument("--max-groups", type=number(1), metavar="N", help="so many groups of each plan")


def _verify(commands: Commands) -> None:
    parser = _command(
        commands,
        "verify",
        "check that a log, or a topic over the wire, holds what compaction promises",
        needs_dir=False,
    )
    _log_options(parser, needs_topic=False)
    parser.add_argument(
        "--against", metavar="DIR|HOST:PORT",
        help="a copy of the data directory from before, or of all: A,B; with --bootstrap the Kafka that has the other topic",
    )  # fmt: skip
    parser.add_argument(
        "--plan", dest="plan_id", metavar="ID", help="what this plan has made, staged or installed, and its originals"
    )
    parser.add_argument(
        "--drop-originals",
        action="store_true",
        help="with --plan, if it passes and is installed: forget the plan, and give back the space of the files that it"
        " has replaced",
    )
    wire = parser.add_argument_group(
        "over the wire",
        "any Kafka, by Spark's own connector (--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION);"
        " with --against or --against-topic two topics are compared, key by key",
    )
    wire.add_argument("--bootstrap", metavar="HOST:PORT[,…]", help="in place of DATA_DIR")
    wire.add_argument("--against-topic", metavar="NAME", help="the other topic (default: of the same name)")
    wire.add_argument(
        "--command-config", metavar="FILE", help="options of Kafka's clients, as Kafka's own tools take them"
    )
    wire.add_argument("--against-command-config", metavar="FILE", help="those for --against (default: the same)")
    wire.add_argument("--headers", action="store_true", help="headers are compared, too")
    wire.add_argument("--every-version", action="store_true", help="compare all records of a key, and their order")
    wire.add_argument("--clean-end", metavar="OFFSET|JSON", help='below it all is compacted: 4711, or {"0": 4711, …}')
    wire.add_argument(
        "--no-transactions", action="store_true",
        help="nobody writes the topic in transactions: below a missing offset all is compacted",
    )  # fmt: skip
    wire.add_argument(
        "--cleaned-within", type=number(0), metavar="MS",
        help="so long after its timestamp each record is cleaned (default, where timestamps are those of the append:"
        " max.compaction.lag.ms and an hour)",
    )  # fmt: skip


def _snapshot(commands: Commands) -> None:
    parser = _command(commands, "snapshot", "the latest value of each key, as Parquet")
    _log_options(parser, is_one=True)
    parser.add_argument("--out", required=True, metavar="DIR", help="a folder that is not there yet, or an address")
    parser.add_argument("--overwrite", action="store_true", help="take the place of a snapshot that is there")
    parser.add_argument(
        "--since", metavar="DIR",
        help="an earlier snapshot, which may be that of --out: read only what has come since, and put it over that one's files",
    )  # fmt: skip


def _restore(commands: Commands) -> None:
    parser = commands.add_parser("restore", help="write a snapshot into a topic, through a stock producer")
    parser.add_argument("snapshot", metavar="DIR", help="what `snapshot` has written")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT[,…]")
    parser.add_argument(
        "--create",
        action="store_true",
        help="make the topic, compacted, where it is not there, with the snapshot's partitions",
    )
    parser.add_argument(
        "--producer-config", action="append", type=client_option, default=[], metavar="NAME=VALUE|@FILE",
        help=f"option of the producer; {OF_A_FILE}",
    )  # fmt: skip
    _fs_option(parser)
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def _apply(commands: Commands) -> None:
    text = "bring a change feed into a table with one row a key: Delta Lake, Apache Iceberg or Parquet"
    parser = _described(commands, "apply", text)
    add_options(parser)
    _spark_options(parser)


def _read(commands: Commands) -> None:
    parser = _command(commands, "read", "print records, a JSON object each")
    _log_options(parser)
    parser.add_argument(
        "--from-offset", type=number(0), metavar="N", help="the first offset (default: the log's start)"
    )
    parser.add_argument("--limit", type=number(1), metavar="N", help="so many records of each partition (default: all)")
    parser.add_argument(
        "--isolation-level", choices=("read_committed", "read_uncommitted"), default="read_committed",
        help="(default: %(default)s)",
    )  # fmt: skip


def _status(commands: Commands) -> None:
    parser = _command(commands, "status", "the plans beside a data directory, and how far they are")
    _log_options(parser, needs_topic=False)
    parser.add_argument(
        "--forget", metavar="ID", help="a plan that is given up: take it away, with the replaced files that it keeps"
    )


def _check(commands: Commands) -> None:
    parser = _described(
        commands, "check", "what each executor of a cluster has, and what does not go together: exit code 6"
    )
    parser.add_argument("data_dir", metavar="DATA_DIR", nargs="?", help="is it seen there; several: A,B")
    _spark_options(parser)


def _described(commands: Commands, name: str, text: str) -> SparkParser:
    return commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")


def _command(commands: Commands, name: str, text: str, *, needs_dir: bool = True) -> SparkParser:
    parser = _described(commands, name, text)
    parser.add_argument(
        "data_dir", metavar="DATA_DIR", nargs=None if needs_dir else "?",
        help="of Ottla or Apache Kafka; several as in log.dirs: A,B; or the address of a copy",
    )  # fmt: skip
    return parser


def _log_options(parser: SparkParser, *, needs_topic: bool = True, is_one: bool = False) -> None:
    which = None if is_one else "or several" + ("" if needs_topic else " (default: all)")
    parser.add_argument("--topic", required=needs_topic, metavar="NAME" if is_one else "NAME[,…]", help=which)
    parser.add_argument("--partition", type=number(0), metavar="N", help="only this one")
    parser.add_argument(
        "--config", dest="configs", action=_Named, type=_name_and_value, default={}, metavar="NAME=VALUE",
        help="a topic config that the store does not have: what `ottla topics` and kafka-configs have set is there,"
        " what stands in server.properties is not (log.cleaner.delete.retention.ms there is delete.retention.ms here);"
        " and producer.id.expiration.ms, where that is set there",
    )  # fmt: skip
    _fs_option(parser)
    _spark_options(parser, "; `none` does it in this process, without a JVM")


def _spark_options(parser: SparkParser, more: str = "") -> None:
    parser.add_argument(
        "--master", default=_default_master(os.environ), metavar="URL",
        help=f"Spark's{more} (default: $OTTLA_SPARK_MASTER, else what spark-submit was told, else local[*])",
    )  # fmt: skip
    parser.add_argument(
        "--conf", action=_Named, type=_name_and_value, default={}, metavar="NAME=VALUE", help="of Spark"
    )
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _default_master(environment: Mapping[str, str]) -> str | None:
    """None leaves it to spark-submit, which tells the Python that it starts where its gateway listens."""
    return environment.get("OTTLA_SPARK_MASTER", None if "PYSPARK_GATEWAY_PORT" in environment else "local[*]")


def _fs_option(parser: SparkParser) -> None:
    parser.add_argument(
        "--fs-option", dest="fs_options", action=_Named, type=_name_and_value, default={}, metavar="NAME=VALUE",
        help="of a store, where a directory is an address as s3://BUCKET/PREFIX: s3.region, s3.endpoint_override, …;"
        " credentials come from the environment",
    )  # fmt: skip


def _html_option(parser: SparkParser) -> None:
    parser.add_argument("--html", metavar="FILE", help="draw what would go, segment by segment, into this file")


def _at_once_option(parser: SparkParser) -> None:
    text = "so many partitions at a time on Spark, each a job of its own (default: %(default)s)"
    parser.add_argument("--at-once", type=number(1), default=4, metavar="N", help=text)


def _admin_option(parser: SparkParser) -> None:
    text = "install through the running server with this admin listener; without it the server must be stopped"
    parser.add_argument("--admin", metavar="HOST:PORT", help=text)


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {shown(text)}")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
