"""The command `ottla`. Each sub-command loads only what it needs, so `--help` and `serve` start fast.

Exit codes: 0 done, 1 the broker or a file said no, 2 bad options or an unusable data directory.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from ... import __version__

EXAMPLES = """\
examples:
  ottla serve --profile dev --data ./data       a broker on localhost:9092 that reacts quickly
  ottla serve --config server.properties        the configuration of an Apache Kafka broker
  ottla topics create t --config cleanup.policy=compact
  ottla topics list
  ottla topics status t                         what the cleaner does about it, and what it waits for
  ottla dump-log --print-data ./data/t-0/00000000000000000000.log
  ottla describe-config min.cleanable.dirty.ratio

Clients need nothing of Ottla's: point any Kafka client at the address.
"""

SERVE_NOTES = """\
An option has the value of the strongest source that gives one:
--override, then the flags here, then --config, then --profile, then Apache Kafka's default.

One line `ready HOST:PORT[,HOST:PORT...]` on standard output says that all nodes serve.
SIGTERM, SIGINT and SIGHUP stop the broker cleanly, with exit code 0; further ones change nothing.

Lines on standard input stop and start single nodes, and are answered on standard output:
  stop ID      hand over what node ID leads, end its connections: stopped ID
  start ID     serve on the same ports again: started ID

Comment lines of the --config file say what has no property:
  # nodes=3                          how many broker ids to play
  # node.1.listeners=NAME://H:PORT   listeners, advertised.listeners, broker.rack of one node
  # cluster.id=ID                    for a new data directory
  # feature.NAME=LEVEL               transaction.version (0 to 2) or group.version (0 or 1); the newest by default
"""

TOPICS_STATUS_NOTES = """\
columns:
  PARTITION    topic and partition
  FIRST DIRTY  the first offset that no clean pass has covered
  BOUND        the first offset that a pass must leave alone now: the base of the active segment, of one too young for
               min.compaction.lag.ms, or of one with an undecided transaction
  LOG END      the next offset to be written
  DIRTY        part of the closed segments' bytes that has not been cleaned
  ABOVE        the part above which a pass is worth it (min.cleanable.dirty.ratio)
  PASSES       passes over it since the broker started, and how many records they removed the last time
  ELIGIBLE     now, or at what time (UTC) if nothing but time passes, or no
  WAITING FOR  what is missing: a word, and the sentence

Without TOPIC, all topics with cleanup.policy compact. With --json everything that the broker knows: sizes in bytes, times
in ms since 1970, the whole of the last pass.
"""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; what would be right stands in the help."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> None:
        from ...storage.kernel import COMPILED

        print(f"ottla {__version__} ({'compiled' if COMPILED else 'interpreted'} cleaner kernel)")
        parser.exit()


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        parser.print_help()
        return 2
    try:
        code: int = options.run(options)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # `ottla ... | head`: nobody reads on, which is no error of ours.
        return 0
    return code


def _parser() -> Parser:
    parser = Parser(
        prog="ottla",
        description="A Kafka-compatible broker in Python whose log compaction can be trusted.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show the version, and which cleaner kernel this is"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_serve(commands)
    _add_topics(commands)
    _add_dump_log(commands)
    _add_describe_config(commands)
    return parser


def _add_serve(commands: Commands) -> None:
    serve = commands.add_parser(
        "serve",
        help="run a broker",
        description="Run a broker, with one or several nodes in this process.",
        epilog=SERVE_NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("--config", metavar="FILE", help="a server.properties of Apache Kafka, read as it is")
    serve.add_argument("--data", metavar="DIR", help="where logs are kept (log.dirs)")
    serve.add_argument(
        "--profile",
        choices=("kafka", "dev"),
        default="kafka",
        help="kafka: Apache Kafka's defaults (the default); dev: quick reactions for development and tests",
    )
    serve.add_argument(
        "--listener",
        metavar="[NAME://]HOST:PORT",
        action="append",
        help="listen here (port 0: a free one); repeat for more, each with its own NAME",
    )
    serve.add_argument("--nodes", type=int, metavar="N", help="play N broker ids, each on its own port")
    serve.add_argument(
        "--override", metavar="NAME=VALUE", action="append", default=[], help="set any broker option; repeatable"
    )
    serve.add_argument(
        "--admin",
        metavar="[HOST:]PORT",
        help="also serve control calls over HTTP: on a loopback address, or anywhere with a token (default: off)",
    )
    serve.add_argument(
        "--admin-token-file",
        metavar="FILE",
        help="what clients of --admin have to know stands in FILE (default: OTTLA_ADMIN_TOKEN of the environment, if set)",
    )
    serve.add_argument("--hello", action="store_true", help="also print a client snippet to try")
    serve.add_argument("--verbose", action="store_true", help="log more to standard error")
    serve.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    from .serve import StartError, serve

    try:
        return serve(options)
    except StartError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 2


def _add_topics(commands: Commands) -> None:
    topics = commands.add_parser(
        "topics", help="topics of a running broker: list, create, delete, and how clean they are"
    )
    topics.add_argument("--bootstrap", metavar="HOST:PORT", default="localhost:9092", help="default: localhost:9092")
    actions = topics.add_subparsers(title="actions", metavar="ACTION", required=True)
    actions.add_parser("list", help="names, partitions and replicas").set_defaults(action="list")
    describe = actions.add_parser("describe", help="partitions with leader and offsets, and the options set")
    describe.add_argument("topic")
    describe.set_defaults(action="describe")
    create = actions.add_parser("create", help="create a topic")
    create.add_argument("topic")
    create.add_argument("--partitions", type=int, default=-1, help="default: num.partitions")
    create.add_argument("--replication-factor", type=int, default=-1, help="default: default.replication.factor")
    create.add_argument(
        "--config", metavar="NAME=VALUE", action="append", default=[], help="a topic option; repeatable"
    )
    create.set_defaults(action="create")
    delete = actions.add_parser("delete", help="delete a topic")
    delete.add_argument("topic")
    delete.set_defaults(action="delete")
    status = actions.add_parser(
        "status",
        help="what the cleaner has done to partitions, and what it waits for",
        description="What the cleaner has done to each partition, and what it waits for.",
        epilog=TOPICS_STATUS_NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    status.add_argument("topics", metavar="TOPIC", nargs="*")
    status.add_argument("--json", action="store_true", help="everything, as a JSON array of objects")
    status.set_defaults(action="status")
    topics.set_defaults(run=_topics)


def _topics(options: argparse.Namespace) -> int:
    from .topics_command import run

    return run(options)


def _add_dump_log(commands: Commands) -> None:
    dump = commands.add_parser("dump-log", help="show what is in log, index, snapshot and checkpoint files")
    dump.add_argument("files", metavar="FILE", nargs="+")
    dump.add_argument("--deep", action="store_true", help="look at every record, not only at batches")
    dump.add_argument("--print-data", action="store_true", help="show keys, values and headers (implies --deep)")
    dump.set_defaults(run=_dump_log)


def _dump_log(options: argparse.Namespace) -> int:
    from .dump_log import run

    return run(options)


def _add_describe_config(commands: Commands) -> None:
    describe = commands.add_parser("describe-config", help="what options there are, their defaults and bounds")
    describe.add_argument("name", nargs="?", help="one option; without it, all")
    describe.add_argument("--scope", choices=("topic", "broker"), help="only these")
    describe.add_argument("--format", choices=("text", "markdown"), default="text")
    describe.set_defaults(run=_describe_config)


def _describe_config(options: argparse.Namespace) -> int:
    from .describe_config import run

    return run(options)
