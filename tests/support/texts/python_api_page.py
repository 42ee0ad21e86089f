"""`docs/python-api.md`, made from the signatures and docstrings of the public names.

The source is parsed; defaults that have a name are looked up.

cd tests && python -m support.texts.python_api_page      rewrites it
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import ottla
from ottla.server.embedded.running import Running

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "python-api.md"
INTRODUCTION = """\
# Python API

Generated from the docstrings of the public names (`cd tests && python -m support.texts.python_api_page`). For how to use them, see
[A broker in your tests](testing.md), [Compaction and time](compaction.md), [Faults](faults.md), [Security](security.md) and
[Spark](spark.md). The whole API is typed (`py.typed`), for mypy and pyright.
"""
GROUPS = {
    "Start, stop and restart": ("Running", "Broker"),
    "Topics, records, groups": ("KafkaCalls",),
    "Time": ("Timed",),
    "Compaction": ("Compacting",),
    "Faults": ("Faulting",),
    "Access and quotas": ("Guarded", "Limiting"),
}
"""The classes that `ottla.Broker` consists of, under the words that readers look for."""
BESIDE = (
    ("`broker.clock`", "BrokerClock"),
    ("`broker.fault(…)`", "Fault"),
    ("`broker.tls`", "Tls"),
    ("`broker.sasl(…)`", "Sasl"),
    ("`broker.table(…)`", "Table"),
)
OF_ITS_INSIDE = {"inner", "run", "advance_clock", "security"}
VALUES = ("NewRecord", "Record", "ControlError", "KafkaError")
ASKED = re.compile(r"(\w+) = OperationMethod\(lambda: operations\.(\w+)\.(\w+)\)")
PLAIN = {"Name": "str", "TopicName": "str", "PartitionId": "int", "NodeId": "int", "Partitions": "Iterable[int]"}
"""Types of `control.operation`, without their bounds."""
BOUNDED = re.compile(rf"Annotated\[(\w+), .*\]|\b(?:{'|'.join(PLAIN)})\b")
ITEM = re.compile(r"\w+(, \w+)*( and the like)?: |Whatever ")
SECTION = re.compile(r"^(Args|Returns|Raises|Yields):\s*(.*)$")


def page() -> str:
    """Return the whole text."""
    return "\n".join([INTRODUCTION, *_broker(), *_values(), *_pipeline()])


def _classes(*folders: str) -> dict[str, ast.ClassDef]:
    found: dict[str, ast.ClassDef] = {}
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        if path.parent.name == "messages":
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, node)
    return found


def _broker() -> Iterator[str]:
    classes = _classes("server/client") | _classes("server/embedded")
    yield "## ottla.Broker\n"
    yield f"`{_shown(Running.__init__, 'ottla.Broker')}`\n"
    yield from _prose(_doc(classes["Broker"]))
    yield from _prose("Args:" + _doc(_opening()).partition("Args:")[2].partition("\n\n")[0])
    for heading, names in GROUPS.items():
        yield f"### {heading}\n"
        for name in names:
            yield from _members(classes[name], "broker")
    for heading, name in BESIDE:
        yield f"### {heading}\n"
        yield from _prose(_doc(classes[name]))
        yield from _members(classes[name], "")
    yield "## ottla.open_broker\n"
    yield f"`{_shown(ottla.open_broker, 'ottla.open_broker')}`\n"
    yield "In the Trio loop of the caller; its arguments are those of `ottla.Broker`, above.\n"


def _opening() -> ast.AsyncFunctionDef:
    tree = ast.parse((ROOT / "server/embedded/in_trio.py").read_text())
    return next(node for node in tree.body if isinstance(node, ast.AsyncFunctionDef) and node.name == "open_broker")


def _values() -> Iterator[str]:
    classes = _classes(
        "server/client",
        "server/control",
        "server/runtime",
        "protocol",
        "server/services",
        "server/cleaning",
        "storage/cleaning",
        "storage/logs",
    )
    yield "## Records and errors\n"
    for name in VALUES:
        yield from _value(classes[name], f"ottla.{name}")
    yield "## Return values\n"
    yield "Frozen dataclasses; over HTTP, the [same calls](admin.md) return them as JSON objects.\n"
    for name in sorted(_returned(classes) - set(VALUES)):
        yield from _value(classes[name], name)


def _returned(classes: dict[str, ast.ClassDef]) -> set[str]:
    """Return the dataclasses that the methods' annotations name, and those that they contain."""
    methods = [node for each in _classes("server/embedded").values() for node in _public(each)]
    wanted = {word for node in methods if node.returns for word in re.findall(r"\w+", ast.unparse(node.returns))}
    found: set[str] = set()
    while new := {name for name in wanted - found if name in classes and _fields(classes[name])}:
        found |= new
        wanted |= {
            word
            for name in new
            for field, _ in _fields(classes[name])
            for word in re.findall(r"\w+", ast.unparse(field.annotation))
        }
    return found


def _value(node: ast.ClassDef, name: str) -> Iterator[str]:
    yield f"### {name}\n"
    yield from _prose(_doc(node))
    for field, doc in _fields(node):
        yield f"- `{ast.unparse(field.target)}: {ast.unparse(field.annotation)}`{f' {_line(doc)}' if doc else ''}"
    yield ""


