"""Protobuf schemas: from the text or the serialized descriptor of a client to the texts that the registry stores.

The canonical text is without comments, in the layout of Confluent's registry. The normalized one has fields in the order
of their numbers, full names of types, and one import each.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .proto import MAX_NUMBER, Extend, Field, File, Options, Ranges, Service, Type, Word, check, decimal_default
from .proto_text import parse_text
from .values import InvalidSchema, Schema

_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"} | {
    sign: f"\\{sign}" for sign in "\\'\""
}
_ESCAPED = re.compile(r"[\x00-\x1f\\'\"\x7f]")
_LAST_OPTIONS = {"default": 1, "json_name": 2}
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}", re.ASCII)


def parse(text: str, references: Mapping[str, Schema], is_new: bool) -> Schema:
    """Return the schema of a text, or of a `FileDescriptorProto` in base64."""
    del is_new
    file = _file(text)
    check(file, references)
    canonical = _Printer(file, normalizes=False).text()
    normalized = _Printer(file, normalizes=True).text()
    return Schema("PROTOBUF", text, canonical, canonical if canonical == normalized else normalized, references, file)


def _file(text: str) -> File:
    # No schema is only of letters, digits and signs of base64: each declaration has a bracket or a semicolon.
    if not _BASE64.fullmatch(text.strip()):
        return parse_text(text)
    from .proto_descriptor import decode  # Imported here, as few clients send descriptors.

    try:
        data = base64.b64decode(text, validate=False)
    except binascii.Error as error:
        raise InvalidSchema(f"schema: neither Protobuf's language nor base64 ({error})") from None
    return decode(data)


class _Printer:
    def __init__(self, file: File, normalizes: bool) -> None:
        self._file = file
        self._normalizes = normalizes

    def text(self) -> str:
        file = self._file
        head = []
        if file.syntax and not (self._normalizes and file.syntax == "proto2"):
            head.append(f'{"syntax" if file.syntax.startswith("proto") else "edition"} = "{file.syntax}";')
        if file.package:
            head.append(f"package {file.package};")
        imports = sorted(set(file.imports)) if self._normalizes else file.imports
        by_kind = sorted(imports, key=lambda each: each[0] != "")
        sections = [
            [f'import {kind + " " if kind else ""}"{_escaped(path)}";' for kind, path in by_kind],
            self._options(file.options),
            self._types(file.types),
            self._extends(file.extends),
            [line for service in file.services for line in self._service(service)],
        ]
        lines = head
        for section in sections:
            if section:
                lines += ["", *section]
        return "\n".join(lines) + "\n"

    def _types(self, types: list[Type]) -> list[str]:
        """Messages come first. Their order counts: clients send the index of a message."""
        messages = [line for each in types if not each.is_enum and not each.is_group for line in self._message(each)]
        return messages + [line for each in types if each.is_enum for line in self._enum(each)]

    def _message(self, message: Type) -> list[str]:
        return _block(f"message {message.name}", self._sections(message))

    def _sections(self, message: Type) -> list[list[str]]:
        plain = [each for each in message.fields if not each.is_group]
        groups = [each for each in message.fields if each.is_group]
        oneofs = message.oneofs
        if self._normalizes:
            oneofs = sorted(oneofs, key=lambda each: min(every.number for every in each.fields))
        return [
            self._reserved(message.reserved),
            self._options(message.options),
            self._fields(plain),
            [
                line
                for each in oneofs
                for line in _block(f"oneof {each.name}", [self._options(each.options), self._fields(each.fields)])
            ],
            self._fields(groups),
            [
                line
                for ranges, options in message.extensions
                for each in self._split(ranges)
                for line in self._with_options(f"extensions {self._ranges(each)}", options)
            ],
            self._extends(message.extends),
            self._types(message.types),
        ]

    def _fields(self, fields: Iterable[Field]) -> list[str]:
        ordered = sorted(fields, key=lambda each: each.number) if self._normalizes else fields
        return [line for each in ordered for line in self._field(each)]

    def _field(self, each: Field) -> list[str]:
        label = f"{each.label} " if each.label else ""
        if each.is_group:
            group = each.target
            assert group is not None
            return _block(f"{label}group {group.name} = {each.number}", self._sections(group))
        named = each.value if each.type == "map" else each.type
        if self._normalizes and each.target is not None:
            named = f".{each.target.full_name}"
        kind = f"map<{each.key}, {named}>" if each.type == "map" else named
        options = sorted(each.options, key=lambda option: _LAST_OPTIONS.get(option[0], 0))
        if self._normalizes:
            options = [
                (
                    name,
                    Word(decimal_default(value, each.type)) if name == "default" and isinstance(value, Word) else value,
                )
                for name, value in options
            ]
        return self._with_options(f"{label}{kind} {each.name} = {each.number}", options)

    def _extends(self, extends: list[Extend]) -> list[str]:
        names = [f".{each.full_name}" if self._normalizes else each.name for each in extends]
        return [
            line
            for name, each in zip(names, extends, strict=True)
            for line in _block(f"extend {name}", [self._fields(each.fields)])
        ]

    def _enum(self, enum: Type) -> list[str]:
        constants = enum.constants
        if self._normalizes:
            constants = sorted(constants, key=lambda each: each[1::-1])
        lines = [
            line for name, number, options in constants for line in self._with_options(f"{name} = {number}", options)
        ]
        return _block(f"enum {enum.name}", [self._reserved(enum.reserved) + self._options(enum.options) + lines])

    def _service(self, service: Service) -> list[str]:
        lines = []
        for name, request, response, is_stream, is_stream_back, options in service.methods:
            sent, received = (
                f"{'stream ' if streams else ''}{self._message_name(kind)}"
                for kind, streams in ((request, is_stream), (response, is_stream_back))
            )
            head = f"rpc {name} ({sent}) returns ({received})"
            body = self._options(options)
            lines += [f"{head} {{", *_indented(body), "};"] if body else [f"{head};"]
        return _block(f"service {service.name}", [self._options(service.options), lines])

    def _message_name(self, name: str) -> str:
        return f".{self._file.method_types[name]}" if self._normalizes else name

    def _reserved(self, reserved: list[Ranges]) -> list[str]:
        if self._normalizes:
            each_alone: list[Ranges] = [[each] for ranges in reserved for each in ranges]
            reserved = sorted(each_alone, key=lambda ranges: (isinstance(ranges[0], str), ranges[0]))
        return [f"reserved {self._ranges(ranges)};" for ranges in reserved]

    def _split(self, ranges: Ranges) -> list[Ranges]:
        return [[each] for each in sorted(ranges, key=str)] if self._normalizes else [ranges]

    def _ranges(self, ranges: Ranges) -> str:
        texts = []
        for each in ranges:
            if isinstance(each, str):
                texts.append(f'"{_escaped(each)}"')
            else:
                first, last = each
                end = "max" if last >= MAX_NUMBER else str(last)
                texts.append(str(first) if first == last else f"{first} to {end}")
        return ", ".join(texts)

    def _options(self, options: Options) -> list[str]:
        lines = []
        for name, value in self._ordered(options):
            first, *rest = self._value(value)
            lines += [f"option {name} = {first}", *rest]
            lines[-1] += ";"
        return lines

    def _with_options(self, head: str, options: Options) -> list[str]:
        texts = []
        for name, value in self._ordered(options):
            first, *rest = self._value(value)
            texts.append([f"{name} = {first}", *rest])
        if not texts:
            return [f"{head};"]
        if len(texts) == 1:
            lines = [f"{head} [{texts[0][0]}", *texts[0][1:]]
            lines[-1] += "];"
            return lines
        return [f"{head} [", *_indented(_joined(texts)), "];"]

    def _ordered(self, options: Options) -> Options:
        return sorted(options, key=lambda each: each[0]) if self._normalizes else options

    def _value(self, value: Any) -> list[str]:
        """Return the lines of an option's value."""
        if isinstance(value, Word):
            return [str(value)]
        if isinstance(value, str):
            return [f'"{_escaped(value)}"']
        if isinstance(value, list):
            if len(value) == 1 and self._normalizes:
                return self._value(value[0])
            return ["[", *_indented(_joined(self._value(each) for each in value)), "]"]
        fields = sorted(value.items()) if self._normalizes else value.items()
        texts = []
        for name, each in fields:
            first, *rest = self._value(each)
            texts.append([f"{name}: {first}", *rest])
        return ["{", *_indented(_joined(texts)), "}"]


def _joined(texts: Iterable[list[str]]) -> list[str]:
    """Return the lines of several values, each but the last one with a comma."""
    lines: list[str] = []
    for text in texts:
        if lines:
            lines[-1] += ","
        lines += text
    return lines


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _block(head: str, sections: Iterable[list[str]]) -> list[str]:
    """Return a declaration with its members. An empty line, with indent, is between two sections."""
    lines: list[str] = []
    for section in sections:
        if section:
            lines += ["", *section] if lines else section
    return [f"{head} {{", *_indented(lines), "}"] if lines else [f"{head} {{}}"]


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[0]) or f"\\{ord(match[0]):03o}", text)
