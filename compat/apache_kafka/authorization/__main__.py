"""The requests that ACL operations allow: every API in every version, at Apache Kafka and at Ottla.

The users have no right, one right or a few. `--record` writes Apache Kafka's answers to
`tests/support/authorization/apache_kafka.json`. Without it the same requests are sent to Ottla by authenticated users, and each
difference is a failure unless it is listed. The feature `share.version` is 0; with `--share` requests about share groups are
sent while it is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import trio

from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.server.client.connection import Client
from support.authorization import differences
from support.authorization.answers import reduced
from support.authorization.messages import message
from support.authorization.questions import QUESTIONS, SHARE_QUESTIONS, Question, asked
from support.authorization.recording import FILE, SHARE_FILE, Asked, read, written
from support.authorization.rights import NOBODY, OWNER, USERS
from support.authorization.scene import Scene

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess, free_port
from ...support.suite import NotRunError, Options, Suite, run_suite
from .asking import LoggedIn, grant, options

PAUSE_S = 0.02
GRANTED_S = 2.0
"""The time until every granted right is in effect, with a margin."""
CLOSED = "closed"
UNSAFE_DOWNGRADE = 3
DIFFERENCES_SHOWN = 40
NAMES = tuple(USERS)


def body(suite: Suite, options_: Options) -> None:
    if options_.broker:
        raise NotRunError("to start its broker itself")
    kind = ApacheKafkaProcess if options_.rest.record or options_.against != "ottla" else OttlaProcess
    users = [NOBODY, OWNER, "half", "consumer"] if options_.quick else list(USERS)
    level, questions, file = (1, SHARE_QUESTIONS, SHARE_FILE) if options_.rest.share else (0, QUESTIONS, FILE)
    with broker(kind, level) as (plain, sasl):
        answers = trio.run(ask_all, plain, sasl, users, questions)
    if options_.rest.record:
        file.write_text(written(answers))
        suite.check("recorded", True, f"{len(answers)} answers in {file.stat().st_size} bytes")
        return
    expected = read(file.read_text())
    found = differences.between({one: expected.get(one) for one in answers}, answers)
    suite.check("answers compared", bool(answers), len(answers))
    suite.equal("differences that are not named", 0, len(found))
    for line in found[:DIFFERENCES_SHOWN]:
        suite.note(line)


@contextmanager
def broker(kind: type[BrokerProcess], share_version: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the plain address, at which everybody is a super user, and the one where users log in."""
    sasl = f"127.0.0.1:{free_port()}"
    process: BrokerProcess
    if kind is OttlaProcess:
        process = OttlaProcess(overrides=options(), arguments=("--listener", f"SASL_PLAINTEXT://{sasl}"))
    else:
        kafka = process = ApacheKafkaProcess(overrides=options(), features={"share.version": share_version})
        listeners = f"PLAINTEXT://{kafka.bootstrap},SASL_PLAINTEXT://{sasl}"
        kafka.overrides |= {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{kafka.controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
    with process:
        if kind is OttlaProcess and not share_version:
            _lower(process.bootstrap)
        yield process.bootstrap, sasl


def _lower(bootstrap: str) -> None:
    """Disable share groups, as they were at Apache Kafka during the recording."""
    update = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=UNSAFE_DOWNGRADE)
    client = Client(*_address(bootstrap), timeout_s=60)
    answer = client.ask(UpdateFeaturesRequest(feature_updates=(update,)), 2)
    client.close()
    if answer.error_code:
        raise RuntimeError(f"share.version cannot be lowered: {answer}")


async def ask_all(plain: str, sasl: str, users: list[str], questions: list[Question]) -> dict[Asked, Any]:
    """Return every answer, reduced to the compared parts."""
    admin = Client(*_address(plain), timeout_s=60)

    async def ask(request: Any, version: int) -> Any:
        return admin.ask(request, version)

    clients: dict[str, Client] = {OWNER: LoggedIn(*_address(sasl), OWNER)}

    async def ask_as_owner(request: Any, version: int) -> Any:
        return clients[OWNER].ask(request, version)

    scene = Scene(ask, ask_as_owner, partial(trio.sleep, PAUSE_S))
    await scene.build()
    if questions is SHARE_QUESTIONS:
        await scene.share()
    grant(plain, USERS)
    await trio.sleep(GRANTED_S)
    answers: dict[Asked, Any] = {}
    began_s = time.monotonic()
    for question, version in asked(questions):
        for user in users:
            names = {one: name for name, one in scene.ids.items()}
            request = message(question.api.name, question.values(version, scene.ids))
            answer = _answer(clients, sasl, user, request, version, names)
            answers[Asked(question.id, version, user)] = answer
            await scene.mend(question.changes, answer)
    print(f"{len(answers)} answers in {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    for client in (*clients.values(), admin):
        client.close()
    return answers


def _answer(
    clients: dict[str, Client], sasl: str, user: str, request: Any, version: int, names: dict[bytes, str]
) -> Any:
    if user not in clients:
        clients[user] = LoggedIn(*_address(sasl), user)
    try:
        return reduced(clients[user].ask(request, version), names)
    except ConnectionError:
        del clients[user]
        return CLOSED


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", action="store_true", help="record Apache Kafka's answers")
    parser.add_argument(
        "--share", action="store_true", help="only requests about share groups, with the feature enabled"
    )


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.authorization", body, doc=__doc__, more_arguments=_more))
