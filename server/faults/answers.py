"""Requests without the rows that a fault refuses, and responses with their errors.

Driven by `places`; the classes and their fields come from the messages' schemas. Nothing is changed in place. Each
function reads its arguments once; long ones belong in a worker thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from ...protocol.apis import APIS
from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.schema import fields_of
from ...protocol.wire import as_array
from .error_fields import ERROR_FIELDS, NameKind, Rows, has_code_on_top, rows_in

Wanted = Mapping[NameKind, str | int]
"""Names that a request must contain, by kind; an empty mapping matches every request."""

_SAYS_NOTHING = {
    "base_offset": -1,
    "generation_id": -1,
    "high_watermark": -1,
    "leader_id": -1,
    "low_watermark": -1,
    "committed_offset": -1,
    "node_id": -1,
    "port": -1,
    "producer_epoch": -1,
    "aborted_transactions": None,
    "records": b"",
}
"""Values that Kafka's brokers send with an error, if they differ from the field's default."""
_RESOURCES = {2: NameKind.TOPIC, 32: NameKind.GROUP}
_KEYS = {0: NameKind.GROUP, 1: NameKind.TRANSACTIONAL_ID}


class SplitRequest(NamedTuple):
    """A request that a fault has split."""

    rest: Any
    """The body without the refused rows; None if no row is left to execute."""
    told: Any
    """The response for the refused rows, or for the whole request."""


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request as faults see it.

    Args:
        topic_name: Returns the name of the topic with an ID; None if it does not exist.
        there_is: Returns whether a topic exists, optionally a partition of it.
    """

    request: Request
    topic_name: Callable[[bytes], str | None]
    there_is: Callable[[str, int | None], bool]
    body: Any = field(default=None)
    """The effective body, which differs from the request's own for a Fetch in a session; None: the request's own body."""

    @property
    def present_body(self) -> Any:
        return self.request.body if self.body is None else self.body

    def names(self, wanted: Wanted) -> bool:
        """Return whether one row of the request contains all names in `wanted`. A request for everything does."""
        left = self._missing_names(wanted)
        if left is None or not left:
            return left is not None
        rows = rows_in(self.request.api.key, self.request.version)
        if rows is None or not rows.asked:
            return False
        asked = getattr(self.present_body, rows.asked)
        if not asked:
            return self._asks_for_all(rows) and self._are_there(left)
        return any(self._row_names(rows, row, left) for row in asked)

    def has_place_for(self, wanted: Wanted, code: ErrorCode) -> bool:
        """Return whether the response has a place for an error of what `wanted` names; that of an empty request has none."""
        if self.request.body is None or self.is_on_top(wanted, code):
            return True
        rows = rows_in(self.request.api.key, self.request.version)
        assert rows is not None
        return not rows.asked or bool(getattr(self.present_body, rows.asked)) or self._asks_for_all(rows)

    def is_on_top(self, wanted: Wanted, code: ErrorCode) -> bool:
        """Return whether the error is for the request as a whole."""
        key, version = self.request.api.key, self.request.version
        rows = rows_in(key, version)
        if rows is None:
            return True
        if not has_code_on_top(key, version) or self._missing_names(wanted):
            return False
        if rows.asked and getattr(self.present_body, rows.asked) is None and not ERROR_FIELDS[key].is_overlaid:
            return True
        return code in ERROR_FIELDS[key].on_top

    def _asks_for_all(self, rows: Rows) -> bool:
        if not ERROR_FIELDS[self.request.api.key].is_overlaid:
            return False
        body, version = self.present_body, self.request.version
        # In Metadata 0, and in DescribeTopicPartitions, an empty list means everything.
        by_nothing = self.request.api.name == "DescribeTopicPartitions" or (
            self.request.api.name == "Metadata" and version == 0
        )
        return getattr(body, rows.asked) is None or (by_nothing and not getattr(body, rows.asked))

    def _are_there(self, wanted: Wanted) -> bool:
        topic, partition = wanted.get(NameKind.TOPIC), wanted.get(NameKind.PARTITION)
        assert isinstance(topic, str) and not isinstance(partition, str)
        return self.there_is(topic, partition)

    def _missing_names(self, wanted: Wanted) -> dict[NameKind, str | int] | None:
        """Return the names that the request's own fields do not contain yet; None if they contain other ones."""
        left = dict(wanted)
        flat = ERROR_FIELDS[self.request.api.key].flat
        here = _fields_in(self.request.api.key, self.request.version)
        for kind, name in flat.items():
            if name not in here:
                continue
            if kind is NameKind.COORDINATOR_KEY:
                kind = _KEYS.get(self.present_body.key_type, NameKind.COORDINATOR_KEY)
            if kind in left and left.pop(kind) != getattr(self.present_body, name):
                return None
        return left

    def _row_names(self, rows: Rows, row: Any, wanted: Wanted) -> bool:
        left = self._row_left(rows, row, rows.name, wanted)
        if left is None or not left:
            return left is not None
        if rows.within is None or not rows.within.asked:
            # A request for a topic is for all its partitions.
            return rows.within is not None and set(left) == {NameKind.PARTITION}
        return any(self._row_names(rows.within, each, left) for each in getattr(row, rows.within.asked) or ())

    def _row_left(self, rows: Rows, row: Any, names: Sequence[str], wanted: Wanted) -> Wanted | None:
        """Return the names that the inner rows must contain; None if this row has other names."""
        if not wanted:
            return wanted
        kind, name = rows.kind, row if not names else getattr(row, names[0])
        if kind is NameKind.TOPIC and not name and len(names) > 1:
            name = self.topic_name(getattr(row, names[1]))
        elif kind is NameKind.RESOURCE:
            kind, name = _RESOURCES.get(row.resource_type), row.resource_name
        elif kind is NameKind.COORDINATOR_KEY:
            kind = _KEYS.get(self.present_body.key_type)
        if kind is None or kind not in wanted:
            return wanted
        if wanted[kind] != name:
            return None
        return {each: value for each, value in wanted.items() if each is not kind}

    def split(self, wanted: Wanted, code: ErrorCode, message: str) -> SplitRequest:
        """Return the request without the rows that `wanted` names, and a response that has `code` for only those rows."""
        api, version = self.request.api, self.request.version
        if self.is_on_top(wanted, code):
            return SplitRequest(None, self._refuse_whole(code, message))
        rows, left = rows_in(api.key, version), self._missing_names(wanted)
        assert rows is not None and left is not None
        making = _Making(self, version, code, message)
        response: type[Any] = api.response
        rest, told = making.split(
            rows, response, getattr(self.present_body, rows.asked) or () if rows.asked else (), left
        )
        if rest and ERROR_FIELDS[api.key].is_all_or_nothing:
            others = _Making(self, version, ErrorCode.OPERATION_NOT_ATTEMPTED, "")
            _, untried = others.split(rows, response, rest, {})
            told, rest = others.merged(rows, told, untried), []
        answer = response(**{rows.told: as_array(told)})
        return SplitRequest(replace(self.present_body, **{rows.asked: as_array(rest)}) if rest else None, answer)

    def merged(self, carried_out: Any, told: Any) -> Any:
        """Return the response to the executed rest of the request, merged with that to the refused rows."""
        rows = rows_in(self.request.api.key, self.request.version)
        assert rows is not None
        making = _Making(self, self.request.version, ErrorCode.NONE, "")
        both = making.merged(rows, getattr(carried_out, rows.told), getattr(told, rows.told))
        return replace(carried_out, **{rows.told: as_array(both)})

    def overlaid(self, answer: Any, wanted: Wanted, code: ErrorCode, message: str) -> Any:
        """Return the response to the whole request, with `code` for the rows that `wanted` names."""
        api, version = self.request.api, self.request.version
        if self.is_on_top(wanted, code):
            return self._refuse_whole(code, message)
        rows, left = rows_in(api.key, version), self._missing_names(wanted)
        assert rows is not None and left is not None
        making = _Making(self, version, code, message)
        return replace(answer, **{rows.told: as_array(making.overlaid(rows, getattr(answer, rows.told), left))})

    def _refuse_whole(self, code: ErrorCode, message: str) -> Any:
        response, places = self.request.api.response, ERROR_FIELDS[self.request.api.key]
        echoed = {name: getattr(self.present_body, name) for name in places.echoed}
        return _refusal(response, self.request.version, "error_code", code, message, echoed)


