"""How a request to a coordinator is carried out: where its key belongs is looked up and checked once, then comes the step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ...protocol.errors import KafkaError
from ..coordination.jobs import Job, Steps
from ..coordination.service import CoordinatorService
from ..coordination.shard import Shard
from ..network.desk import finished
from ..runtime.time_slices import run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check_without_words

NAMES_AT_ONCE = 20
"""Names of topics that are looked at in one piece: ten microseconds each, with the question whether the client may know of them. Of
more each is a piece."""

S = TypeVar("S", bound=Shard)
Done = TypeVar("Done")


class CoordinatorCall(NamedTuple, Generic[S, Done]):
    """A request to a coordinator, and how it is carried out.

    Attributes:
        work: Given the shard of `key`, which this node leads; it may not be ACTIVE.
        refused: Makes the answer of any KafkaError.
        before: Looks at the request before all else, and may raise KafkaError.
        after: Makes of what the work has returned the answer, or a coroutine that returns it; None: it is the answer.
        settles: Whether the answer waits until what it tells is on disk.
    """

    ctx: Context
    service: CoordinatorService[Any, S]
    key: str
    work: Callable[[S], Steps[Done]]
    refused: Callable[[KafkaError], Any]
    before: Callable[[], Job] | None = None
    after: Callable[[Done], Any] | None = None
    settles: bool = True

    def carry_out(self) -> Any:
        """What a handler returns: the answer, or a coroutine where something is to be waited for (the topic, further pieces, the
        disk)."""
        before = None if self.before is None else self.before()
        try:
            for _ in before or ():
                return self._when_there(before)
            if not self.service.coordinator.shards:
                return self._when_there(before)
            shard = self.service.shard_led(self.ctx.node, self.key)
            steps = self.work(shard)
            try:
                next(steps)
            except StopIteration as end:
                done = end.value
            else:
                return self._rest(shard, steps)
            if self.settles and not self.service.is_settled(shard):
                return self._settled(shard, done)
            return done if self.after is None else self.after(done)
        except KafkaError as error:
            return self.refused(error)

    async def _when_there(self, before: Job | None) -> Any:
        try:
            if before is not None:
                await run_cooperatively(before, self.ctx.time_slice)
            shard = await self.service.route(self.ctx.node, self.key)
        except KafkaError as error:
            return self.refused(error)
        return await self._rest(shard, self.work(shard))

    async def _rest(self, shard: S, steps: Steps[Done]) -> Any:
        try:
            done = await run_cooperatively(steps, self.ctx.time_slice)
        except KafkaError as error:
            return self.refused(error)
        return await self._settled(shard, done)

    async def _settled(self, shard: S, done: Done) -> Any:
        try:
            if self.settles:
                await self.service.settle(shard)
        except KafkaError as error:
            return self.refused(error)
        return done if self.after is None else await finished(self.after(done))


def check_topics(ctx: Context, names: Sequence[str]) -> Job:
    """Raise TOPIC_AUTHORIZATION_FAILED unless the client may describe all topics that it names."""
    for name in names:
        check_without_words(ctx, AclOperation.DESCRIBE, ResourceType.TOPIC, name)
        if len(names) > NAMES_AT_ONCE:
            yield
