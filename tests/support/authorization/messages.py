"""Messages from plain values: dictionaries for structs, lists for arrays. A field that is left out has its default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.protocol.apis import APIS, Api
from ottla.protocol.schema import Type, fields_of

BY_NAME: dict[str, Api] = {api.name: api for api in APIS.values()}


def message(api: str, values: Mapping[str, Any]) -> Any:
    """Return the request of an API."""
    return _struct(BY_NAME[api].request, values)


def _struct(cls: type[Any], values: Mapping[str, Any]) -> Any:
    types = {field.name: field.type for field in fields_of(cls)}
    return cls(**{name: _value(types[name], value) for name, value in values.items()})


def _value(type: Type, value: Any) -> Any:
    if value is None:
        return None
    if type.item is not None:
        return tuple(_value(type.item, one) for one in value)
    if type.struct is not None:
        return _struct(type.struct, value)
    return value
