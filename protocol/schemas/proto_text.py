"""Protobuf's language, proto2, proto3 and editions: a text becomes a `File`."""

from __future__ import annotations

import re
from typing import Any

from .proto import MAX_ENUM_NUMBER, MAX_NUMBER, Extend, Field, File, OneOf, Options, Ranges, Service, Type, Word
from .values import InvalidSchema, shown

MAX_NESTING = 64
"""Levels of messages in messages, or of values of options. `protoc` permits 32."""
MAX_TOKENS = 100_000
"""Names, numbers, strings and signs of a text: about twenty thousand fields."""

_TOKEN = re.compile(
    r"""\s+
    | (?P<slash> / (?: /[^\n]* | \*[^*]*\*+(?:[^/*][^*]*\*+)*/ )? )
    | (?P<string> "[^"\\\n]*(?:\\.[^"\\\n]*)*" | '[^'\\\n]*(?:\\.[^'\\\n]*)*' )
    | (?P<number> [0-9](?:[0-9A-DF-Za-df-z_.]|[eE][+-]?)* )
    | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<sign> [{}()\[\]<>=;:,.+-] )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LABELS = ("optional", "repeated", "required")


def parse_text(text: str) -> File:
    """Return the file of a text. Names are not looked up.

    Raises:
        InvalidSchema: The text is not in Protobuf's language.
    """
    return _Parser(text).file()


def _tokens(text: str) -> tuple[list[str], list[int]]:
    found, positions = [], []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidSchema(f"line {text.count(chr(10), 0, position) + 1}: unexpected character {text[position]!r}")
        if match.lastgroup and (match.lastgroup != "slash" or match[0] == "/"):  # Else a space or a comment.
            found.append(match[0])
            positions.append(position)
            if len(found) > MAX_TOKENS:
                raise InvalidSchema(f"schema: too many tokens (limit {MAX_TOKENS})")
        position = match.end()
    return found, positions


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens, self._positions = _tokens(text)
        self._at = 0
        self._depth = 0

    # Tokens.

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next
        if not token:
            raise self._error("more")
        self._at += 1
        return token

    def _error(self, expected: str) -> InvalidSchema:
        position = self._positions[self._at] if self._at < len(self._tokens) else len(self._text)
        line = self._text.count("\n", 0, position) + 1
        found = shown(self._next) if self._next else "the end"
        return InvalidSchema(f"line {line}: expected {expected}, found {found}")

    def _expect(self, *signs: str) -> None:
        for sign in signs:
            if self._next != sign:
                raise self._error(f"'{sign}'")
            self._at += 1

    def _skip(self, token: str) -> bool:
        """Return whether the next token is this one, which is then taken."""
        if self._next != token:
            return False
        self._at += 1
        return True

    def _name(self) -> str:
        if not (self._next[:1].isalpha() or self._next[:1] == "_"):
            raise self._error("a name")
        return self._take()

    def _path(self) -> str:
        parts = [self._take()] if self._next == "." else []
        parts.append(self._name())
        while self._next == ".":
            parts += [self._take(), self._name()]
        return "".join(parts)

    def _integer(self) -> int:
        sign = -1 if self._skip("-") else 1
        token = self._next
        try:
            number = int(token, 8 if token[:1] == "0" and token.isdecimal() else 0)
        except ValueError:
            raise self._error("an integer") from None
        if number.bit_length() > 64:
            raise self._error("an integer of at most 64 bits")
        self._at += 1
        return sign * number

    def _string(self) -> str:
        if self._next[:1] not in ("'", '"'):
            raise self._error("a string")
        parts = []
        while self._next[:1] in ("'", '"') and self._next:
            parts.append(_ESCAPE.sub(_unescaped, self._take()[1:-1]))
        return "".join(parts)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise InvalidSchema(f"schema: nested too deeply (limit {MAX_NESTING} levels)")

    # Options.

    def _option_name(self) -> str:
        parts = []
        while True:
            parts.append(f"({self._in_parentheses()})" if self._next == "(" else self._name())
            if not self._skip("."):
                return ".".join(parts)

    def _in_parentheses(self) -> str:
        self._expect("(")
        name = self._path()
        self._expect(")")
        return name

    def _value(self) -> Any:
        if self._next[:1] in ("'", '"') and self._next:
            return self._string()
        if self._next in ("{", "<"):
            return self._message_value()
        if self._next == "[":
            self._enter()
            self._expect("[")
            found = []
            while not self._skip("]"):
                found.append(self._value())
                if self._next != "]":
                    self._expect(",")
            self._depth -= 1
            return found
        sign = self._take() if self._next in ("-", "+") else ""
        if self._next[:1].isdigit() or self._next == ".":
            number = f".{self._take()}" if self._skip(".") else self._take()
            if not _is_number(number):
                raise InvalidSchema(f"option: invalid number ({shown(number)})")
            return Word(sign.removeprefix("+") + number)
        return Word(sign.removeprefix("+") + self._path())

    def _message_value(self) -> dict[str, Any]:
        self._enter()
        end = {"{": "}", "<": ">"}[self._take()]
        found: dict[str, Any] = {}
        while not self._skip(end):
            if self._skip("["):
                name = self._path()
                while self._skip("/"):
                    name = f"{name}/{self._path()}"
                name = f"[{name}]"
                self._expect("]")
            else:
                name = self._name()
            if self._next not in ("{", "<"):
                self._expect(":")
            value = self._value()
            if name in found:  # A field that is written twice is a list.
                before = found[name] if isinstance(found[name], list) else [found[name]]
                before += value if isinstance(value, list) else [value]
                value = before
            found[name] = value
            _ = self._skip(",") or self._skip(";")
        self._depth -= 1
        return found

    def _option(self) -> tuple[str, Any]:
        name = self._option_name()
        self._expect("=")
        return name, self._value()

    def _option_statement(self) -> tuple[str, Any]:
        found = self._option()
        self._expect(";")
        return found

    def _option_list(self) -> Options:
        found: Options = []
        if self._skip("["):
            found.append(self._option())
            while self._skip(","):
                found.append(self._option())
            self._expect("]")
        return found

    # Statements.

    def file(self) -> File:
        file = File()
        if self._next in ("syntax", "edition"):
            is_edition = self._take() == "edition"
            self._expect("=")
            file.syntax = self._string()
            if not is_edition and file.syntax not in ("proto2", "proto3"):
                raise InvalidSchema(f"syntax: expected proto2 or proto3, found {shown(file.syntax)}")
            if is_edition and not re.fullmatch(r"20[0-9]{2}", file.syntax):
                raise InvalidSchema(f"edition: expected a year, found {shown(file.syntax)}")
            self._expect(";")
        while self._next:
            self._statement(file)
        return file

    def _statement(self, file: File) -> None:
        if self._skip(";"):
            return
        match self._next:
            case "package":
                self._take()
                if file.package:
                    raise self._error("one package")
                file.package = self._path()
                self._expect(";")
            case "import":
                self._take()
                kind = self._take() if self._next in ("public", "weak", "option") else ""
                file.imports.append((kind, self._string()))
                self._expect(";")
            case "option":
                self._take()
                file.options.append(self._option_statement())
            case "message":
                file.types.append(self._message())
            case "enum":
                file.types.append(self._enum())
            case "extend":
                file.extends.append(self._extend(file.types))
            case "service":
                file.services.append(self._service())
            case _:
                raise self._error("a message, an enum or another declaration")

    def _message(self) -> Type:
        self._expect("message")
        message = Type(self._name())
        self._body(message)
        return message

    def _body(self, message: Type) -> None:
        self._enter()
        self._expect("{")
        while not self._skip("}"):
            self._member(message)
        self._depth -= 1

    def _member(self, message: Type) -> None:
        if self._skip(";"):
            return
        # A word may also begin the type of a field, as in `message.Type x = 1;`.
        after = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ""
        is_declaration = after != "."
        match self._next:
            case "message" if is_declaration:
                message.types.append(self._message())
            case "enum" if is_declaration:
                message.types.append(self._enum())
            case "extend" if is_declaration:
                message.extends.append(self._extend(message.types))
            case "option" if is_declaration:
                self._take()
                message.options.append(self._option_statement())
            case "oneof" if is_declaration:
                message.oneofs.append(self._oneof(message.types))
            case "reserved" if is_declaration:
                self._take()
                message.reserved.append(self._ranges(MAX_NUMBER))
                self._expect(";")
            case "extensions" if is_declaration:
                self._take()
                message.extensions.append((self._ranges(MAX_NUMBER), self._option_list()))
                self._expect(";")
            case _:
                message.fields.append(self._field(message.types))

    def _field(self, types: list[Type]) -> Field:
        label = self._take() if self._next in _LABELS else ""
        if self._next == "group" and self._tokens[self._at + 1 : self._at + 2] != ["."]:
            return self._group(label, types)
        key = value = ""
        if self._next == "map" and self._tokens[self._at + 1 : self._at + 2] == ["<"]:
            self._expect("map", "<")
            key = self._name()
            self._expect(",")
            value = self._path()
            self._expect(">")
        kind = "map" if key else self._path()
        name = self._name()
        self._expect("=")
        number = self._integer()
        options = self._option_list()
        self._expect(";")
        return Field(name, number, kind, label, options, key, value)

    def _group(self, label: str, types: list[Type]) -> Field:
        self._expect("group")
        group = Type(self._name(), is_group=True)
        self._expect("=")
        number = self._integer()
        options = self._option_list()
        self._body(group)
        types.append(group)
        return Field(group.name.lower(), number, group.name, label, options, is_group=True)

    def _oneof(self, types: list[Type]) -> OneOf:
        self._expect("oneof")
        oneof = OneOf(self._name())
        self._expect("{")
        while not self._skip("}"):
            if self._skip("option"):
                oneof.options.append(self._option_statement())
            elif not self._skip(";"):
                oneof.fields.append(self._field(types))
        return oneof

    def _extend(self, types: list[Type]) -> Extend:
        self._expect("extend")
        extend = Extend(self._path())
        self._expect("{")
        while not self._skip("}"):
            if not self._skip(";"):
                extend.fields.append(self._field(types))
        return extend

    def _enum(self) -> Type:
        self._expect("enum")
        enum = Type(self._name(), is_enum=True)
        self._expect("{")
        while not self._skip("}"):
            if self._skip(";"):
                continue
            after = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ""
            if self._next == "option" and after != "=":
                self._take()
                enum.options.append(self._option_statement())
            elif self._next == "reserved" and after != "=":
                self._take()
                enum.reserved.append(self._ranges(MAX_ENUM_NUMBER))
                self._expect(";")
            else:
                name = self._name()
                self._expect("=")
                enum.constants.append((name, self._integer(), self._option_list()))
                self._expect(";")
        return enum

    def _ranges(self, last_number: int) -> Ranges:
        found: Ranges = []
        while True:
            if self._next[:1] in ("'", '"'):
                found.append(self._string())
            elif self._next[:1].isalpha() or self._next[:1] == "_":
                found.append(self._name())  # Editions write names without quotes.
            else:
                first = last = self._integer()
                if self._skip("to"):
                    last = last_number if self._skip("max") else self._integer()
                found.append((first, last))
            if not self._skip(","):
                return found

    def _service(self) -> Service:
        self._expect("service")
        service = Service(self._name())
        self._expect("{")
        while not self._skip("}"):
            if self._skip("option"):
                service.options.append(self._option_statement())
            elif not self._skip(";"):
                service.methods.append(self._method())
        return service

    def _method(self) -> tuple[str, str, str, bool, bool, Options]:
        self._expect("rpc")
        name = self._name()
        request, is_stream = self._message_of_method()
        self._expect("returns")
        response, is_stream_back = self._message_of_method()
        options: Options = []
        if self._skip("{"):
            while not self._skip("}"):
                if not self._skip(";"):
                    self._expect("option")
                    options.append(self._option_statement())
        else:
            self._expect(";")
        return name, request, response, is_stream, is_stream_back, options

    def _message_of_method(self) -> tuple[str, bool]:
        self._expect("(")
        is_stream = (
            self._next == "stream" and self._tokens[self._at + 1 : self._at + 2] != [")"] and self._skip("stream")
        )
        name = self._path()
        self._expect(")")
        return name, is_stream


def _is_number(text: str) -> bool:
    try:
        _ = int(text, 16) if text[:2] in ("0x", "0X") else float(text)
    except ValueError:
        return False
    return "_" not in text


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3]
    if digits or match[4]:
        number = int(digits, 16) if digits else int(match[4], 8)
        return chr(number) if number < 0x110000 else "\ufffd"
    return _ESCAPED.get(match[5], match[5])
