"""A share group whose members join, leave, vanish, renew and hold records too long; and short-lived share groups."""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import IO

from confluent_kafka import Producer

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_share_group_offsets as altering
from ottla.protocol.messages import delete_share_group_offsets as deleting
from ottla.protocol.messages import describe_share_group_offsets as describing
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.server.client.connection import Client

from ..support.clients.share_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Acquired,
    Said,
    ShareMember,
    checked,
    client_of,
    configure,
)
from ..support.clients.steps import admin, create_topic
from ..support.deliveries import ACCEPTED, FAILED, LOST, RECEIVED, REJECTED, RELEASED, Deliveries, Event, Place
from .load import Load, Scene
from .topics import KEPT, SHARED, Ledger, numbered

GROUP = "queue"
LOCK_S, COUNT_LIMIT = 5, 10
EARLY_COUNT = 4
"""A record with more deliveries is accepted, whatever the random choice: at the limit the broker archives it."""
PATIENCE_S = 20.0
MEAN_TURNS = 40
WORK = ("plain",) * 16 + ("renews", "holds on", "vanishes", "vanishes")
TYPES = (ACCEPT,) * 46 + (RELEASE,) * 3 + (REJECT,)
TOLD = {ErrorCode.INVALID_RECORD_STATE: LOST}
"""Error -> kind of event. Any other error is the broker's: the acknowledgement may have been written."""
KINDS = {ACCEPT: ACCEPTED, RELEASE: RELEASED, REJECT: REJECTED}


class Queue:
    """The state of the records of SHARED."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.lock, self.deliveries = scene, threading.Lock(), Deliveries(LOCK_S * 1000, COUNT_LIMIT)
        with contextlib.closing(client_of(scene.bootstrap)) as client:
            configure(client, GROUP, "earliest")

    def note(self, place: Place, event: Event) -> None:
        with self.lock:
            self.deliveries.events[place].append(event)

    def ended(self, member: str, since_ns: int) -> None:
        """Note that a member has ended without reporting it, possibly since `since_ns`."""
        with self.lock:
            self.deliveries.ended_ns[member] = since_ns

    def lags(self) -> dict[int, int]:
        """Return the lags as the broker reports them. Raises KafkaError."""
        with contextlib.closing(client_of(self.scene.bootstrap)) as client:
            return {number: lag for number, (_, lag) in places_of(client, GROUP).get(SHARED, {}).items()}


class Sharer(Load):
    """One place of the group: a member lives for some turns, and is followed by another."""

    every_s = 0.4

    def __init__(self, scene: Scene, queue: Queue, number: int) -> None:
        super().__init__(scene, f"Sharer {number}")
        self.queue, self.left = queue, 0
        self.member: ShareMember | None = None

    def turn(self) -> None:
        if self.member is None:
            self.member = ShareMember(self.scene.bootstrap, GROUP, SHARED, PATIENCE_S)
            self.left = 5 + int(self.chance.expovariate(1 / MEAN_TURNS))
        self.left -= 1
        if self.left < 0:
            member, self.member = self.member, None
            member.leave()
            return
        self.member.beat()
        if self.member.partitions:
            self.work(self.member, self.chance.choice(WORK))

    def work(self, member: ShareMember, how: str) -> None:
        acquired, _ = self.fetch(member, {}, self.chance.choice((5, 50, 500)), is_limit=self.chance.random() < 0.5)
        if not acquired:
            return
        if how == "vanishes":
            self.again()
            return
        renewed_s: float | None = None
        if how == "holds on":
            self.stay(member, LOCK_S * 1.2)
        elif how == "renews":
            for _ in range(2):
                self.stay(member, LOCK_S * 0.6)
                renewed_s = time.monotonic()
                member.acknowledge(said_of(acquired, lambda _: RENEW), is_renewal=True)
        said = said_of(acquired, lambda each: self.chance.choice(TYPES) if each.deliveries < EARLY_COUNT else ACCEPT)
        if self.chance.random() < 0.5:
            more, refused = self.fetch(member, said, 5, is_limit=True)
            said = said_of(more, lambda _: ACCEPT)
        if said:
            refused = member.acknowledge(said)
            self.told(member, said, refused)
        held_s = time.monotonic() - (renewed_s or 0)
        if refused and held_s < LOCK_S * 0.9:
            self.scene.complain(self.name, f"lost what it had renewed {held_s:.1f} s before: {refused}")

    def stay(self, member: ShareMember, seconds: float) -> None:
        """Alive, with what it holds."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(1.0, left_s))
            member.beat()

    def fetch(
        self, member: ShareMember, said: Said, most: int, *, is_limit: bool
    ) -> tuple[list[Acquired], dict[int, int]]:
        asked_ns = time.monotonic_ns()
        acquired, refused = member.fetch(said, most, is_limit=is_limit)
        self.told(member, said, refused)  # what it has released it may have received again
        now_ns = time.monotonic_ns()
        for each in acquired:
            event = Event(now_ns, RECEIVED, member.name, str(each.deliveries), asked_ns)
            for offset in range(each.first, each.last + 1):
                self.queue.note((each.partition, offset), event)
        return acquired, refused

    def told(self, member: ShareMember, said: Said, refused: dict[int, int]) -> None:
        """Note the broker's answer to acknowledgements."""
        now_ns = time.monotonic_ns()
        for partition, offset, kind in each_of(said):
            error = ErrorCode(refused.get(partition, 0))
            event = Event(now_ns, TOLD.get(error, FAILED) if error else KINDS[kind], member.name, error.name)
            self.queue.note((partition, offset), event)

    def again(self) -> None:
        """Close without leaving the group."""
        member, self.member = self.member, None
        if member is not None:
            self.queue.ended(member.name, time.monotonic_ns())
            member.close()

    def close(self) -> None:
        member, self.member = self.member, None
        if member is not None:
            member.leave()


