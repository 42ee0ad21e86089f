"""Decisions of Ottla's authorizer compared with those of Apache Kafka's own class, on random ACLs.

Each set of ACLs is small and has few names, principals and hosts, so that they overlap: prefixes of one another, `*` in each of
its meanings, denials within allowed names. For each set some decisions are compared, among them those about any resource of a
type (`authorizeByResourceType`). Super users are included, and brokers that allow operations without ACLs.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from ottla.server.security.acls.acl import Acl
from ottla.server.security.acls.authorizer import Authorizer
from ottla.server.security.acls.kinds import AclOperation, PatternType, Permission, ResourceType
from ottla.server.security.principal import Principal
from ottla.storage.steps import to_the_end

from ...support.brokers.apache_kafka import jars
from ...support.suite import NotRunError, Options, Suite, run_suite

JAVA = Path(__file__).parent / "Decisions.java"

TYPES = [ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.USER]
NAMES = ["*", "**", "a", "ab", "abc", "abd", "b", "h", "hardcode", "hard", "a*", "é", "éa", "User:alice", "-", "zz"]
ASKED_FOR = [each for each in NAMES if each == "*" or not each.startswith("*")]
"""Without names that begin with a star: for these Apache Kafka ignores the ACLs for every name, denials included."""
PRINCIPALS = ["User:alice", "User:bob", "User:*", "Group:alice", "User:a:b", "User:root"]
ASKING = ["User:alice", "User:bob", "User:a:b", "User:root", "Group:alice"]
HOSTS = ["*", "*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1", "::1"]
NETWORKS = [
    "10.0.0.0/31",
    "10.0.0.9/8",
    "10.0.0.2/32",
    "0.0.0.0/0",
    "::/64",
    "::2/127",
    "fe80::/10",
    "10.0.0.0/33",
    "a/b",
]
COMING_FROM = ["10.0.0.1", "10.0.0.2", "::1", "::ffff:10.0.0.1", "2001:db8::7"]
OPERATIONS = [each for each in AclOperation if each > AclOperation.ANY]
ASKED = [each for each in OPERATIONS if each is not AclOperation.ALL]

Asked: TypeAlias = tuple[list[str], bool]
"""A line to Apache Kafka, and Ottla's decision for it."""


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("no broker: it asks Apache Kafka's class")
    if not shutil.which("javac"):
        raise NotRunError("a JDK and Maven")
    sets = 200 if options.quick else options.rest.sets
    rng = random.Random(options.rest.seed)
    lines: list[list[str]] = []
    said: list[bool] = []
    asked: list[int] = []
    for _ in range(sets):
        for line, answer in conversation(rng):
            lines.append(line)
            if answer is not None:
                said.append(answer)
                asked.append(len(lines) - 1)
    theirs = decisions(lines)
    suite.equal("decisions", len(said), len(theirs))
    wrong = [number for number, both in enumerate(zip(said, theirs, strict=True)) if both[0] is not both[1]]
    suite.equal(f"differences in {len(said)} decisions over {sets} sets of entries", 0, len(wrong))
    suite.check("both answers are common", 0.2 < sum(said) / len(said) < 0.8, f"{sum(said)} of {len(said)} allowed")
    for number in wrong[:3]:
        at = asked[number]
        begin = max(each for each in range(at + 1) if lines[each][0] == "new")
        for line in lines[begin : at + 1]:
            if line[0] in ("new", "acl") or line is lines[at]:
                suite.note(" ".join(line))
        suite.note(f"Ottla: {said[number]}")


def conversation(rng: random.Random) -> Iterator[tuple[list[str], bool | None]]:
    """Yield a set of ACLs and decisions about them: lines, and Ottla's decisions for those that ask."""
    super_users = ["User:root"] if rng.random() < 0.2 else []
    default = rng.random() < 0.2
    ottla = Authorizer(super_users, allow_if_no_acl=default)
    yield ["new", ";".join(super_users), str(default).lower()], None
    for _ in range(rng.randrange(0, 15)):
        permission = Permission.DENY if rng.random() < 0.3 else Permission.ALLOW
        acl = Acl(
            rng.choice(TYPES),
            rng.choice(NAMES),
            rng.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            rng.choice(PRINCIPALS),
            rng.choice(HOSTS + NETWORKS),
            AclOperation.ALL if rng.random() < 0.3 else rng.choice(OPERATIONS),
            permission,
        )
        if acl in ottla.index:
            continue
        ottla.add(acl)
        yield (
            [
                "acl",
                acl.resource_type.name,
                acl.name,
                acl.pattern.name,
                acl.principal,
                acl.host,
                acl.operation.name,
                acl.permission.name,
            ],
            None,
        )
    for _ in range(40):
        who, host = rng.choice(ASKING), rng.choice(COMING_FROM)
        operation, kind, name = rng.choice(ASKED), rng.choice(TYPES), rng.choice(ASKED_FOR)
        principal = Principal.parse(who)
        if rng.random() < 0.3:
            yield (
                ["any", who, host, operation.name, kind.name],
                to_the_end(ottla.allows_any(principal, host, operation, kind)),
            )
        else:
            yield (
                ["allows", who, host, operation.name, kind.name, name],
                ottla.allows(principal, host, operation, kind, name),
            )


def decisions(lines: list[list[str]]) -> list[bool]:
    """Return Apache Kafka's decisions for the lines that ask."""
    command = ["java", "-Xmx512m", "-cp", f"{jars()}/*", str(JAVA)]
    told = "".join("\t".join(line) + "\n" for line in lines)
    done = subprocess.run(command, input=told.encode(), capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Apache Kafka's class: {done.stderr.decode(errors='replace')[-2_000:]}")
    return [line == "1" for line in done.stdout.decode().split("\n") if line in ("0", "1")]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sets", type=int, default=5_000, help="number of sets of ACLs")
    parser.add_argument("--seed", type=int, default=1)


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.acl_decisions", body, doc=__doc__, more_arguments=arguments))
