"""Names of subjects and their contexts.

orders-value             subject of the default context
:.:orders-value          the same
:.staging:orders-value   subject of the context `.staging`; its ids are its own
:.staging:               all of a context, e.g. for its compatibility level
:*:                      all subjects of all contexts, as a prefix of names
"""

from __future__ import annotations

from .errors import invalid_subject

DEFAULT_CONTEXT = "."
SUBJECT_CHARACTERS_MAX = 1024
EVERYTHING = ":*:"


def context_of(subject: str) -> str:
    """Return the context of a normalized name."""
    if subject.startswith(":."):
        context, separator, _ = subject[1:].partition(":")
        if separator:
            return context
    return DEFAULT_CONTEXT


def prefix_of(context: str) -> str:
    """Return the prefix of the names of a context's subjects, which also names the context itself."""
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def bare_name(subject: str) -> str:
    """Return the name without its context; empty for a context itself."""
    return subject[len(prefix_of(context_of(subject))) :]


def qualified(subject: str, context: str) -> str:
    """Return the normal form of a name; `context` is that of a name without one."""
    if subject.startswith(":.:"):
        return subject[3:]
    if subject.startswith(":.") and ":" in subject[2:]:
        return subject
    return prefix_of(context) + subject


def normalized(subject: str, context: str = DEFAULT_CONTEXT) -> str:
    """Return the normal form of a name that a client sent.

    Raises:
        RegistryError: 42208: it is empty or too long, contains control characters, or means all subjects.
    """
    if (
        subject.startswith(EVERYTHING)
        or not subject
        or len(subject) > SUBJECT_CHARACTERS_MAX
        or not subject.isprintable()
    ):
        raise invalid_subject(subject)
    return qualified(subject, context)


def context_named(name: str) -> str:
    """Return a context as a path has it: with or without its dot, and with or without colons."""
    name = name.strip(":")
    return name if name.startswith(".") else f".{name}"