def said_of(acquired: Iterable[Acquired], kind: Callable[[Acquired], int]) -> Said:
    """Return acknowledgements with a type for each record."""
    said: Said = {}
    for each in acquired:
        kinds = [kind(each) for _ in range(each.first, each.last + 1)]
        said.setdefault(each.partition, []).append((each.first, each.last, kinds))
    return said


def each_of(said: Said) -> Iterable[tuple[int, int, int]]:
    """Yield (partition, offset, type) of each record."""
    for partition, batches in said.items():
        for first, _, kinds in batches:
            for at, kind in enumerate(kinds):
                yield partition, first + at, kind


class LibrarySharers(Load):
    """Members of librdkafka's share consumer, in processes of their own: some leave, some are killed."""

    every_s = 15.0
    together = 2

    def __init__(self, scene: Scene, queue: Queue) -> None:
        super().__init__(scene)
        self.queue = queue
        self.running: list[tuple[str, subprocess.Popen[str], threading.Thread]] = []

    def turn(self) -> None:
        if len(self.running) >= self.together:
            self.end_one(kill=self.turns % 2 == 1)
        name = f"library-{self.begun}"
        command = [sys.executable, "-m", f"{__package__}.sharer", self.scene.bootstrap, GROUP, SHARED]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        thread = threading.Thread(target=self.read, args=(name, process.stdout), daemon=True)
        thread.start()
        self.running.append((name, process, thread))

    def read(self, name: str, lines: IO[str]) -> None:
        """Read a member's report of its work; see `sharer`."""
        for line in lines:
            kind, _, rest = line.rstrip("\n").partition(" ")
            if kind == "E":
                self.scene.complain(self.name, f"{name}: {rest}")
            elif line.endswith("\n"):  # otherwise it was killed during the write
                nanoseconds, partition, offset, more, *asked = rest.split()
                event = Event(int(nanoseconds), kind, name, more, int(asked[0]) if asked else None)
                self.queue.note((int(partition), int(offset)), event)

    def end_one(self, *, kill: bool) -> None:
        name, process, thread = self.running.pop(0)
        assert process.stdin is not None
        assert process.stdout is not None
        if process.poll() is not None:
            self.scene.complain(self.name, f"{name} ended by itself: {process.returncode}")
        since_ns = time.monotonic_ns()  # other members may have its records before the process has been waited for
        if kill:
            process.kill()
        process.stdin.close()
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
            self.scene.complain(self.name, f"{name} did not leave within {PATIENCE_S:.0f} s")
        if code:
            self.queue.ended(name, since_ns)
        thread.join(PATIENCE_S)
        process.stdout.close()

    def close(self) -> None:
        while self.running:
            self.end_one(kill=False)


