"""Arguments of a fault, and their validation.

A fault has conditions on requests (`api` … `version`, which must all match) and an effect: one of `error`,
`disconnect`, `drop_response` and `corrupt_batch`, with or without `delay_ms`, or only a delay. A disk fault has `disk`
instead. Errors for wrong names suggest the nearest valid one.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias, get_args

from ...protocol.apis import APIS, Api
from ...protocol.errors import ErrorCode
from ..runtime.errors import ControlError, Kind
from .error_fields import ERROR_FIELDS, NameKind, names

Disconnect: TypeAlias = Literal["before", "after"]
DiskTrouble: TypeAlias = Literal["full", "slow", "failed"]

DELAY_MS_MAX = 86_400_000
COUNT_MAX = 2**31 - 1

_ACTIONS = ("error", "disconnect", "drop_response", "corrupt_batch")
_BY_NAME = {
    "topic": NameKind.TOPIC,
    "partition": NameKind.PARTITION,
    "group": NameKind.GROUP,
    "transactional_id": NameKind.TRANSACTIONAL_ID,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Arguments of a fault. Arguments that are None or False are not set."""

    api: str | None = None
    """Match only requests of this API, by its name in the protocol, e.g. "Produce" (default: all APIs)."""
    topic: str | None = None
    """Match only requests for this topic."""
    partition: int | None = None
    """Match only this partition of the topic."""
    group: str | None = None
    """Match only requests for this consumer group."""
    transactional_id: str | None = None
    client_id: str | None = None
    """Match only clients with this `client.id`."""
    node: int | None = None
    """Match only requests to the node with this id."""
    version: int | None = None
    """Match only this version of the API."""
    error: str | None = None
    """Name of a Kafka error, e.g. "NOT_LEADER_OR_FOLLOWER": the broker responds with it instead of executing the request. If the
    fault names a topic or a partition, only that part fails, and the rest of the request is executed."""
    after: bool = False
    """With `error`: execute the request before responding with the error."""
    delay_ms: int = 0
    """Delay in milliseconds before anything else happens to the request, and to later requests on its connection. Then it is
    executed even if its client has given up, as by a slow broker."""
    disconnect: Disconnect | None = None
    """Close the connection without a response, `before` or `after` executing the request."""
    drop_response: bool = False
    """Execute the request, but send no response, and read nothing more from its connection. The connection stays open until the
    client closes it or the fault is removed."""
    corrupt_batch: bool = False
    """Change a byte in the first batch of each partition in a Fetch response, so that its CRC is wrong. Later batches are not
    sent."""
    disk: DiskTrouble | None = None
    """Disk fault instead of a request fault: `full` (writes fail, ENOSPC), `slow` (each operation takes `delay_ms` longer),
    `failed` (all operations fail, EIO). It ends when the broker restarts."""
    data_dir: str | None = None
    """With `disk`: affected data directory, one of `log.dirs` (default: all)."""
    count: int | None = 1
    """Number of requests to affect; None: all, until the fault is removed."""
    skip: int = 0
    """Number of matching requests to let through first."""

    @property
    def required_names(self) -> dict[NameKind, str | int]:
        """Names that a request must contain."""
        return {kind: value for name, kind in _BY_NAME.items() if (value := getattr(self, name)) is not None}

    @property
    def error_code(self) -> ErrorCode:
        """The error code of `error`."""
        return ErrorCode[self.error] if self.error is not None else ErrorCode.NONE

    @property
    def api_key(self) -> int | None:
        return None if self.api is None else _API_BY_NAME[self.api].key


def check(declaration: Declaration) -> None:
    """Raise unless the declaration is valid.

    Raises:
        ControlError: INVALID: it is not.
    """
    for name, default in _SAYS.items():
        value, wanted = getattr(declaration, name), _TYPES.get(name, str)
        if value != default and type(value) is not wanted and not (name == "count" and value is None):
            raise ControlError(Kind.INVALID, f"invalid {name} {value!r:.60}; expected {_WORDS[wanted]}")
    if declaration.disk is None:
        _check_request(declaration)
    else:
        _check_disk(declaration)


_API_BY_NAME = {api.name: api for api in APIS.values()}
_SAYS = {field.name: field.default for field in fields(Declaration)}
_TYPES: dict[str, type] = {
    **dict.fromkeys(("partition", "node", "version", "delay_ms", "count", "skip"), int),
    **dict.fromkeys(("after", "drop_response", "corrupt_batch"), bool),
}
_WORDS = {str: "a string", int: "an integer", bool: "True or False"}


