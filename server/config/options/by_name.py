"""Every broker option of Apache Kafka 4.3.1 by its name, and as an option of one listener."""

from __future__ import annotations

from functools import lru_cache

from ....storage.topics.options import Option
from .broker_options import ACTED_ON, topic_default_options
from .known_options import known_options
from .quota_options import PER_LISTENER as QUOTAS_PER_LISTENER
from .security_options import PER_LISTENER as SECURITY_PER_LISTENER

BROKER_OPTIONS: dict[str, Option] = dict(
    sorted((ACTED_ON | {option.name: option for option in topic_default_options()} | known_options()).items())
)
"""Every broker option of Apache Kafka 4.3.1, by name."""

PER_LISTENER = SECURITY_PER_LISTENER | QUOTAS_PER_LISTENER
"""Options that one listener may have another value of."""

LISTENER_PREFIX = "listener.name."
"""What the name of an option for one listener begins with; the listener's name in lower case follows."""


def find_option(name: str) -> Option | None:
    """The broker option of this name; `listener.name.NAME.OPTION` is OPTION for one listener. None if unknown."""
    found = BROKER_OPTIONS.get(name)
    if found is None and name.startswith(LISTENER_PREFIX):
        return _of_one_listener(name)
    return found


def is_secret(name: str) -> bool:
    """Whether nobody is to be shown the value: nor that of a name that nobody knows, which may be a plug-in's password."""
    option = find_option(name)
    return option is None or option.is_sensitive


# A broker may have a thousand of them, each of which is looked up again and again with every change.
@lru_cache(maxsize=1_024)
def _of_one_listener(name: str) -> Option | None:
    _, _, base = name.removeprefix(LISTENER_PREFIX).partition(".")
    for candidate in (base, base.partition(".")[2]):  # some are prefixed with a SASL mechanism as well
        if candidate in BROKER_OPTIONS:
            option = BROKER_OPTIONS[candidate]
            return option._replace(name=name, acts=option.acts and candidate in PER_LISTENER)
    return None
