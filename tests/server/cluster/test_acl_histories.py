"""Random histories of ACLs, decisions and kills: every answer equals that of a plain model of StandardAuthorizer.

The model uses the entries that were acknowledged to clients. Other clients ask while entries change: no user may at any moment
do what neither the entries before nor those after allow. A broker that is killed during a change restarts with the entries
before or those after.
"""

from __future__ import annotations

import random

import pytest
import trio

from ottla.server.broker.broker import Broker
from ottla.server.config.options.security_options import STANDARD
from ottla.server.runtime.time_slices import run_cooperatively
from ottla.server.security.acls.acl import Acl
from ottla.server.security.acls.filters import AclFilter
from ottla.server.security.acls.kinds import AclOperation, PatternType, Permission, ResourceType
from ottla.server.security.principal import Principal
from support.broker.in_process_broker import run_in_order, running
from support.disk.crash_files import CrashFiles
from support.security.acl_model import allows, allows_any

LIVES, STEPS, QUESTIONS = 4, 6, 12
TOPIC = ResourceType.TOPIC
NAMES = ("*", "a", "ab", "abc", "b")
HOSTS = ("10.0.0.1", "10.0.0.2")
WHO = (Principal("User", "alice"), Principal("User", "bob"))
OPERATIONS = (
    AclOperation.ALL,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS,
)
ASKED = (*OPERATIONS[1:], AclOperation.DESCRIBE_CONFIGS)


class History:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.files = CrashFiles()
        self.model: set[Acl] = set()
        self.killed: CrashFiles | None = None
        """The disk as a kill during the last change has left it."""

    async def run(self) -> None:
        for _ in range(LIVES):
            before = set(self.model)
            async with running(self.files, authorizer_class_name=STANDARD) as (broker, _client):
                assert set(_index(broker)) == self.model
                for _ in range(STEPS):
                    before = set(self.model)
                    await self.change(broker)
                    await self.ask(broker)
                clean_or_killed = self.files if self.rng.random() < 0.3 else self.files.copy()
            if self.killed is not None and self.rng.random() < 0.5:
                async with running(self.killed.copy(), authorizer_class_name=STANDARD) as (broker, _client):
                    found = set(_index(broker))
                assert found in (before, self.model)
                self.model, clean_or_killed = found, self.killed
            self.files, self.killed = clean_or_killed, None

    async def change(self, broker: Broker) -> None:
        rng, changes = self.rng, broker.services.acl_changes
        assert changes is not None
        after, self.killed = set(self.model), None
        if rng.random() < 0.65:
            new = [self.acl() for _ in range(rng.randint(1, 4))]
            after.update(new)
        else:
            filters = [self.filter() for _ in range(rng.randint(1, 3))]
            after = {acl for acl in after if not any(each.matches(acl) for each in filters)}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.watch, broker, after)
            if after >= self.model:
                await changes.create(after - self.model)
            else:
                await changes.delete(filters)
            nursery.cancel_scope.cancel()
        self.model = after

    async def watch(self, broker: Broker, after: set[Acl]) -> None:
        """Compare until the change is over."""
        authorizer, before = broker.services.authorizer, set(self.model)
        assert authorizer is not None
        while True:
            who, host, operation, name = self.question()
            if authorizer.allows(who, host, operation, TOPIC, name):
                assert any(allows(acls, str(who), host, operation, TOPIC, name, False) for acls in (before, after))
            if self.rng.random() < 0.2:
                self.killed = self.files.copy()
            await trio.lowlevel.checkpoint()

    async def ask(self, broker: Broker) -> None:
        authorizer = broker.services.authorizer
        assert authorizer is not None
        for _ in range(QUESTIONS):
            who, host, operation, name = self.question()
            asked = (str(who), host, operation, TOPIC)
            told = allows(self.model, *asked, name, False)
            assert authorizer.allows(who, host, operation, TOPIC, name) is told
            assert authorizer.decide(who, host, operation, TOPIC, name).is_allowed is told
            assert (operation in authorizer.allowed(who, host, ASKED, TOPIC, name)) is told
            any_told = await run_cooperatively(authorizer.allows_any(who, host, operation, TOPIC))
            assert any_told is allows_any(list(self.model), *asked, False)

    def question(self) -> tuple[Principal, str, AclOperation, str]:
        choice = self.rng.choice
        return choice(WHO), choice(HOSTS), choice(ASKED), choice(NAMES[1:])

    def acl(self) -> Acl:
        choice = self.rng.choice
        pattern = choice((PatternType.LITERAL, PatternType.PREFIXED))
        who, host = choice(("User:*", *map(str, WHO))), choice(("*", *HOSTS))
        return Acl(TOPIC, choice(NAMES), pattern, who, host, choice(OPERATIONS), choice(list(Permission)[2:]))

    def filter(self) -> AclFilter:
        acl, rng = self.acl(), self.rng
        return AclFilter(
            TOPIC,
            acl.name if rng.random() < 0.7 else None,
            rng.choice((PatternType.ANY, PatternType.MATCH, acl.pattern)),
            acl.principal if rng.random() < 0.5 else None,
            acl.host if rng.random() < 0.3 else None,
            acl.operation if rng.random() < 0.3 else AclOperation.ANY,
        )


def _index(broker: Broker) -> list[Acl]:
    assert broker.services.authorizer is not None
    return broker.services.authorizer.index.all()


@pytest.mark.parametrize("seed", range(8))
def test_histories_of_entries_and_decisions_match_a_simple_model(seed: int) -> None:
    run_in_order(History(seed).run)
