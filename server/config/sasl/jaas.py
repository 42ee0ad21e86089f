"""Lines of JAAS, as they stand in `sasl.jaas.config` of a Kafka server.properties.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="it's \\"quoted\\"";

Read as Apache Kafka reads them, which has Java's StreamTokenizer do it: words, quoted texts with the escapes of C, and
comments (`//…`, `/…` and `/* … */`). What is refused is told without the values: they are secrets. So may be what looks like
a name behind a value that is not quoted as it should be: only what stands before all values is named, the rest is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

CONTROL_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")

_TOKEN = r"""
      (?P<nothing> [\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /(?!\*)[^\r\n]* )
    | (?P<quoted>  "(?:\\[^\r\n]|[^"\\\r\n])*" | '(?:\\[^\r\n]|[^'\\\r\n])*' )
    | (?P<open>    ["'] )
    | (?P<number>  [-.]?[0-9.]+(?![A-Za-z0-9_$\-\x80-\U0010ffff]) )
    | (?P<word>    [A-Za-z_$\-\xa0-\U0010ffff][A-Za-z0-9._$\-\xa0-\U0010ffff]* )
    | (?P<sign>    . )
    """
"""Verbose. Made into a pattern when there is a line to read, which takes a hundredth of a second: most brokers have none."""

_LOGIN_MODULE = "LoginModule"
"""The end of the name of each class of Apache Kafka and Java. A word without it may be a bare password."""

_ESCAPED = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: the class of a login module, and its options."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> tuple[LoginModule, ...]:
    """The entries of a text, at least one.

    Raises:
        ValueError: What is wrong, to be put behind the option's name. Names no value.
    """
    tokens = _tokens(text)
    found: list[LoginModule] = []
    while (token := next(tokens, None)) is not None:
        found.append(_entry(token, tokens, len(found) + 1))
    if not found:
        raise ValueError("must contain a login module")
    return tuple(found)


def shown_class(name: str, number: int) -> str:
    """How a message names the class of an entry, counted from 1: it may be a password in the wrong place."""
    return name if number == 1 and name.endswith(_LOGIN_MODULE) else f"the class of entry {number}"


def _entry(first: tuple[str, str], tokens: Iterator[tuple[str, str]], number: int) -> LoginModule:
    kind, module = first
    shown = shown_class(module, number)
    if kind != "text":
        raise ValueError("must start with the class of a login module")
    kind, flag = next(tokens, ("end", ""))
    if kind != "text" or flag.upper() not in CONTROL_FLAGS:
        raise ValueError(f"must have one of {', '.join(map(str.lower, CONTROL_FLAGS))} after {shown}")
    options: dict[str, str] = {}
    count = 1
    while (token := next(tokens, ("end", "")))[1:] != (";",) or token[0] != "sign":
        kind, key = token
        if kind == "end":
            raise ValueError(f"must end the options of {shown} with a semicolon")
        if kind != "text":
            raise ValueError(f"must have options NAME=VALUE after {shown}, also as option {count}")
        if next(tokens, None) != ("sign", "="):
            raise ValueError(f"must have = after the name of option {count} of {shown}")
        kind, value = next(tokens, ("end", ""))
        if kind != "text":
            raise ValueError(f"must have a value for option {count} of {shown}, in quotes unless it is a single word")
        options[key] = value
        count += 1
    return LoginModule(module, options)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """("text", it) for words and quoted texts, ("sign", it) for what else stands there, ("number", it)."""
    for match in re.finditer(_TOKEN, text, re.VERBOSE | re.DOTALL):
        match match.lastgroup:
            case "nothing":
                continue
            case "quoted":
                yield "text", _ESCAPED.sub(_unescaped, match[0][1:-1])
            case "word":
                yield "text", match[0]
            case "open":
                raise ValueError("must close each quoted string on its line")
            case kind:
                yield kind or "sign", match[0]


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)
