"""Compaction, rolls and retention of an embedded broker, on demand; and why partitions are as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import operations
from .operation_method import OperationMethod
from .running import Running

if TYPE_CHECKING:
    from ..control.explain import KeyExplanation


class Compacting(Running):
    """Methods of `ottla.Broker`. Each raises `ControlError`, with one line, where it is refused."""

    compact = OperationMethod(lambda: operations.compaction.compact)
    wait_until_compacted = OperationMethod(lambda: operations.compaction.wait_until_compacted)
    roll = OperationMethod(lambda: operations.segments.roll)
    apply_retention = OperationMethod(lambda: operations.segments.apply_retention)

    explain = OperationMethod(lambda: operations.explain.explain)
    picture = OperationMethod(lambda: operations.pictures.topic_picture)
    dry_run = OperationMethod(lambda: operations.dry_run.dry_run)

    def explain_key(
        self, topic: str, key: str | bytes, *, partition: int | None = None, records_max: int = 1_000
    ) -> KeyExplanation:
        """The history of one key: each record, what took its place, and what the next pass makes of it.

        Args:
            key: A text is taken as UTF-8.
            partition: None: where clients put the key (murmur2).
            records_max: So many records are told, the newest.

        Raises:
            ControlError: There is no such topic or partition.
        """
        found = key.encode() if isinstance(key, str) else key
        return self._ask(operations.explain.explain_key, topic, found, partition=partition, records_max=records_max)

    def _repr_html_(self) -> str:
        """For notebooks: the logs of clients' topics, drawn; compacted ones first. What does not run is a line."""
        from html import escape

        if self.state != "serving":
            return f"<code>{escape(repr(self))}</code>"
        from ...storage.pictures.page import fragment

        return fragment(repr(self), self._ask(operations.pictures.all_pictures))
