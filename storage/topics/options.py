"""Configuration options: name, type, default, check and doc of each, and how its text is parsed and written.

Used by the topic options (`config.py`) and by the server's broker options. An option is declared once, as a
dataclass field made by `option()`; parsing, validation, DescribeConfigs, the command line and the documentation all
read that declaration. Values are texts on the wire and in files, and Python values inside:

    BOOLEAN bool    INT, SHORT, LONG int    DOUBLE float    STRING, CLASS, PASSWORD str    LIST tuple[str, ...]
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

Value = bool | int | float | str | tuple[str, ...] | None

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


class ConfigError(ValueError):
    """An invalid value of an option. The text has the value, the option and the bound."""


class OptionType(IntEnum):
    """Types of option values, numbered as DescribeConfigs sends them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(IntEnum):
    """Ways in which an option may change while the broker runs."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


class Check(NamedTuple):
    """A bound on a value: `accepts(value)` tests it, `bound` states it for error texts and tables."""

    bound: str
    accepts: Callable[[Any], bool]


def at_least(minimum: float) -> Check:
    return Check(f"Value must be at least {minimum}", lambda value: value >= minimum)


def between(minimum: float, maximum: float) -> Check:
    return Check(f"must be between {minimum} and {maximum}", lambda value: minimum <= value <= maximum)


def one_of(*allowed: str) -> Check:
    return Check(f"must be one of: {', '.join(allowed)}", lambda value: value in allowed)


def items_of(*allowed: str) -> Check:
    """Return a check for lists: every item is one of `allowed`; the list may be empty."""
    return Check(
        f"each item must be one of: {', '.join(allowed)}", lambda value: all(item in allowed for item in value)
    )


class Synonym(NamedTuple):
    """A broker option that is the default of a topic option. `factor` converts its unit into the topic option's."""

    name: str
    factor: int = 1


class Option(NamedTuple):
    """One option. `default` is a Python value; `synonyms` are broker options, highest precedence first.

    `acts` is False for options that are accepted, stored and shown without any effect. A `hidden` option works, but is
    left out of listings unless it is set.
    """

    name: str
    type: OptionType
    default: Value
    check: Check | None = None
    doc: str = ""
    update: UpdateMode = UpdateMode.CLUSTER_WIDE
    synonyms: tuple[Synonym, ...] = ()
    acts: bool = True
    hidden: bool = False

    @property
    def attribute(self) -> str:
        """The name as a Python attribute: segment.bytes -> segment_bytes."""
        return self.name.replace(".", "_")

    @property
    def is_sensitive(self) -> bool:
        return self.type is OptionType.PASSWORD

    def parse(self, text: str) -> Value:
        """Parse a value. ConfigError when the type or the check refuses it."""
        value = self._convert(text)
        self.validate(value)
        return value

    def validate(self, value: Value) -> None:
        """Check a value of the option's type. ConfigError when the check refuses it. None passes."""
        if self.check is not None and value is not None and not self.check.accepts(value):
            raise self.error(format_value(value), self.check.bound)

    def error(self, shown: str, bound: str) -> ConfigError:
        if self.is_sensitive:
            shown = "[hidden]"
        elif len(shown) > _SHOWN_CHARACTERS_MAX:
            shown = f"{shown[:_SHOWN_CHARACTERS_MAX]}…"
        return ConfigError(f"Invalid value {shown} for configuration {self.name}: {bound}")

    def _convert(self, text: str) -> Value:
        text = text.strip(_SPACE)
        match self.type:
            case OptionType.BOOLEAN:
                if text.lower() not in ("true", "false"):
                    raise self.error(text, "must be true or false")
                return text.lower() == "true"
            case OptionType.INT | OptionType.SHORT | OptionType.LONG:
                bits = _BITS[self.type]
                # Longer texts are out of range anyway, and parsing them would take quadratic time.
                if not _INTEGER.fullmatch(text) or len(text) > 64:
                    raise self.error(text, f"Not a number of type {self.type.name}")
                number = int(text)
                if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
                    raise self.error(text, f"Not a number of type {self.type.name}")
                return number
            case OptionType.DOUBLE:
                if not _DECIMAL.fullmatch(text) or math.isinf(float(text)):
                    raise self.error(text, "must be a number of type DOUBLE")
                return float(text)
            case OptionType.LIST:
                # Not by a pattern that includes the white space: it would take quadratic time.
                items = [item.strip(_AROUND_COMMAS) for item in text.split(",")] if text else []
                if "" in items:
                    raise self.error(text, "must not contain empty items")
                return tuple(dict.fromkeys(items))
            case _:
                return text


# Characters that Java's String.trim removes: all up to and including the space.
_SPACE = "".join(map(chr, range(0x21)))
_AROUND_COMMAS = " \t\n\x0b\f\r"
_INTEGER = re.compile(r"[+-]?[0-9]+")
# The pattern matches a run of digits in only one way: with two ways, a text that does not match takes quadratic time.
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SHOWN_CHARACTERS_MAX = 200
_BITS = {OptionType.INT: 32, OptionType.SHORT: 16, OptionType.LONG: 64}


def format_value(value: Value) -> str:
    """Return the text of a value as Kafka writes it; empty for None."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return _format_double(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def _format_double(value: float) -> str:
    """Format a number like Java's Double.toString: an exponent below 10^-3 and from 10^7 on, and always a decimal point."""
    if value == 0 or 1e-3 <= abs(value) < 1e7 or not math.isfinite(value):
        return repr(value)
    digits, _, exponent = f"{value:e}".partition("e")
    shortest = repr(value).partition("e")[0].replace(".", "").lstrip("-0").rstrip("0") or "0"
    sign = "-" if digits.startswith("-") else ""
    return f"{sign}{shortest[0]}.{shortest[1:] or '0'}E{int(exponent)}"


_OPTION = "option"


def option(
    type: OptionType,
    default: Any,
    check: Check | None,
    doc: str,
    *synonyms: str | Synonym,
    update: UpdateMode = UpdateMode.CLUSTER_WIDE,
    acts: bool = True,
    hidden: bool = False,
) -> Any:
    """Return a dataclass field that declares an option; the field's name is the option's, with `_` for `.`."""
    names = tuple(Synonym(synonym) if isinstance(synonym, str) else synonym for synonym in synonyms)
    declared = Option("", type, default, check, doc, update, names, acts, hidden)
    return dataclasses.field(default=default, repr=not declared.is_sensitive, metadata={_OPTION: declared})


def options_of(config_class: type) -> dict[str, Option]:
    """Return the options that a dataclass declares with `option()`, by Kafka's name, in order of declaration."""
    declared = ((field.name, field.metadata.get(_OPTION)) for field in dataclasses.fields(config_class))
    named = (found._replace(name=attribute.replace("_", ".")) for attribute, found in declared if found is not None)
    return {found.name: found for found in named}


def parse_all(options: Mapping[str, Option], texts: Mapping[str, str]) -> Iterator[tuple[Option, Value]]:
    """Yield every option in `texts` with its parsed value. ConfigError for unknown names and invalid values."""
    for name, text in texts.items():
        found = options.get(name)
        if found is None:
            raise ConfigError(f"Unknown configuration name: {name}")
        yield found, found.parse(text)