@dataclass(frozen=True, slots=True)
class _Making:
    """Maker of response rows that have one error code."""

    asked: RequestView
    version: int
    code: ErrorCode
    message: str

    def split(self, rows: Rows, parent: Any, items: Sequence[Any], wanted: Wanted) -> tuple[list[Any], list[Any]]:
        """Return the rows that are not refused, and the responses to those that are.

        `parent`: the message that contains them.
        """
        cls: Any = _class_of(parent, rows.told)
        rest: list[Any] = []
        told: list[Any] = []
        for item in items:
            left = self.asked._row_left(rows, item, rows.name, wanted)
            if left is None or (left and (rows.within is None or not rows.within.asked)):
                rest.append(item)
                continue
            named = [getattr(item, n) for n in rows.name] if rows.name else [item] * len(rows.told_name)
            names = dict(zip(rows.told_name, named, strict=True))
            if not left and self._has_error_field(rows):
                told.append(_refusal(cls, self.version, rows.code, self.code, self.message, names))
                continue
            assert rows.within is not None
            rest_within, told_within = self.split(rows.within, cls, getattr(item, rows.within.asked) or (), left)
            if told_within or not left:
                told.append(cls(**names, **{rows.within.told: as_array(told_within)}))
                if rest_within:
                    rest.append(replace(item, **{rows.within.asked: as_array(rest_within)}))
            else:
                rest.append(item)
        return rest, told

    def overlaid(self, rows: Rows, items: Sequence[Any], wanted: Wanted) -> list[Any]:
        """Return the rows of a response, with errors in place of those that `wanted` names."""
        made = []
        for item in items:
            left = self.asked._row_left(rows, item, rows.told_name, wanted)
            if left is None or (left and rows.within is None):
                made.append(item)
            elif not left and self._has_error_field(rows):
                kept = {name: getattr(item, name) for name in (*rows.told_name, *rows.kept)}
                made.append(_refusal(type(item), self.version, rows.code, self.code, self.message, kept))
            else:
                assert rows.within is not None
                within = self.overlaid(rows.within, getattr(item, rows.within.told), left)
                made.append(replace(item, **{rows.within.told: as_array(within)}))
        return made

    def merged(self, rows: Rows, items: Sequence[Any], more: Sequence[Any]) -> list[Any]:
        """Merge rows; of a row that is in both, merge the inner rows."""
        made = list(items)
        at = {tuple(getattr(item, name) for name in rows.told_name): n for n, item in enumerate(made)}
        for item in more:
            n = at.get(tuple(getattr(item, name) for name in rows.told_name))
            if n is None:
                made.append(item)
            elif rows.within is not None:
                within = self.merged(rows.within, getattr(made[n], rows.within.told), getattr(item, rows.within.told))
                made[n] = replace(made[n], **{rows.within.told: as_array(within)})
        return made

    def _has_error_field(self, rows: Rows) -> bool:
        return rows.within is None or (bool(rows.code) and self.code not in rows.deeper)


def _refusal(
    cls: type[Any], version: int, code_field: str, code: ErrorCode, message: str, known: Mapping[str, Any]
) -> Any:
    """Return a message with the error code, the fields in `known`, and no other values."""
    here = {each.name: each for each in fields_of(cls)}
    nothing: dict[str, Any] = {name: value for name, value in _SAYS_NOTHING.items() if name in here}
    if "error_message" in here and here["error_message"].is_nullable_in(version):
        nothing["error_message"] = message
    return cls(**(nothing | dict(known) | {code_field: code}))


@cache
def _class_of(parent: type[Any], array: str) -> type[Any]:
    """Return the class of the rows of an array of structs."""
    (found,) = (each for each in fields_of(parent) if each.name == array)
    assert found.type.item is not None and found.type.item.struct is not None
    return found.type.item.struct


@cache
def _fields_in(key: int, version: int) -> frozenset[str]:
    return frozenset(each.name for each in fields_of(APIS[key].request) if each.exists_in(version))
