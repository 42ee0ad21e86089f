"""Help of the command line tools in the jars, and their answers to the commands of `compat.apache_kafka.tools`."""

import json
import re
from collections.abc import Iterator

from ...support.brokers.apache_kafka import VERSION, jars, metadata_version, tool
from ..suite.baseline import kafka_command
from ..tools.__main__ import RECORDED, answered, difference
from ..tools.driver import Tools, main_classes
from ..tools.themes import theme, theme_names
from .tables import Table, changed_words

SUBCOMMANDS = re.compile(r"\{([a-z][\w-]*(?:,[a-z][\w-]*)+)\}\s+\.\.\.")
OPTION = re.compile(r"^\s*(?:\* )?(?:-\w, )?(--[a-z][\w.-]*[a-z0-9])(?=[\s,=]|$)", re.MULTILINE)
CHANCE = re.compile(r"^\[\d{4}-.*\n|(?<=-)\d{3,}", re.MULTILINE)
"""Lines of a log, and ids that a tool draws."""
PLAYS = 2
"""A list can lack lines that a broker has not seen yet: of several plays, the one with fewer differences counts."""


def tools(old: str, new: str) -> Table:
    """Compare the help of all tools of two releases, and what they answer."""
    before, after = helps(old), helps(new)
    rows = compare_helps(before, after)
    plays = [dict(outputs(new)) for _ in range(PLAYS)]
    for command, answer in outputs(old):
        changed = min((difference(answer, play[command]) for play in plays), key=len)
        rows += [(command, "answer", "; ".join(changed))] if changed else []
    notes = [
        f"help of {len(before)} tools and subcommands of {old}, {len(after)} of {new}",
        f"{len(plays[0])} commands",
    ]
    return Table("Tools", ("tool or command", "what", "change"), rows, notes)


def compare_helps(old: dict[str, str], new: dict[str, str]) -> list[tuple[str, ...]]:
    """Return a row per tool whose help differs: the options that are new or gone, then the changed words."""
    rows: list[tuple[str, ...]] = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, ""), new.get(name, "")
        if sorted(re.findall(r"\w+", before)) == sorted(re.findall(r"\w+", after)):  # sets are printed in any order
            continue
        theirs, ours = set(OPTION.findall(before)), set(OPTION.findall(after))
        options = [*(f"+{one}" for one in sorted(ours - theirs)), *(f"-{one}" for one in sorted(theirs - ours))]
        kind = "new" if name not in old else "gone" if name not in new else "help"
        words = changed_words(before, after) if kind == "help" else ""
        rows.append((name, kind, "; ".join(part for part in (" ".join(options), words) if part)))
    return rows


def helps(version: str) -> dict[str, str]:
    """Return the help of each tool of a release, and of its subcommands, after the name of its main class."""
    found: dict[str, str] = {}
    for name, full in main_classes(jars(version)).items():
        found[name] = help_of(version, full)
        subcommands = SUBCOMMANDS.search(found[name])
        for word in subcommands[1].split(",") if subcommands else ():
            found[f"{name} {word}"] = help_of(version, full, word)
    return found


def help_of(version: str, main_class: str, *words: str) -> str:
    """Return what a tool prints in a JVM of its own: some end it."""
    ended = tool(main_class, *words, "--help", version=version)
    return f"{main_class}\n{CHANCE.sub('', ended.stdout + ended.stderr)}"


def outputs(version: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each command of `compat.apache_kafka.tools` and its answer: the recorded one, or that of a live broker."""
    with Tools(version) as jvm:
        for name in theme_names():
            play = theme(name)
            if version == VERSION:
                answers = json.loads((RECORDED / f"{name}.json").read_text())
            else:
                answers = answered(jvm, play, kafka_command(version), metadata_version(version))
            for number, (step, answer) in enumerate(zip(play.steps, answers, strict=True), 1):
                yield f"{name} {number}: {step.line}", answer
