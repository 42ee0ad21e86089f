"""Chooses requests about one group that mostly make sense, from the answers that its members received."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ottla.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskOffset, Topology

from .answers import Answer, HeartbeatResult
from .configurations import DELAY, INTERVAL, SESSION, SESSION_S, WARMUPS, Kind
from .descriptions import DESCRIPTIONS
from .names import NAMES_MAX, in_one_slot, in_order
from .steps import (
    AWAY,
    JOIN,
    LEAVE,
    Beat,
    Classic,
    Commit,
    Configure,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Look,
    OtherBeat,
    Pause,
    Read,
    Step,
    Topic,
)
from .times import Times
from .topologies import TOPICS, TOPOLOGIES, internal_topics, own_topic
from .wrong import wrong_beat

PROCESSES = 4
MISSING_SOURCES, WRONG_PARTITIONS, MISSING_INTERNAL, SHUTDOWN, DELAYED = 1, 2, 3, 4, 5
STRANGER = "stranger"
UNKNOWN = "unknown"


class World:
    """One life of a group. The random generator makes every choice, so that its seed reproduces the life.

    Args:
        name: The group's name; its topics and members have similar names.

    Attributes:
        is_new: Whether the group has written nothing since its second heartbeat, if known.
    """

    def __init__(self, rng: random.Random, kind: Kind, name: str) -> None:
        self._rng, self._kind, self.group = rng, kind, name
        self.times = Times()
        self._names = in_order(f"{name}-m", NAMES_MAX)
        self._process_names = in_one_slot(f"{name}-p", PROCESSES)
        self._brings = rng.choice(kind.topologies)
        self._members: dict[str, int] = {}
        """Member -> its process, in the order in which they joined, if known."""
        self._instances: dict[str, str] = {}
        """Static member -> its instance id."""
        self._away: set[str] = set()
        """Static members that have left for a while."""
        self._topics: dict[str, int] = {}
        """The group's existing topics -> partitions."""
        self._odd: list[str] = []
        """The coordinator's internal topics that this suite created instead, with a random number of partitions."""
        self._configs: dict[str, str | None] = {}
        self._rejoins: str | None = None
        self._is_ready = self._exists = self._may_assign = False
        self.is_new = self._is_second = False
        self._last_epoch = -1
        self._has_looked = False
        """Since topics changed a heartbeat was taken. If one is refused then, Apache Kafka's group has looked at them all the same
        (../DIFFERENCES.md)."""
        self._count = self._ended = 0
        self._queue: deque[Step] = deque(self._beginning())
        makers: dict[str, Callable[[], Step]] = {
            "join": self._join,
            "beat": self._beat,
            "news": self._news,
            "leave": self._leave,
            "away": self._go_away,
            "return": self._return,
            "conflict": self._conflict,
            "look": lambda: Look(name),
            "describe": self._describe,
            "commit": self._commit,
            "read": self._read,
            "delete offsets": lambda: DeleteOffsets(name, rng.choice((*TOPICS, own_topic(name)))),
            "bad": lambda: wrong_beat(rng, name, self._anybody(), self._brings),
            "configure": self._configure,
            "topic": self._topic,
            "delete": lambda: DeleteGroup(name),
            "classic": self._classic,
            "other": self._other,
            "pause": lambda: Pause(rng.choice((0.5, 2.0, 4.0, 7.0))),
        }
        self._makers = [makers[what] for what in kind.weights]

    def _beginning(self) -> Iterator[Step]:
        rng = self._rng
        begun: dict[str, str] = {}
        for name, values in self._kind.begins:
            value = rng.choice(values)
            if value is not None and not _meets(name, value, begun):
                begun[name] = value
                yield Configure(self.group, name, value)
        own = own_topic(self.group)
        if any(own in one.source_topics for one in self._topology.subtopologies) and rng.random() < 0.7:
            yield Topic(own, rng.choice((2, 4, 6)))
        if "classic" in self._kind.weights and rng.random() < 0.35:
            yield Classic(self.group, "join")
            yield Classic(self.group, "sync")
            yield Commit(self.group, STRANGER, "alpha", -1, version=8)
            yield self._entering(self._names[0], 0)
            yield Look(self.group)
            yield Classic(self.group, "beat")
            yield Classic(self.group, "leave")
            yield Look(self.group)

    def next_step(self) -> Step:
        if self._queue:
            return self._queue.popleft()
        if not self._members:
            return self._rng.choice((*(self._join,) * 20, *self._makers))()
        return self._rng.choices(self._makers, [*self._kind.weights.values()])[0]()

    # Heartbeats

    @property
    def _present(self) -> list[str]:
        return [one for one in self._members if one not in self._away]

    def _anybody(self) -> str:
        present = self._present
        return self._rng.choice(present) if present and self._rng.random() < 0.97 else STRANGER

    def _sent(self, beat: Beat) -> Beat:
        """Return a heartbeat in one of the versions, mostly with the member's instance id, and sometimes with task offsets."""
        rng, fields = self._rng, dict(beat.fields)
        if (instance_id := self._instances.get(beat.member)) is not None and rng.random() < 0.85:
            fields.setdefault("instance_id", instance_id)
        if not beat.is_leave and rng.random() < 0.3:
            fields["task_offsets"] = self._offsets()
            if rng.random() < 0.5:
                fields["task_end_offsets"] = self._offsets()
        return beat._replace(fields=fields, version=rng.choice((0, 1, 1, 1)))

    def _offsets(self) -> tuple[TaskOffset, ...]:
        """Return offsets of some tasks; a few of these do not exist."""
        rng = self._rng
        tasks = [(key, index) for key in ("0", "1", "2") for index in range(7)]
        return tuple(
            TaskOffset(subtopology_id=key, partition=index, offset=rng.choice((0, 1, 5, 5, 900)))
            for key, index in rng.sample(tasks, rng.choice((0, 2, 6, 12)))
        )

    def _join(self) -> Step:
        rng = self._rng
        last = [*self._members][-1] if self._members else None
        at = 0 if last is None else self._names.index(last) + 1
        if last is None or (at < NAMES_MAX and rng.random() < 0.7):
            if rng.random() < self._kind.statics:
                self._instances[self._names[at]] = f"{self.group}-i{at}"
            return self._entering(self._names[at], self._next_process())
        # A member that has expired would rejoin last at Ottla, and at its old place at Apache Kafka: send a heartbeat first.
        if not self._present:
            return Look(self.group)
        self._rejoins = rng.choice(self._present)
        return Beat(self.group, self._rejoins, says="not a word")

    def _next_process(self) -> int:
        first = [*self._members.values()][-1] if self._members else 0
        return min(first + (self._rng.random() < 0.6), PROCESSES - 1)

    # Static members

    def _go_away(self) -> Step:
        if not (statics := [one for one in self._present if one in self._instances]):
            return Look(self.group)
        member = self._rng.choice(statics)
        return Beat(self.group, member, AWAY, says="not a word", fields={"instance_id": self._instances[member]})

    def _return(self) -> Step:
        """Let a static member return, as another member, or as itself if it is the last."""
        rng = self._rng
        if not self._away:
            return Look(self.group)
        old, last = rng.choice(sorted(self._away)), [*self._members][-1]
        at = self._names.index(last) + 1
        member = old if old == last and rng.random() < 0.5 else self._names[min(at, NAMES_MAX - 1)]
        if member != old and member in self._members:
            return Look(self.group)
        # In a process that others use, Apache Kafka would lose track of their tasks (../DIFFERENCES.md).
        unused = sorted({*range(PROCESSES)}.difference(self._members.values()))
        process = rng.choice(unused) if unused and rng.random() < 0.3 else self._members[old]
        self._instances[member] = self._instances[old]
        entering = self._entering(member, process)
        # If the group keeps tasks for members that return, Apache Kafka loses them if one is refused (../DIFFERENCES.md).
        brings = entering.brings if self._configs.get(WARMUPS) == "0" else self._brings
        return entering._replace(fields={**entering.fields, "instance_id": self._instances[old]}, brings=brings)

    def _conflict(self) -> Step:
        """Use an instance id that another member has, or that does not exist."""
        rng = self._rng
        statics = [one for one in self._members if one in self._instances]
        if not statics or self._configs.get(WARMUPS) != "0" or self._configs.get(SESSION) != "60000":
            return Look(self.group)
        taken = rng.choice((self._instances[rng.choice(statics)], UNKNOWN))
        match rng.randrange(3):
            case 0 if taken != UNKNOWN and (present := [one for one in statics if one in self._present]):
                owner = rng.choice(present)
                joining = self._entering(rng.choice((owner, STRANGER)), self._next_process())
                return joining._replace(fields={**joining.fields, "instance_id": self._instances[owner]})
            case 1:
                return Beat(self.group, STRANGER, rng.choice((LEAVE, AWAY)), fields={"instance_id": taken})
        return Beat(self.group, self._anybody(), says="not a word", fields={"instance_id": taken})

    def _entering(self, member: str, process: int) -> Beat:
        rng = self._rng
        brings = self._brings if rng.random() < 0.93 else rng.choice([*TOPOLOGIES])
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": rng.choice(self._kind.rebalance_ms),
            "process_id": self._process_names[process],
            "client_tags": self._tags() if rng.random() < 0.3 else (),
        }
        if rng.random() < 0.2:
            fields["rack_id"] = rng.choice(("r1", "r2"))
        # Where topics are missing, Apache Kafka fails on members with endpoints (../DIFFERENCES.md).
        if self._is_ready and brings == self._brings and rng.random() < self._kind.endpoints:
            fields["user_endpoint"] = self._endpoint(member)
        return self._sent(Beat(self.group, member, JOIN, says="nothing", fields=fields, brings=brings))

    @property
    def _topology(self) -> Topology:
        return TOPOLOGIES[self._brings](self.group)

    def _tags(self) -> tuple[KeyValue, ...]:
        return tuple(KeyValue(key=key, value=self._rng.choice("xy")) for key in ("zone", "cluster"))

    def _endpoint(self, member: str) -> Endpoint:
        return Endpoint(host=member, port=self._rng.choice((1, 65_535)))

    def _beat(self) -> Step:
        rng = self._rng
        return self._sent(self._plain_beat(rng))

    def _plain_beat(self, rng: random.Random) -> Beat:
        says = rng.choices(
            (
                "all",
                "not a word",
                "nothing",
                "what it had",
                "less",
                "a task that there is not",
                "a subtopology that there is not",
            ),
            (50, 26, 12, 5, 4, 1, 1),
        )[0]
        if "there is not" in says and not self._has_looked:
            says = "all"
        off = rng.choices((0, -1, 1), (40, 2, 1))[0]
        fields = {"shutdown_application": True} if rng.random() < 0.015 else {}
        return Beat(self.group, self._anybody(), None, off, says, fields, knows_endpoints=rng.random() < 0.9)

    def _news(self) -> Step:
        """Something else about a member that stays."""
        rng, member = self._rng, self._anybody()
        choices: list[dict[str, Any]] = [
            {"client_tags": self._tags()},
            {"rack_id": rng.choice(("r1", "r2"))},
            {"rebalance_timeout_ms": rng.choice(self._kind.rebalance_ms)},
        ]
        if self._is_ready:
            choices.append({"user_endpoint": self._endpoint(member)})
        says = rng.choice(("all", "not a word"))
        return self._sent(Beat(self.group, member, says=says, fields=rng.choice(choices)))

    def _leave(self) -> Step:
        fields = {"shutdown_application": self._rng.random() < 0.1}
        return self._sent(Beat(self.group, self._anybody(), LEAVE, says="not a word", fields=fields))

    # Other requests

    def _describe(self) -> Step:
        rng = self._rng
        epoch = self._topology.epoch + rng.choice((0, 0, 0, 0, 1, -1))
        member = rng.choice((self._anybody(), self._anybody(), self._anybody(), ""))
        return Describe(self.group, member, epoch, rng.choice(sorted(DESCRIPTIONS)))

    def _commit(self) -> Step:
        rng = self._rng
        topic = rng.choice([*self._topology.subtopologies[0].source_topics, "delta"])
        if rng.random() < 0.15:
            return Commit(self.group, rng.choice(("", self._anybody())), topic, -1)
        return Commit(self.group, self._anybody(), topic, None, rng.choice((0, 0, 0, -1, 1)), rng.choice((9, 9, 9, 8)))

    def _read(self) -> Step:
        rng = self._rng
        topic = rng.choice([*self._topology.subtopologies[0].source_topics, "delta"])
        return Read(self.group, rng.choice((None, self._anybody())), topic, rng.choice((0, 0, 0, -1, 1)))

    def _configure(self) -> Step:
        name, values = self._rng.choice(self._kind.changes)
        value = self._rng.choice(values)
        return Configure(self.group, name, None if _meets(name, value, self._configs) else value)

    def _topic(self) -> Step:
        """Return a change of a topic.

        A group's topic is created, expanded or deleted; an internal one is deleted, and sometimes created with another count.
        """
        rng, own = self._rng, own_topic(self.group)
        if self._odd and rng.random() < 0.8:
            return Topic(self._odd.pop(), 0)
        if own not in self._topics and rng.random() < 0.8:
            return Topic(own, rng.choice((1, 2, 4, 6)))
        name = rng.choice((own, own, *internal_topics(self._topology)))
        partitions = self._topics.get(name, 0)
        if name == own and rng.random() < 0.6:
            return Topic(name, partitions + 2)
        if name != own and (not partitions or rng.random() < 0.3):
            odd = Topic(name, rng.choice((1, 2, 5)))
            self._odd.append(name)
            if not partitions:
                return odd
            self._queue.append(odd)
        return Topic(name, 0)

    def _classic(self) -> Step:
        return Classic(self.group, "join", self._rng.choice(("stream", "range")))

    def _other(self) -> Step:
        if not self._exists:
            return Look(self.group)
        return OtherBeat(self.group, "other", self._rng.choice(("consumer", "share")))

    # Results

    def told(self, step: Step, answer: Answer, began_s: float, ended_s: float) -> list[str]:
        """Take over an answer; return the topics that the coordinator makes now."""
        match step:
            case Beat():
                assert isinstance(answer, HeartbeatResult)
                return self._heard(step, answer, began_s, ended_s)
            case Configure(_, name, value) if answer[0] == "NONE":
                self._configs[name] = value
                self._may_assign = True
            case Topic(name, partitions) if answer[0] == "NONE":
                self._is_ready, self._may_assign = False, True
                self._has_looked = False
                if partitions:
                    self._topics[name] = partitions
                else:
                    self._topics.pop(name, None)
            case DeleteGroup() if answer[0] == "NONE":
                self._exists = False
                self._members.clear()
            case Classic(_, "join") if answer[-1][0] == "NONE":
                # The group is a classic one now, until its member has left.
                self._exists = False
                self._members.clear()
                for what in ("sync", "beat", "leave"):
                    self._queue.append(Classic(self.group, what, step.protocol))
                    self._queue.append(Look(self.group))
        return []

    def _heard(self, step: Beat, answer: HeartbeatResult, began_s: float, ended_s: float) -> list[str]:
        member = step.member
        if not answer.is_well:
            if answer.has_no_member:
                self._forget(member)
            self._rejoins = None
            return []
        if step.is_leave or step.is_away:
            if step.is_away:
                self._away.add(member)
            else:
                self._forget(member)
            self._may_assign = True
            self.is_new &= not self._is_second
            return []
        self._learn_newness(step, answer)
        if not self._exists and step.brings is not None:
            # A group keeps the topology of its first member.
            self._brings = step.brings
        self._exists = self._has_looked = True
        session_s = float(self._configs.get(SESSION) or 1000 * SESSION_S) / 1000
        self.times.begins(f"session of {member}", began_s, ended_s, session_s)
        if answer.must_describe:
            # At once: the next request to a member depends on chance (`groups.streams.description`).
            self._queue.append(Describe(self.group, member, self._topology.epoch, "one"))
        if step.is_join:
            self._joined(step, began_s, ended_s)
        if answer.active is not None:
            self._wait(member, step, began_s, ended_s)
        if self._rejoins == member:
            self._rejoins = None
            if member in self._members:
                self._queue.append(self._entering(member, self._members[member]))
        self._may_assign |= bool(step.fields) or self.times.ended > self._ended
        self._ended = self.times.ended
        if self._may_assign and not answer.has_status(DELAYED):
            self._assigned(began_s, ended_s)
        self._is_ready = not answer.has_status(MISSING_SOURCES, WRONG_PARTITIONS, MISSING_INTERNAL)
        if self.is_new and not self._is_second and self._configs.get(DELAY):
            # Where a delay ends before its second heartbeat, Apache Kafka's group waits on (../DIFFERENCES.md).
            self._queue.appendleft(Beat(self.group, member, says="not a word"))
        if not answer.has_status(MISSING_INTERNAL):
            return []
        return [name for name in internal_topics(self._topology) if name not in self._topics]

    def _learn_newness(self, step: Beat, answer: HeartbeatResult) -> None:
        if not self._exists:
            self.is_new, self._is_second = True, False
        elif not self._is_second:
            self._is_second = True
        elif answer.epoch != self._last_epoch:
            self.is_new = False
        self._last_epoch = answer.epoch if step.member in self._members else -1

    def appeared(self, topics: dict[str, int]) -> None:
        """Note that the coordinator has created these topics, with these numbers of partitions."""
        self._topics.update(topics)
        self._may_assign, self._has_looked = True, False

    def _forget(self, member: str) -> None:
        self._members.pop(member, None)
        self._instances.pop(member, None)
        self._away.discard(member)
        self.times.is_over(f"session of {member}")

    def _joined(self, step: Beat, began_s: float, ended_s: float) -> None:
        instance_id = step.fields.get("instance_id")
        for old in [one for one in self._away if self._instances[one] == instance_id]:
            self._forget(old)
        if instance_id is not None:
            self._instances[step.member] = instance_id
        self._members[step.member] = self._process_names.index(step.fields["process_id"])
        delay_s = float(self._configs.get(DELAY) or 0) / 1000
        if delay_s > 0:
            self._count += 1
            self.times.begins(f"delay {self._count}", began_s, ended_s, delay_s)
            if interval_s := self._interval_s:
                self.times.begins(f"interval after delay {self._count}", began_s, ended_s, delay_s + interval_s)

    @property
    def _interval_s(self) -> float:
        return float(self._configs.get(INTERVAL) or 0) / 1000

    def _wait(self, member: str, step: Beat, began_s: float, ended_s: float) -> None:
        """Note the rebalance time-outs, since the member may have to give up tasks."""
        for wait_ms in self._kind.rebalance_ms:
            self.times.begins(f"wait of {member} for {wait_ms}", began_s, ended_s, wait_ms / 1000)

    def _assigned(self, began_s: float, ended_s: float) -> None:
        """Note that a new target assignment may exist."""
        self._may_assign = False
        if interval_s := self._interval_s:
            self._count += 1
            self.times.begins(f"interval {self._count}", began_s, ended_s, interval_s)


def _meets(name: str, value: str | None, configs: Mapping[str, str | None]) -> bool:
    """Return whether an interval could end just when a delay does, which two brokers would not see alike."""
    other = {DELAY: INTERVAL, INTERVAL: DELAY}.get(name)
    return other is not None and bool(value) and bool(configs.get(other))
