"""Which of the options that are set mean nothing here, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...storage.topics.options import Option
from .authorization import CLASS_NAME, HANDED_ON
from .options.by_name import BROKER_OPTIONS, PER_LISTENER, find_option

_CHARS_SHOWN = 249
"""As of topics: a name that nobody knows may be as long as a string can be."""


_LIKE = 0.8
"""How like a known name an unknown one is for a slip of the pen: other products have keys of their own in the same file."""


def warnings_of(texts: Mapping[str, str], *, names_the_nearest: bool = False) -> Iterator[str]:
    """One line for each option that is set and means nothing here.

    Args:
        names_the_nearest: Of an unknown one also which it may have been meant for; that takes a millisecond each.
    """
    for name in texts:
        option, shown = find_option(name), name[:_CHARS_SHOWN]
        if name in HANDED_ON:
            if not texts.get(CLASS_NAME):
                yield f"{shown}: has no effect without {CLASS_NAME} at startup, ignored"
        elif option is None:
            near = _nearest(shown) if names_the_nearest else []
            yield f"{shown}: unknown option, ignored" + "".join(f"; did you mean {one}?" for one in near)
        elif not option.acts:
            yield f"{shown}: known to Kafka, but has no effect in Ottla{_reason(option)}"


def _nearest(name: str) -> list[str]:
    from difflib import get_close_matches  # No start shall wait for it.

    return get_close_matches(name, BROKER_OPTIONS, 1, _LIKE)


_OF_EACH_NODE = PER_LISTENER | {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
}
"""Options that nodes of one process may be given different values of while they run."""


def shared_warnings(texts: Mapping[str, str], node_id: int, first: int) -> Iterator[str]:
    """One line for each option that means something, but not where a node other than the `first` is given it alone."""
    for name in texts:
        option = BROKER_OPTIONS.get(name)
        if node_id != first and option is not None and option.acts and name not in _OF_EACH_NODE:
            yield f"node.{node_id}.{name}: stored and shown, but all nodes share the value of node {first}"


def _reason(option: Option) -> str:
    """Why it means nothing, where its declaration says that."""
    _, means_nothing, reason = option.doc.partition("No effect in Ottla")
    return reason.removesuffix(".") if means_nothing else ""
