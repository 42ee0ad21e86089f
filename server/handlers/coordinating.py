"""Execution of a request to a coordinator: its key's shard is looked up and checked once, then the coordinator does its
step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ...protocol.errors import KafkaError
from ..coordination.jobs import Job, Steps
from ..coordination.service import CoordinatorService
from ..coordination.shard import Shard
from ..network.dispatcher import finished
from ..runtime.time_slices import run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check_without_words

NAMES_AT_ONCE = 20
"""Topic names that are checked in one step: ten microseconds each, with the check of permissions. Of more names each is a
step."""

S = TypeVar("S", bound=Shard)
Done = TypeVar("Done")


class CoordinatorCall(NamedTuple, Generic[S, Done]):
    """A request to a coordinator, with the functions that handle it.

    Attributes:
        work: Does the step on the shard of `key`, which this node leads; the shard may not be ACTIVE.
        refused: Makes the response for a KafkaError, or a coroutine that returns it.
        before: Checks the request first, and may raise KafkaError.
        after: Makes the response of the result of the work, or a coroutine that returns it; None: the result is the response.
        settles: Whether the response waits until the state that it reports is on disk.
    """

    ctx: Context
    service: CoordinatorService[Any, S]
    key: str
    work: Callable[[S], Steps[Done]]
    refused: Callable[[KafkaError], Any]
    before: Callable[[], Job] | None = None
    after: Callable[[Done], Any] | None = None
    settles: bool = True

    def run(self) -> Any:
        """Handle the request: return the response, or a coroutine if it has to wait (for the topic, further steps, or the
        disk)."""
        before = None if self.before is None else self.before()
        try:
            for _ in before or ():
                return self._run_once_ready(before)
            if not self.service.coordinator.shards:
                return self._run_once_ready(before)
            shard = self.service.shard_led(self.ctx.node, self.key)
            steps = self.work(shard)
            try:
                next(steps)
            except StopIteration as end:
                done = end.value
            else:
                return self._continue(shard, steps)
            if self.settles and not self.service.is_settled(shard):
                return self._settled(shard, done)
            return done if self.after is None else self.after(done)
        except KafkaError as error:
            return self.refused(error)

    async def _run_once_ready(self, before: Job | None) -> Any:
        try:
            if before is not None:
                await run_cooperatively(before, self.ctx.time_slice)
            shard = await self.service.route(self.ctx.node, self.key)
        except KafkaError as error:
            return await finished(self.refused(error))
        return await self._continue(shard, self.work(shard))

    async def _continue(self, shard: S, steps: Steps[Done]) -> Any:
        try:
            done = await run_cooperatively(steps, self.ctx.time_slice)
        except KafkaError as error:
            return await finished(self.refused(error))
        return await self._settled(shard, done)

    async def _settled(self, shard: S, done: Done) -> Any:
        try:
            if self.settles:
                await self.service.settle(shard)
        except KafkaError as error:
            return await finished(self.refused(error))
        return done if self.after is None else await finished(self.after(done))


def check_topics(ctx: Context, names: Sequence[str]) -> Job:
    """Raise TOPIC_AUTHORIZATION_FAILED unless the client may describe all topics in `names`."""
    for name in names:
        check_without_words(ctx, AclOperation.DESCRIBE, ResourceType.TOPIC, name)
        if len(names) > NAMES_AT_ONCE:
            yield
