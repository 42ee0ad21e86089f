"""A share group on several nodes, under random events.

Members come, go and crash, and leaders move, while records are acquired, acknowledged, released and renewed. Locks end, states
are pruned, and the broker is stopped, killed, or loses power.

The handlers of the nodes receive all requests, in an order that the seed alone decides; only the test moves time. The answers
to members go into a `Ledger`, which is compared with the share coordinator's tables after every step.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import trio
import trio.testing

from ottla.protocol.connection import encode_request, parse_request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.share_fetch import ShareFetchRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import api_of
from ottla.server.config.features import DEAD_LETTER_QUEUES, SHARE_GROUPS, UpgradeType
from ottla.server.control.nodes import start_node, stop_node
from ottla.server.network.dispatcher import finished
from ottla.server.partitions.internal_topics import OFFSETS_TOPIC
from ottla.server.sharing.acknowledging import ACCEPT, REJECT, RELEASE, RENEW
from support.broker.contexts import context_of
from support.broker.in_process_broker import pass_time
from support.disk.crash_files import CrashFiles
from support.sharing.chaos_broker import GROUP, NODES, PARTITIONS, TOPIC, ChaosBroker
from support.sharing.chaos_members import Connection, Member, Says, acknowledge_request, fetch_request
from support.sharing.ledger import LOCK_MS

E = ErrorCode
KINDS = (ACCEPT, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT)


class Chaos(ChaosBroker):
    """A random test over several runs of the broker; members and the ledger outlive them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.members: list[Member] = []
        self.names = 0
        self._answers: list[Callable[[], None]] = []
        """Callbacks that take the answers of parked fetches that a step completed, after its own answer."""

    # A run of the broker

    async def live(self, broker: Broker, files: CrashFiles, steps: int) -> None:
        """Do `steps` steps with a broker that has just started."""
        self.is_lost = False
        self.files, self.broker, self.elapsed_ms = files, broker, broker.clock.elapsed_ms()
        self.ledger.taken_back()
        for member in self.members:
            member.connections.clear()
        if broker.services.topics.get(TOPIC) is None:
            await self.begin()
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            for _ in range(steps):
                await self.step()
            if steps and self.rng.random() < 0.5:
                self.lose_states()
                for deed in self.rng.choices(
                    [self.fetch, self.acknowledge, self.acknowledge, self.wait, self.crash], k=12
                ):
                    await self.settle(deed)
            nursery.cancel_scope.cancel()
        self._answers.clear()

    async def step(self) -> None:
        deeds: list[tuple[int, Callable[[], Coroutine[Any, Any, None]]]] = [
            (10, self.produce),
            (4, self.enter),
            (2, self.leave),
            (2, self.crash),
            (20, self.beat),
            (30, self.fetch),
            (30, self.acknowledge),
            (4, self.end_session),
            (8, self.wait),
            (4, self.move_partition),
            (3, self.move_states),
            (1, self.move_group),
            (1, self.restart_node),
            (1, self.switch_off),
            (4, self.fill_disk),
            (1, self.delete_records),
        ]
        weights, acts = zip(*deeds, strict=True)
        await self.settle(*self.rng.choices(acts, weights))

    async def settle(self, deed: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do it, and all that follows from it; then compare."""
        await deed()
        await trio.testing.wait_all_tasks_blocked()
        self.time_passed()
        for take in self._answers:
            take()
        self._answers.clear()
        self.check()

    # Members

    async def enter(self) -> None:
        if len(self.members) < 4:
            self.names += 1
            self.members.append(Member(f"m{self.names}"))
            await self.beat_of(self.members[-1])

    async def beat(self) -> None:
        if self.members:
            await self.beat_of(self.rng.choice(self.members))

    async def beat_of(self, member: Member, epoch: int | None = None) -> None:
        said = member.epoch if epoch is None else epoch
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member.name,
            member_epoch=said,
            subscribed_topic_names=None if said else (TOPIC,),
        )
        answer = await self.ask(request, 1, self.leader(OFFSETS_TOPIC))
        if answer.error_code in (E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND):
            self.seen.add("expelled")
            member.epoch, member.assigned = 0, frozenset()
            return
        assert not answer.error_code, answer
        assert answer.member_epoch >= said
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            member.assigned = frozenset(index for row in rows for index in row.partitions)

    async def leave(self) -> None:
        if self.members:
            member = self.members.pop(self.rng.randrange(len(self.members)))
            for connection in tuple(member.connections.values()):
                await self.end(connection)
            await self.beat_of(member, -1)

    async def crash(self) -> None:
        """Remove a member without a word, and drop its connections."""
        if self.members:
            self.seen.add("crash")
            member = self.members.pop(self.rng.randrange(len(self.members)))
            await self.lose([*member.connections.values()])

    async def lose(self, connections: list[Connection]) -> None:
        for connection in connections:
            del connection.member.connections[connection.node]
            connection.close()
            await trio.testing.wait_all_tasks_blocked()
            self.ended(connection)

    def ended(self, connection: Connection) -> None:
        """End a connection. Its member keeps records of other nodes; without any session all share partitions are reset."""
        for partition in connection.places:
            if self.leader(TOPIC, partition) == connection.node:
                self.ledger.taken_back(partition, connection.member.name)
        if not any(one.epoch for member in self.members for one in member.connections.values()):
            self.ledger.taken_back()

    # Records

    def connection(self) -> Connection | None:
        """Return a connection without an outstanding request, to a node that leads an assigned partition of its member."""
        if not self.members:
            return None
        member = self.rng.choice(self.members)
        nodes = sorted({self.leader(TOPIC, partition) for partition in member.assigned} | member.connections.keys())
        if not nodes:
            return None
        node = self.rng.choice(nodes)
        found = member.connections.setdefault(node, Connection(member, node))
        return None if found.parked is not None else found

    async def fetch(self) -> None:
        connection = self.connection()
        if connection is None:
            return
        member, node = connection.member, connection.node
        places = frozenset(one for one in member.assigned if self.leader(TOPIC, one) == node)
        if not connection.epoch and not places:
            return
        says = self.says(connection) if connection.epoch and self.rng.random() < 0.3 else {}
        waits = not says and self.rng.random() < 0.3
        request = self.next_fetch(connection, places, says, 60_000 if waits else 0)
        connection.places = places
        if waits:
            self.nursery.start_soon(self.park, connection, request)
        else:
            self.take(connection, await self.ask(request, 2, node, connection.client), says)

    async def park(self, connection: Connection, request: ShareFetchRequest) -> None:
        api = api_of(request)
        frame = bytearray(encode_request(api, 2, 0, "client", request))
        context = context_of(self.broker, connection.client, connection.node)
        with trio.CancelScope() as connection.parked:
            answer = await finished(self.broker.handlers[api.key](context, parse_request(memoryview(frame)[4:])))
            self.seen.add("woken")
            self._answers.append(lambda: self.take(connection, answer, {}))
        connection.parked = None

    def next_fetch(
        self, connection: Connection, places: frozenset[int], says: dict[int, Says], max_wait_ms: int = 0
    ) -> ShareFetchRequest:
        rng = self.rng
        return fetch_request(
            GROUP,
            connection,
            self.topic_id,
            places,
            says,
            max_wait_ms=max_wait_ms,
            max_records=rng.choice([1, 3, 500]),
            batch_size=rng.choice([1, 2, 500]),
            mode=rng.randrange(2),
        )

    def take(self, connection: Connection, answer: Any, says: dict[int, Says]) -> None:
        assert not answer.error_code, answer
        connection.epoch += 1
        for topic in answer.responses:
            for row in topic.partitions:
                index, member = row.partition_index, connection.member
                if index in says:
                    self.answered(member, index, says[index], row.acknowledge_error_code)
                if row.error_code:
                    self.seen.add(E(row.error_code).name)
                for one in row.acquired_records:
                    self.seen.add("delivered")
                    self.ledger.delivered(member.name, index, one.first_offset, one.last_offset, one.delivery_count)

    # Acknowledgements of members

    def says(self, connection: Connection) -> dict[int, Says]:
        """Return acknowledgements for some of the member's records, in partitions that it fetches there."""
        found: dict[int, Says] = {}
        for partition in sorted(connection.places):
            if self.leader(TOPIC, partition) != connection.node:
                continue
            held = self.ledger.holds(connection.member.name, partition)
            chosen = [offset for offset in held if self.rng.random() < 0.7]
            if chosen:
                found[partition] = {each: self.rng.choice(KINDS) for each in chosen}
        return found

    async def acknowledge(self) -> None:
        connection = self.connection()
        if connection is None or not connection.epoch:
            return
        renews = self.rng.random() < 0.2
        says = self.says(connection)
        if renews:
            says = {partition: dict.fromkeys(offsets, RENEW) for partition, offsets in says.items()}
        if says:
            await self.send_acknowledgements(connection, says, connection.epoch, renews=renews)
            connection.epoch += 1

    async def send_acknowledgements(
        self, connection: Connection, says: dict[int, Says], epoch: int, *, renews: bool = False
    ) -> None:
        request = acknowledge_request(GROUP, connection, self.topic_id, says, epoch, renews=renews)
        answer = await self.ask(request, 2, connection.node, connection.client)
        assert not answer.error_code, answer
        for topic in answer.responses:
            for row in topic.partitions:
                self.answered(connection.member, row.partition_index, says[row.partition_index], row.error_code)

    def answered(self, member: Member, partition: int, says: Says, error: int) -> None:
        """Check that an error only concerns records that the ledger allows to be taken from the member."""
        if error:
            if self.is_lost:
                self.seen.add("lost")
                self.ledger.unheard(partition, says)
                return
            told = f"{member.name} says {says} of {partition}: {E(error)!r}"
            # While a request waits for room, its member's locks may end.
            has_lost = not says.keys() <= set(self.ledger.holds(member.name, partition))
            assert self.is_full and error == (E.INVALID_RECORD_STATE if has_lost else E.COORDINATOR_NOT_AVAILABLE), told
            self.seen.add("refused")
            return  # and the acknowledgement had no effect
        ledger = self.ledger
        for what, kinds, act in (
            ("accepted", (ACCEPT,), ledger.accepted),
            ("rejected", (REJECT,), ledger.rejected),
            ("released", (RELEASE,), ledger.released),
            ("renewed", (RENEW,), ledger.renewed),
        ):
            if offsets := [offset for offset, kind in says.items() if kind in kinds]:
                self.seen.add(what)
                act(partition, offsets)

    async def end_session(self) -> None:
        connection = self.connection()
        if connection is not None and connection.epoch:
            await self.end(connection)

    async def end(self, connection: Connection) -> None:
        """End a session with its member's last acknowledgements."""
        if not connection.epoch or connection.parked is not None:
            await self.lose([connection])
            return
        del connection.member.connections[connection.node]
        await self.send_acknowledgements(connection, self.says(connection), -1)
        self.ended(connection)

    async def restart_node(self) -> None:
        """Restart a node: the partitions that it leads move to other nodes, and back."""
        node = self.rng.randrange(NODES)
        led = {partition for partition in range(PARTITIONS) if self.leader(TOPIC, partition) == node}
        await self.lose([one for member in self.members for one in member.connections.values() if one.node == node])
        await stop_node(self.broker, node)
        for partition in led:
            self.ledger.taken_back(partition)
        await start_node(self.broker, node)
        self.seen.add("node restarted")

    async def fill_disk(self) -> None:
        """Refuse writes to the log of states for a while."""
        deeds = [self.fetch, self.acknowledge, self.acknowledge, self.wait, self.end_session, self.crash]
        with self.full_disk():
            for deed in self.rng.choices(deeds, k=4):
                await self.settle(deed)

    async def switch_off(self) -> None:
        """Switch share groups off briefly: all sessions end, and no member keeps a record."""
        await self.lose([one for member in self.members for one in member.connections.values() if one.parked])
        for level, kind in ((0, UpgradeType.SAFE_DOWNGRADE), (DEAD_LETTER_QUEUES, UpgradeType.UPGRADE)):
            update = FeatureUpdateKey(feature=SHARE_GROUPS, max_version_level=level, upgrade_type=kind)
            answer = await self.ask(UpdateFeaturesRequest(feature_updates=(update,), timeout_ms=1_000), 1, 0)
            assert not answer.error_code
        for member in self.members:
            member.connections.clear()
        self.ledger.taken_back()

    async def finish(self) -> None:
        """Remove all members; another one takes all remaining records, and then none is left."""
        while self.members:
            await self.crash()
        await pass_time(self.broker, LOCK_MS)
        self.time_passed()
        await pass_time(self.broker, LOCK_MS)
        last = Member("last")
        self.members.append(last)
        while len(last.assigned) < PARTITIONS:
            await self.beat_of(last)
            await trio.testing.wait_all_tasks_blocked()
        for _ in range(200):
            for node in range(NODES):
                connection = last.connections.setdefault(node, Connection(last, node))
                places = frozenset(one for one in last.assigned if self.leader(TOPIC, one) == node)
                if not places:
                    continue
                answer = await self.ask(self.next_fetch(connection, places, {}), 2, node, connection.client)
                connection.places = places
                self.take(connection, answer, {})
                held = {one: dict.fromkeys(self.ledger.holds("last", one), ACCEPT) for one in places}
                says = {one: offsets for one, offsets in held.items() if offsets}
                if says:
                    await self.send_acknowledgements(connection, says, connection.epoch)
                    connection.epoch += 1
                self.check()
            if not self.ledger.left():
                await trio.testing.wait_all_tasks_blocked()
                self.ledger.check_letters(self.letters())
                return
        raise AssertionError(f"never delivered: {self.ledger.left()}")
