"""Users that a start is told of in short, and the options that they stand for: `--user alice:secret`, `Broker(users=…)`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ....protocol.scram import HASHES
from ....storage.topics.options import ConfigError
from ..listeners import SASL_PLAINTEXT, SASL_SSL
from .mechanisms import PLAIN, PLAIN_MODULE

WITH_PASSWORDS = (PLAIN, *HASHES)
"""Mechanisms by which a user of a start logs in, by all of them unless one is named."""

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True, slots=True)
class User:
    """Who may log in, and how."""

    name: str
    password: str = field(repr=False)
    mechanisms: tuple[str, ...] = WITH_PASSWORDS


def parse_user(text: str) -> User:
    """`NAME:PASSWORD[:MECHANISM]`; the password may have colons.

    Raises:
        ConfigError: One is empty, or the mechanism is none. Names no password.
    """
    name, colon, password = text.partition(":")
    if not colon:
        raise ConfigError("Invalid value for --user: must be NAME:PASSWORD[:MECHANISM]")
    rest, colon, mechanism = password.rpartition(":")
    if colon and mechanism.upper().startswith((PLAIN, "SCRAM", "GSSAPI", "OAUTHBEARER")):
        return user_of("--user", name, rest, mechanism)
    return user_of("--user", name, password)


def user_of(option: str, name: str, password: str, mechanism: str | None = None) -> User:
    """A user that logs in by one mechanism, or by any of WITH_PASSWORDS. ConfigError as `parse_user`, naming `option`."""
    if not name or not password:
        raise ConfigError(f"Invalid value for {option}: must have a name and a password")
    if mechanism is not None and mechanism not in WITH_PASSWORDS:
        near = difflib.get_close_matches(mechanism.upper(), WITH_PASSWORDS, 1)
        raise ConfigError(
            f"Invalid value for {option}: the mechanism must be one of: {', '.join(WITH_PASSWORDS)}"
            + (f"; did you mean {near[0]}?" if near else "")
        )
    found = User(name, password) if mechanism is None else User(name, password, (mechanism,))
    if not all(0 < ord(character) < 0x80 for character in name) and found.mechanisms != (PLAIN,):
        raise ConfigError(
            f"Invalid value {name!r} for {option}: SCRAM user names must be ASCII; use the mechanism {PLAIN}"
        )
    if any(each == "\0" or "\ud800" <= each <= "\udfff" for each in name + password):
        raise ConfigError(f"Invalid value for {option}: must be valid Unicode without NUL characters")
    return found


def options_for(users: Sequence[User]) -> dict[str, str]:
    """The broker options by which they log in, at every listener that takes logins and has none of its own."""
    if not users:
        return {}
    mechanisms = dict.fromkeys(each for user in users for each in user.mechanisms)
    options = {"sasl.enabled.mechanisms": ",".join(each for each in WITH_PASSWORDS if each in mechanisms)}
    plain = [user for user in users if PLAIN in user.mechanisms]
    if plain:
        entries = (f'"user_{quoted(user.name)}"="{quoted(user.password)}"' for user in plain)
        options["sasl.jaas.config"] = f"{PLAIN_MODULE} required {' '.join(entries)};"
    return options


def protocol_for(users: Iterable[User], *, over_tls: bool = False) -> str | None:
    """The security protocol of a listener that is told nothing else; None: as it would be without users."""
    if not any(True for _ in users):
        return None
    return SASL_SSL if over_tls else SASL_PLAINTEXT


def quoted(text: str) -> str:
    """As it stands between quotes in a line of JAAS."""
    return text.translate(_ESCAPES)