class PassingShareGroups(Load):
    """A share group a turn: it gets offsets, is read from there and described, loses its offsets or topic, and is deleted.

    In each third turn the last member stays, silent, and the group is deleted some turns later.
    """

    every_s = 3.0
    name_of, back, records, later = "passing-share-", 20, 30, 4

    def __init__(self, scene: Scene, ledger: Ledger) -> None:
        super().__init__(scene)
        self.ledger = ledger
        self.client: Client | None = None
        self.stays: list[tuple[int, str, ShareMember]] = []

    def turn(self) -> None:
        if self.client is None:
            self.client = client_of(self.scene.bootstrap, PATIENCE_S)
        while self.stays and self.begun - self.stays[0][0] > self.later:
            _, group, member = self.stays.pop(0)
            member.close()
            delete(self.client, group)
        group = f"{self.name_of}{self.begun}"
        if self.turns % 2:
            self.of_a_topic_that_goes(self.client, group)
        else:
            self.of_offsets(self.client, group)

    def of_offsets(self, client: Client, group: str) -> None:
        begin = max(0, self.ledger.acknowledged[KEPT, 0] - self.back)
        move(client, group, KEPT, begin)
        if (found := places_of(client, group)[KEPT][0][0]) != begin:
            raise RuntimeError(f"{group} begins at {found}, not at {begin}")
        self.read(client, group, KEPT, begin)
        answer = client.ask(
            deleting.DeleteShareGroupOffsetsRequest(
                group_id=group, topics=(deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=KEPT),)
            )
        )
        checked(answer)
        checked(answer.responses[0])
        delete(client, group)

    def of_a_topic_that_goes(self, client: Client, group: str) -> None:
        create_topic(self.scene.bootstrap, group)
        producer = Producer({"bootstrap.servers": self.scene.bootstrap, "log_level": 0})
        for number in range(self.records):
            producer.produce(group, numbered(number, 50), partition=0)
        producer.flush(PATIENCE_S)
        configure(client, group, "earliest")
        stays = self.turns % 3 == 0
        member = self.read(client, group, group, 0, stays=stays)
        admin_client = admin(self.scene.bootstrap)  # kept: a collected client never delivers its answers
        for done in admin_client.delete_topics([group]).values():
            done.result(PATIENCE_S)
        configure(client, group, None)
        if stays:
            self.stays.append((self.begun, group, member))
        else:
            delete(client, group)

    def read(self, client: Client, group: str, topic: str, begin: int, *, stays: bool = False) -> ShareMember:
        """Read some records with a member that accepts some of them; the first one must be this."""
        member = ShareMember(self.scene.bootstrap, group, topic, PATIENCE_S)
        try:
            member.join(1, PATIENCE_S)
            deadline_s = time.monotonic() + PATIENCE_S
            acquired: list[Acquired] = []
            while not any(each.partition == 0 for each in acquired):
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"{group} received nothing of {topic} within {PATIENCE_S:.0f} s")
                acquired += member.fetch({}, 10)[0]
            if (first := min(each.first for each in acquired if each.partition == 0)) != begin:
                raise RuntimeError(f"{group} receives {first} first, not {begin}")
            refused = member.acknowledge(said_of(acquired, lambda _: self.chance.choice(TYPES)))
            if refused:
                raise RuntimeError(f"{group}: acknowledgements refused: {refused}")
            self.check_state(client, group, "Stable")
            if not stays:
                member.leave()
                self.check_state(client, group, "Empty")
        except BaseException:
            member.close()
            raise
        return member

    def check_state(self, client: Client, group: str, state: str) -> None:
        (told,) = client.ask(ShareGroupDescribeRequest(group_ids=(group,))).groups
        if checked(told).group_state != state:
            raise RuntimeError(f"{group} is {told.group_state}, not {state}")

    def again(self) -> None:
        """Clean up after a failed turn."""
        self.close()
        self.client = client_of(self.scene.bootstrap, PATIENCE_S)
        answer = checked(self.client.ask(ListGroupsRequest(types_filter=("share",))))
        for each in answer.groups:
            if each.group_id.startswith(self.name_of):
                delete(self.client, each.group_id, or_else=(ErrorCode.NON_EMPTY_GROUP,))
        admin_client = admin(self.scene.bootstrap)
        left = [name for name in admin_client.list_topics(timeout=PATIENCE_S).topics if name.startswith(self.name_of)]
        for done in admin_client.delete_topics(left).values() if left else ():
            done.result(PATIENCE_S)

    def close(self) -> None:
        for _, _, member in self.stays:
            member.close()
        self.stays.clear()
        if self.client is not None:
            self.client.close()
            self.client = None


def move(client: Client, group: str, topic: str, offset: int) -> None:
    """Have a group begin there in partition 0, and make it, if there is none. Raises KafkaError."""
    row = altering.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    asked = altering.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=(row,))
    answer = checked(client.ask(altering.AlterShareGroupOffsetsRequest(group_id=group, topics=(asked,))))
    checked(answer.responses[0].partitions[0])


def places_of(client: Client, group: str) -> dict[str, dict[int, tuple[int, int]]]:
    """Return topic -> partition -> where the group begins, and its lag. Raises KafkaError."""
    asked = describing.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    (told,) = client.ask(describing.DescribeShareGroupOffsetsRequest(groups=(asked,))).groups
    return {
        topic.topic_name: {row.partition_index: (checked(row).start_offset, row.lag) for row in topic.partitions}
        for topic in checked(told).topics
    }


def delete(client: Client, group: str, or_else: tuple[ErrorCode, ...] = ()) -> None:
    """Delete the group. Raises KafkaError for error codes other than `or_else`."""
    (told,) = client.ask(DeleteGroupsRequest(groups_names=(group,))).results
    if told.error_code not in or_else:
        checked(told)
