"""Which right opens what, as Apache Kafka 4.3.1 has it: every API in every version, asked by users with no right, one right and
a few, and each answer compared with the one recorded there."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.connection import encode_request, encode_response, parse_request, parse_response
from ottla.server.security.acls.acl import Acl
from ottla.server.security.acls.kinds import PatternType, Permission
from ottla.server.security.principal import Principal
from ottla.storage.disk.files import FileSlice
from support.authorization import differences
from support.authorization.answers import reduced
from support.authorization.messages import message
from support.authorization.questions import asked
from support.authorization.recording import FILE, Answers, Asked, read
from support.authorization.rights import USERS
from support.authorization.scene import Scene
from support.broker.contexts import Staying, context_of
from support.broker.in_process_broker import pass_time, run_in_order, running
from support.disk.crash_files import CrashFiles

RECORDED = read(FILE.read_text())
OPTIONS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "num_partitions": "2",
    "group_consumer_max_session_timeout_ms": "3600000",
    "group_consumer_session_timeout_ms": "3600000",
}


class User(Staying):
    """A client that has proved who it is."""

    def __init__(self, name: str) -> None:
        self.principal = Principal("User", name)


@pytest.fixture(scope="module")
def answers() -> Answers:
    """What a broker says to all of them."""
    return run_in_order(_ask_all)


async def _ask_all() -> Answers:
    async with running(CrashFiles(), **OPTIONS) as (broker, admin):

        async def pause() -> None:
            await pass_time(broker, 100)

        scene = Scene(admin.ask, pause)
        await scene.build()
        authorizer = broker.services.authorizer
        assert authorizer is not None
        for user, grants in USERS.items():
            for resource_type, name, operation in grants:
                authorizer.add(
                    Acl(resource_type, name, PatternType.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW)
                )
        found: dict[Asked, Any] = {}
        contexts = {user: context_of(broker, User(user)) for user in USERS}
        for question, version in asked():
            for user, context in contexts.items():
                names = {one: name for name, one in scene.ids.items()}
                sent = message(question.api.name, question.values(version, scene.ids))
                frame = bytearray(encode_request(question.api, version, 0, "client", sent))
                request = parse_request(memoryview(frame)[4:])
                answer = await (await broker.handlers.loaded(question.api.key))(context, request)
                sent_back = b"".join(map(_read, encode_response(request, answer)))[4:]
                _, answer = parse_response(question.api, version, sent_back)
                found[Asked(question.id, version, user)] = told = reduced(answer, names)
                await scene.mend(question.changes, told)
        return found


def _read(part: Any) -> bytes:
    return part.read() if isinstance(part, FileSlice) else bytes(part)


def test_every_answer_is_that_of_apache_kafka(answers: Answers) -> None:
    assert not differences.between({one: RECORDED.get(one) for one in answers}, answers)
