"""Why partitions are as they are, asked of a broker in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .running import Running

if TYPE_CHECKING:  # what only some need is loaded by them
    from ..control.dry_run import DryRun
    from ..control.explain import Explanation, KeyExplanation
    from ..control.pictures import TopicPicture


class Explaining(Running):
    """Questions; none of them changes anything."""

    def explain(self, topic: str, partition: int | None = None) -> Explanation:
        """Why each partition of a topic, or one, is or is not eligible for the cleaner, when it will be, and by what.

        Print it: it is a text to be read.

        Raises:
            ControlError: There is no such topic or partition; the message names the nearest.
        """
        from ..control.explain import explain

        return self._ask(explain, topic, partition)

    def picture(self, topic: str, partition: int | None = None) -> TopicPicture:
        """What the logs of a topic look like to the cleaner: segments, offsets that mean something, passes. In a notebook it is drawn.

        Raises:
            ControlError: There is no such topic or partition; the message names the nearest.
        """
        from ..control.pictures import topic_picture

        return self._ask(topic_picture, topic, partition)

    def _repr_html_(self) -> str:
        """For notebooks: the logs of clients' topics, drawn; compacted ones first. What does not run is a line."""
        from html import escape

        if self.state != "serving":
            return f"<code>{escape(repr(self))}</code>"
        from ...storage.pictures.page import fragment
        from ..control.pictures import all_pictures

        return fragment(repr(self), self._ask(all_pictures))

    def dry_run(
        self, topic: str, partition: int | None = None, *, force: bool = False, records_max: int = 100
    ) -> DryRun:
        """What a pass of the cleaner would take out of each partition now, due or not. Nothing is written.

        Args:
            force: As `compact(topic, force=True)` would, which ends the active segment first.
            records_max: So many removals are listed for each partition.

        Raises:
            ControlError: There is no such topic or partition, it is not compacted, or somebody has it.
        """
        from ..control.dry_run import dry_run

        return self._ask(dry_run, topic, partition, force=force, records_max=records_max)

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
        from ..control.explain import explain_key

        found = key.encode() if isinstance(key, str) else key
        return self._ask(explain_key, topic, found, partition=partition, records_max=records_max)