def _fields(node: ast.ClassDef) -> list[tuple[ast.AnnAssign, str]]:
    found: list[tuple[ast.AnnAssign, str]] = []
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and not ast.unparse(statement.target).startswith("_"):
            found.append((statement, ""))
        elif (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and found
            and found[-1][0].end_lineno == statement.lineno - 1
        ):
            found[-1] = (found[-1][0], str(statement.value.value))
    return found


def _pipeline() -> Iterator[str]:
    yield "## ottla.pipeline\n"
    for path, prefix, names in (
        ("pipeline/source/source.py", "ottla.pipeline", ("register", "read", "malformed")),
        ("pipeline/snapshot/latest.py", "ottla.pipeline", ("latest",)),
        ("pipeline/run/session.py", "ottla.pipeline", ("session", "builder")),
        ("pipeline/jobs.py", "ottla.pipeline.jobs", None),
    ):
        for node in ast.parse((ROOT / path).read_text()).body:
            if isinstance(node, ast.FunctionDef) and (node.name in names if names else not node.name.startswith("_")):
                yield from _function(node, f"{prefix}.{node.name}")


def _members(node: ast.ClassDef, of: str) -> Iterator[str]:
    for method in _public(node):
        yield from _function(method, f"{of}.{method.name}" if of else method.name)


def _public(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    functions = (_operation(each) if isinstance(each, ast.Assign) else each for each in node.body)
    return [
        each
        for each in functions
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and not each.name.startswith("_")
        and each.name not in OF_ITS_INSIDE
    ]


def _operation(method: ast.Assign) -> ast.AsyncFunctionDef | None:
    """Return the function behind `name = OperationMethod(lambda: operations.module.function)`.

    It has that name, and no broker argument.
    """
    found = ASKED.fullmatch(ast.unparse(method))
    if found is None:
        return None
    name, module, function = found.groups()
    tree = ast.parse((ROOT / "server/control" / f"{module}.py").read_text())
    (made,) = (each for each in tree.body if isinstance(each, ast.AsyncFunctionDef) and each.name == function)
    made.name, made.args.args = name, made.args.args[1:]
    for at, default in enumerate(made.args.kw_defaults):
        if isinstance(default, ast.Name):
            value = getattr(import_module(f"ottla.server.control.{module}"), default.id)
            made.args.kw_defaults[at] = ast.Constant(value)
    for argument in (*made.args.args, *made.args.kwonlyargs):
        assert argument.annotation is not None
        plain = ast.parse(BOUNDED.sub(_without_bounds, ast.unparse(argument.annotation)), mode="eval")
        assert isinstance(plain, ast.Expression)
        argument.annotation = plain.body
    return made


def _without_bounds(found: re.Match[str]) -> str:
    return found[1] or PLAIN[found[0]]


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[str]:
    if any(ast.unparse(each) == "property" for each in node.decorator_list):
        yield f"**{name}**  \n`{name}: {ast.unparse(node.returns) if node.returns else ''}`\n"
    else:
        yield f"**{name}**  \n`{_signature(node, name)}`\n"
    yield from _prose(_doc(node))


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> str:
    arguments = node.args
    arguments.args = [each for each in arguments.args if each.arg not in ("self", "cls")]
    returns = "" if node.returns is None or node.name == "__init__" else f" -> {ast.unparse(node.returns)}"
    return f"{name}({ast.unparse(arguments)}){returns}"


def _shown(function: Callable[..., Any], name: str) -> str:
    """Return the signature as `help()` shows it, with the arguments that `embedded.options.takes_arguments` adds."""
    (node,) = ast.parse(f"def {function.__name__}{inspect.signature(function)}: ...").body
    assert isinstance(node, ast.FunctionDef)
    for each in ast.walk(node):
        match each:
            case ast.arg(annotation=ast.Constant(value=str(text))):
                each.annotation = ast.Name(text)
            case ast.FunctionDef(returns=ast.Constant(value=str(text))):
                each.returns = ast.Name(text)
    return _signature(node, name)


def _doc(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return ast.get_docstring(node) or ""


def _prose(doc: str) -> Iterator[str]:
    """Yield paragraphs as they are, code in them as text, and the sections of arguments and errors as lists."""
    for paragraph in re.split(r"\n\s*\n", doc):
        lines = paragraph.splitlines()
        begun = SECTION.match(lines[0].strip()) if lines else None
        if begun:
            yield f"*{begun[1]}*\n"
            yield from _items(
                [begun[2]] * bool(begun[2]) + inspect.cleandoc("\n".join(["", *lines[1:]])).splitlines(), begun[1]
            )
        elif any(line.startswith(("with ", "async with ", "    ")) for line in lines):
            yield "\n".join(["```text", *lines, "```", ""])
        elif lines:
            yield "\n".join([*map(_plain, lines), ""])


def _items(lines: Iterable[str], section: str) -> Iterator[str]:
    items: list[str] = []
    for line in lines:
        if not items or (section in ("Args", "Raises") and ITEM.match(line)):
            items.append(line.strip())
        else:
            items[-1] += f" {line.strip()}"
    for item in items:
        name, colon, text = item.partition(": ")
        yield f"- `{name}`: {_plain(text)}" if colon and re.fullmatch(r"[\w, *]+", name) else f"- {_plain(item)}"
    yield ""


def _line(doc: str) -> str:
    return _plain(" ".join(doc.split()))


def _plain(text: str) -> str:
    """Escape everything except code, so that it is not markup."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*<_\[\]])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
