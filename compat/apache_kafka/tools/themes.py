"""The commands of each theme, as `themes/NAME.txt` has them.

A line of it is one of:

    config NAME=VALUE     an option of the broker, also `# nodes=3` and the other comment lines of the launch protocol
    file NAME TEXT        a file in {work}, written before the next command
    input TEXT            the standard input of the next command; \\n is a new line
    until TEXT            the next command is repeated, for up to UNTIL_S, until its output has this
    kafka-TOOL WORDS      a command, with words separated as in a shell

Blank lines and lines that start with `#` are ignored. In all of them {broker}, {login} and {controller} are the
addresses of the first node's listeners and the controller, {work} a folder, {cluster} the cluster's id, {log-dir} the
first node's log directory. A command that names no server gets `--bootstrap-server {broker}`.
"""

import shlex
from dataclasses import dataclass, field
from pathlib import Path

THEMES = Path(__file__).parent / "themes"
MAIN_CLASSES = {
    "kafka-acls": "AclCommand",
    "kafka-broker-api-versions": "BrokerApiVersionsCommand",
    "kafka-client-metrics": "ClientMetricsCommand",
    "kafka-cluster": "ClusterTool",
    "kafka-configs": "ConfigCommand",
    "kafka-console-consumer": "ConsoleConsumer",
    "kafka-console-producer": "ConsoleProducer",
    "kafka-consumer-groups": "ConsumerGroupCommand",
    "kafka-delegation-tokens": "DelegationTokenCommand",
    "kafka-delete-records": "DeleteRecordsCommand",
    "kafka-features": "FeatureCommand",
    "kafka-get-offsets": "GetOffsetShell",
    "kafka-groups": "GroupsCommand",
    "kafka-leader-election": "LeaderElectionCommand",
    "kafka-log-dirs": "LogDirsCommand",
    "kafka-metadata-quorum": "MetadataQuorumCommand",
    "kafka-reassign-partitions": "ReassignPartitionsCommand",
    "kafka-topics": "TopicCommand",
    "kafka-transactions": "TransactionsCommand",
}
SERVER = "--bootstrap-server {broker}"


@dataclass(frozen=True, slots=True)
class Step:
    """One command.

    line: As the theme has it.
    files: (name, text) of those to write before.
    """

    line: str
    stdin: str = ""
    files: tuple[tuple[str, str], ...] = ()
    until: str = ""

    def words(self, places: dict[str, str]) -> tuple[str, list[str]]:
        """Return the main class and its arguments, with the names of `places` replaced by what they are here."""
        tool, *arguments = shlex.split(self.line)
        # argparse4j wants what belongs to the whole tool before its subcommand.
        server = shlex.split(SERVER) if "--bootstrap" not in self.line else []
        before = tool in ("kafka-metadata-quorum", "kafka-features", "kafka-transactions")
        return MAIN_CLASSES[tool], [
            filled(word, places) for word in (server + arguments if before else arguments + server)
        ]


@dataclass(slots=True)
class Theme:
    """One broker's life."""

    name: str
    config: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def filled(text: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def theme(name: str) -> Theme:
    """ValueError for a line that is none of the kinds."""
    read, stdin, until = Theme(name), "", ""
    files: list[tuple[str, str]] = []
    for line in (THEMES / f"{name}.txt").read_text().splitlines():
        kind, _, rest = line.partition(" ")
        match kind:
            case "" | "#":
                pass
            case "config":
                read.config.append(rest)
            case "file":
                file, _, text = rest.partition(" ")
                files.append((file, text.replace("\\n", "\n")))
            case "input":
                stdin = rest.replace("\\n", "\n")
            case "until":
                until = rest
            case _ if kind in MAIN_CLASSES:
                read.steps.append(Step(line, stdin, tuple(files), until))
                stdin, until, files = "", "", []
            case _:
                raise ValueError(f"{name}.txt: {line!r} begins with no tool that is known")
    return read


def theme_names() -> list[str]:
    return sorted(path.stem for path in THEMES.glob("*.txt"))