def _check_request(it: Declaration) -> None:
    actions = [name for name in _ACTIONS if getattr(it, name)]
    if not actions and not it.delay_ms:
        raise ControlError(Kind.INVALID, f"a fault requires one of {', '.join(_ACTIONS)}, delay_ms, disk")
    if len(actions) > 1:
        raise ControlError(Kind.INVALID, f"a fault cannot combine {actions[0]} and {actions[1]}; declare two faults")
    if it.data_dir is not None:
        raise ControlError(Kind.INVALID, "data_dir requires disk")
    _check_range("delay_ms", it.delay_ms, 0, DELAY_MS_MAX)
    _check_range("skip", it.skip, 0, COUNT_MAX)
    if it.count is not None:
        _check_range("count", it.count, 1, COUNT_MAX)
    if it.disconnect is not None:
        _one_of("disconnect", it.disconnect, get_args(Disconnect))
    if it.after and it.error is None:
        raise ControlError(
            Kind.INVALID, "after requires error; to close the connection afterwards, use disconnect='after'"
        )
    if it.partition is not None:
        _check_range("partition", it.partition, 0, COUNT_MAX)
        if it.topic is None:
            raise ControlError(Kind.INVALID, f"partition {it.partition} requires topic")
    api = None if it.api is None else _api(it.api)
    _check_names(it, api)
    if it.version is not None:
        if api is None:
            raise ControlError(Kind.INVALID, f"version {it.version} requires api")
        _check_range(f"version of {api.name}", it.version, *api.versions)
    if it.corrupt_batch and it.api not in (None, "Fetch"):
        raise ControlError(Kind.INVALID, f"{it.api} returns no batches; corrupt_batch requires Fetch")
    if it.error is not None:
        if api is None:
            raise ControlError(
                Kind.INVALID, f"error {it.error} requires api: its location in the response depends on the API"
            )
        _one_of("error", it.error, [code.name for code in ErrorCode if code is not ErrorCode.NONE])


def _api(name: str) -> Api:
    _one_of("api", name, [APIS[key].name for key in ERROR_FIELDS])
    return _API_BY_NAME[name]


def _check_names(it: Declaration, api: Api | None) -> None:
    for name, kind in _BY_NAME.items():
        if getattr(it, name) is None:
            continue
        if api is not None and kind not in names(api.key):
            known = [each for each, known in _BY_NAME.items() if known in names(api.key)]
            raise ControlError(
                Kind.INVALID,
                f"{api.name} requests contain no {name.replace('_', ' ')}, but "
                + (f"{' and '.join(each.replace('_', ' ') for each in known)}" if known else "nothing comparable")
                + "; client_id and node apply to every api",
            )
    if api is None and not any(set(it.required_names) <= names(key) for key in ERROR_FIELDS):
        raise ControlError(
            Kind.INVALID,
            f"no request contains {' and '.join(name for name in _BY_NAME if getattr(it, name) is not None)}",
        )


def _check_disk(it: Declaration) -> None:
    assert it.disk is not None
    _one_of("disk", it.disk, get_args(DiskTrouble))
    for name, default in _SAYS.items():
        if name not in ("disk", "data_dir", "delay_ms") and getattr(it, name) != default:
            raise ControlError(
                Kind.INVALID, f"{name} is only for requests; disk {it.disk} lasts until the fault is removed"
            )
    _check_range("delay_ms", it.delay_ms, 0, DELAY_MS_MAX)
    if it.disk == "slow" and not it.delay_ms:
        raise ControlError(Kind.INVALID, "disk slow requires delay_ms, the additional duration of each operation")
    if it.disk != "slow" and it.delay_ms:
        raise ControlError(Kind.INVALID, f"delay_ms requires disk slow, not {it.disk}")


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ControlError(Kind.INVALID, f"invalid {name} {value}; must be from {low} to {high}")


def _one_of(name: str, value: str, allowed: Collection[str]) -> None:
    if value in allowed:
        return
    lowered = {each.lower(): each for each in allowed}
    near = difflib.get_close_matches(value.lower().replace("-", "_"), lowered, n=1, cutoff=0.5)
    if len(allowed) <= 4:
        raise ControlError(Kind.INVALID, f"invalid {name} {value!r:.60}; must be one of: {', '.join(allowed)}")
    raise ControlError(
        Kind.INVALID, f"{name}: {value!r:.60} not found" + (f"; did you mean {lowered[near[0]]!r}?" if near else "")
    )
