"""Random values and views of messages, all derived from the message classes' annotations, and the versions to be tested."""

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol.apis import Api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Field, Type, fields_of
from support.noted import noted
from support.sizes import FULL

_RANGES = {"b": 8, "h": 16, "i": 32, "q": 64}
_UNSIGNED_RANGES = {"H": 16, "I": 32}

# 127 bytes and more need a second byte of length in compact encoding.
_LONG_TEXT = "ü" * 64
_LONG_BYTES = {"bytes": bytes(range(130)), "records": bytes(range(256)) * 2}
_ERROR_CODES = tuple(range(-1, ErrorCode.SHARE_SESSION_LIMIT_REACHED + 1))
"""The codes that the other implementations know: those of Apache Kafka 4.3."""


def _limits(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def _integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = _limits(bits, signed)
    return st.sampled_from((0, 1, low, high) + ((-1,) if signed else ())) | st.integers(low, high)


def _values(type: Type) -> st.SearchStrategy[Any]:
    if type.name in _RANGES:
        return _integers(_RANGES[type.name], signed=True)
    if type.name in _UNSIGNED_RANGES:
        return _integers(_UNSIGNED_RANGES[type.name], signed=False)
    if type.item is not None:
        return st.lists(_values(type.item), max_size=3).map(tuple)
    if type.struct is not None:
        return messages(type.struct)
    return {
        "?": st.booleans(),
        "d": st.floats(allow_nan=False),
        "16s": st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
        "string": st.text(max_size=6) | st.just(_LONG_TEXT),
        "bytes": st.binary(max_size=6) | st.just(_LONG_BYTES["bytes"]),
        "records": st.binary(max_size=6) | st.just(_LONG_BYTES["records"]),
    }[type.name]


def _field_values(field: Field) -> st.SearchStrategy[Any]:
    if field.name.endswith("error_code"):
        return st.sampled_from(_ERROR_CODES)
    values = _values(field.type)
    if field.type.name == "q" and field.name.endswith("time_ms"):
        # kio represents these as dates or durations, which end in the year 9999, and accepts -1 where it is the default.
        values = st.integers(min(field.default, 0), 1 << 42)
    if field.nullable_from is not None:
        values = st.none() | values
    # Tagged fields behave differently at their default, so that case must be frequent.
    return values if field.tag is None else st.just(field.default) | values


_MESSAGES: dict[type[Any], st.SearchStrategy[Any]] = {}


def messages(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Return values of a message class with the fields of every version set; `as_of` reduces them to one version."""
    if cls not in _MESSAGES:
        _MESSAGES[cls] = st.builds(cls, **{field.name: _field_values(field) for field in fields_of(cls)})
    return _MESSAGES[cls]


def with_messages(classes: tuple[type[Any], ...], count: int, check: Callable[..., None]) -> None:
    """Call `check` with a random message of each class, `count` times.

    In full runs Hypothesis chooses them, and looks for the smallest that fails. A short run has the same messages each time, of
    the same kinds: choosing them with Hypothesis takes five times as long as checking them.
    """
    if FULL:
        each = st.tuples(*map(messages, classes))

        @settings(max_examples=count, suppress_health_check=[HealthCheck.too_slow])
        @given(each)
        def explore(chosen: tuple[Any, ...]) -> None:
            check(*chosen)

        explore()
        return
    for number in range(count):
        dice = random.Random(f"{classes} {number}")
        with noted(f"messages {number}"):
            check(*(random_message(cls, dice) for cls in classes))


def random_message(cls: type[Any], dice: random.Random) -> Any:
    """Return a random message, like those of `messages`."""
    return cls(**{field.name: _random_field(field, dice) for field in fields_of(cls)})


def _random_field(field: Field, dice: random.Random) -> Any:
    if field.tag is not None and dice.random() < 0.5:
        return field.default
    if field.nullable_from is not None and dice.random() < 0.3:
        return None
    if field.name.endswith("error_code"):
        return dice.choice(_ERROR_CODES)
    if field.type.name == "q" and field.name.endswith("time_ms"):
        return dice.randint(min(field.default, 0), 1 << 42)
    return _random_value(field.type, dice)


def _random_value(type: Type, dice: random.Random) -> Any:
    if type.item is not None:
        return tuple([_random_value(type.item, dice) for _ in range(dice.randrange(4))])
    if type.struct is not None:
        return random_message(type.struct, dice)
    if type.name in _RANGES:
        low, high = _limits(_RANGES[type.name], signed=True)
        return dice.choice((0, 1, -1, low, high, dice.randint(low, high)))
    if type.name in _UNSIGNED_RANGES:
        low, high = _limits(_UNSIGNED_RANGES[type.name], signed=False)
        return dice.choice((0, 1, high, dice.randint(low, high)))
    match type.name:
        case "?":
            return dice.random() < 0.5
        case "d":
            return dice.choice((0.0, -1.5, float("inf"), dice.uniform(-1e300, 1e300)))
        case "16s":
            return dice.choice((bytes(16), dice.randbytes(16)))
        case "string":
            return dice.choice((_LONG_TEXT, "".join(dice.choices("aZ0 .\0\nß漢\U0001f600", k=dice.randrange(7)))))
        case "bytes" | "records":
            return dice.choice((_LONG_BYTES[type.name], dice.randbytes(dice.randrange(7))))
    raise LookupError(type.name)


def as_of(value: Any, version: int) -> Any:
    """Return a message as a reader of this version sees it: fields of other versions at their defaults, no forbidden null."""
    return _changed(value, version, lambda field, was: was if field.exists_in(version) else field.default)


def as_kafka_knows(value: Any, version: int) -> Any:
    """Return the message as other implementations read it, which do not know Ottla's own fields."""
    known = as_of(value, version)
    return _changed(known, version, lambda field, was: field.default if field.is_private else was)


def without_forbidden_nulls(value: Any, version: int) -> Any:
    """Return a message that can be written in this version; it may set fields that only other versions have."""
    return _changed(value, version, lambda field, was: was)


def _changed(value: Any, version: int, choose: Callable[[Field, Any], Any]) -> Any:
    cls: Any = type(value)
    if isinstance(value, tuple):
        return tuple(_changed(one, version, choose) for one in value)
    if not dataclasses.is_dataclass(value):
        return value
    changed = {}
    for field in fields_of(cls):
        one = choose(field, getattr(value, field.name))
        if one is None and field.exists_in(version) and not field.is_nullable_in(version):
            one = () if field.type.item else "" if field.type.name == "string" else b""
        changed[field.name] = _changed(one, version, choose)
    return cls(**changed)


def sample(cls: type[Any], counter: Iterator[int] | None = None) -> Any:
    """Return one fixed value with every field set, numbers all different and arrays of two."""
    numbers = itertools.count(1) if counter is None else counter
    return cls(**{field.name: _sample(field.type, numbers) for field in fields_of(cls)})


def _sample(type: Type, numbers: Iterator[int]) -> Any:
    if type.item is not None:
        return (_sample(type.item, numbers), _sample(type.item, numbers))
    if type.struct is not None:
        return sample(type.struct, numbers)
    n = next(numbers)
    return {
        "?": True,
        "d": n + 0.5,
        "16s": bytes([n % 256]) * 16,
        "string": f"text {n}",
        "bytes": b"bytes %d" % n,
        "records": b"records %d" % n,
    }.get(type.name, n % 127)


def same(ours: Any, theirs: Any) -> bool:
    """Compare, including records: a view as read equals the bytes as written."""
    if dataclasses.is_dataclass(ours):
        return type(ours) is type(theirs) and all(
            same(getattr(ours, field.name), getattr(theirs, field.name)) for field in fields_of(type(ours))
        )
    if isinstance(ours, tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float):  # NaN equals nothing
        return repr(ours) == repr(theirs)
    return bool(ours == theirs)


def all_versions(api: Api) -> range:
    """Return all versions, including the unstable ones."""
    return range(api.versions[0], (api.unstable or api.versions[1]) + 1)


def seen_versions(api: Api, versions: range) -> list[int]:
    """Return these versions; in a short run only the first, the last and the first flexible one.

    Each version's reader and writer has to be generated first, which takes longer than most checks.
    """
    flexible = next((version for version in versions if api.is_flexible(version)), versions[-1])
    return list(versions) if FULL else sorted({versions[0], flexible, versions[-1]})
