"""The scene in which the questions are asked: topics, groups and a transaction, the same on every broker.

`there` is a topic of two partitions, a group that has committed for it and a transactional id with a transaction that writes
to it. `other` is a topic that no user is granted by name. `members` is a group with one member, which subscribes to `there`.
`victim` is a topic that is created again after each allowed deletion. `missing` does not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from ottla.protocol.errors import ErrorCode
from ottla.storage.disk.checkpoints import uuid_text
from support.authorization.answers import as_text
from support.authorization.messages import message

THERE, OTHER, MEMBERS, VICTIM, MISSING, FRESH = "there", "other", "members", "victim", "missing", "fresh"
TOPICS = (THERE, OTHER, VICTIM)
UNKNOWN_ID = bytes(range(16))
TIMEOUT_MS = 10_000
TRANSACTION_TIMEOUT_MS = 900_000
TRIES = 500

Ask: TypeAlias = Callable[[Any, int], Awaitable[Any]]
"""Sends a message in a version, as a super user, and returns the answer."""
Pause: TypeAlias = Callable[[], Awaitable[None]]


class Scene:
    """`ask` sends as a super user, `ask_as_owner` as the future owner of a token; `pause` lets the broker continue."""

    def __init__(self, ask: Ask, ask_as_owner: Ask, pause: Pause) -> None:
        self._ask = ask
        self._ask_as_owner = ask_as_owner
        self._pause = pause
        self.ids: dict[str, bytes] = {MISSING: UNKNOWN_ID}
        """Topic name -> id; MISSING has an id that no topic has."""

    async def build(self) -> None:
        for name in TOPICS:
            await self._make(name)
        await self._until(lambda: self._ask(message("FindCoordinator", {"key": THERE, "key_type": 0}), 3), "error_code")
        await self._until(lambda: self._ask(message("FindCoordinator", {"key": THERE, "key_type": 1}), 3), "error_code")
        await self._commit()
        await self._join()
        await self._begin()
        token = message("CreateDelegationToken", {"max_lifetime_ms": -1})
        await self._until(lambda: self._ask_as_owner(token, 2), "error_code")

    async def share(self) -> None:
        """Initialize the states of share partitions, before the questions about them."""
        key = f"{THERE}:{uuid_text(self.ids[THERE])}:0"
        wanted = message("FindCoordinator", {"key_type": 2, "coordinator_keys": [key]})
        state = {"partition": 0, "state_epoch": 0, "start_offset": 0}
        begun = message(
            "InitializeShareGroupState",
            {"group_id": THERE, "topics": [{"topic_id": self.ids[THERE], "partitions": [state]}]},
        )
        for _ in range(TRIES):
            (found,) = (await self._ask(wanted, 6)).coordinators
            if not found.error_code:
                (row,) = (await self._ask(begun, 0)).results[0].partitions
                if not row.error_code:
                    return
            await self._pause()
        raise AssertionError("nobody coordinates share partitions")

    async def mend(self, topic: str, answer: Any) -> None:
        """Create VICTIM again if the (reduced) answer says that it was deleted; delete FRESH unless it was refused."""
        text = as_text(answer)
        if topic == VICTIM and '"NONE"' in text:
            await self._until_there(VICTIM, is_there=False)
            await self._make(VICTIM)
        if topic == FRESH and "AUTHORIZATION_FAILED" not in text:
            await self._until_there(FRESH, is_there=True)
            await self._ask(message("DeleteTopics", {"topic_names": [FRESH], "timeout_ms": TIMEOUT_MS}), 5)
            await self._until_there(FRESH, is_there=False)

    async def _until_there(self, name: str, *, is_there: bool) -> None:
        for _ in range(TRIES):
            topics = (await self._ask(message("Metadata", {"topics": None}), 12)).topics
            if any(topic.name == name for topic in topics) is is_there:
                return
            await self._pause()
        raise AssertionError(f"{name} is {'not ' * is_there}there")

    async def _make(self, name: str) -> None:
        wanted = {"name": name, "num_partitions": 2, "replication_factor": 1}
        body = message("CreateTopics", {"topics": [wanted], "timeout_ms": TIMEOUT_MS})
        while (await self._ask(body, 7)).topics[0].error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            await self._pause()
        asked = message("Metadata", {"topics": [{"name": name}], "allow_auto_topic_creation": False})
        for _ in range(TRIES):
            row = (await self._ask(asked, 12)).topics[0]
            if not row.error_code and not any(one.error_code for one in row.partitions):
                self.ids[name] = row.topic_id
                return
            await self._pause()
        raise AssertionError(f"{name} has no leader")

    async def _commit(self) -> None:
        rows = [{"partition_index": 0, "committed_offset": 0}]
        body = message(
            "OffsetCommit",
            {
                "group_id": THERE,
                "generation_id_or_member_epoch": -1,
                "topics": [{"name": THERE, "partitions": rows}, {"name": OTHER, "partitions": rows}],
            },
        )

        async def commit() -> Any:
            return (await self._ask(body, 8)).topics[0].partitions[0]

        await self._until(commit, "error_code")

    async def _join(self) -> None:
        body = message(
            "ConsumerGroupHeartbeat",
            {
                "group_id": MEMBERS,
                "member_id": "a-member",
                "member_epoch": 0,
                "rebalance_timeout_ms": TRANSACTION_TIMEOUT_MS,
                "subscribed_topic_names": [THERE],
                "topic_partitions": [],
            },
        )
        await self._until(lambda: self._ask(body, 1), "error_code")

    async def _begin(self) -> None:
        init = message(
            "InitProducerId",
            {"transactional_id": THERE, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, "producer_id": -1},
        )
        producer = await self._until(lambda: self._ask(init, 4), "error_code")
        adding = message(
            "AddPartitionsToTxn",
            {
                "v3_and_below_transactional_id": THERE,
                "v3_and_below_producer_id": producer.producer_id,
                "v3_and_below_producer_epoch": producer.producer_epoch,
                "v3_and_below_topics": [{"name": THERE, "partitions": [0]}, {"name": OTHER, "partitions": [0]}],
            },
        )

        async def add() -> Any:
            return (await self._ask(adding, 3)).results_by_topic_v3_and_below[0].results_by_partition[0]

        await self._until(add, "partition_error_code")

    async def _until(self, ask: Callable[[], Awaitable[Any]], error: str) -> Any:
        """Call `ask` until the field `error` of its answer is NONE; return that answer."""
        for _ in range(TRIES):
            answer = await ask()
            if not getattr(answer, error):
                return answer
            await self._pause()
        raise AssertionError(ErrorCode(getattr(answer, error)).name)
