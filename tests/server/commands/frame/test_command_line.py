"""Parsing of command lines: names, options before and after them, and errors, each in one line."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.server.commands.cli import main, with_exit_code
from ottla.server.commands.completion import CommandPlace, places
from ottla.server.commands.frame.command_line import CommandCall, parse_command_line, top
from ottla.server.commands.frame.errors import CommandError
from ottla.server.commands.frame.parser import takes_value
from ottla.server.commands.frame.table import ROWS, load
from support.commands.ended import ended
from support.noted import each_case
from support.sizes import some

PLACES = {place.at: place for place in places()}
LEAVES = [place for place in PLACES.values() if place.at and not place.names]


def asked(*words: str) -> CommandCall:
    return parse_command_line(list(words))


# Names and options


def test_a_command_and_an_action_are_found_with_their_options() -> None:
    found = asked("topics", "create", "t", "--partitions", "3", "--config", "a=b", "--config", "c=")
    assert found.command.name == "create"
    assert (found.options.topic, found.options.partitions, found.options.config) == ("t", 3, [("a", "b"), ("c", "")])


SAME = [
    "topics list --json --bootstrap h:1",
    "topics list --bootstrap h:1 --json",
    "topics list --bootstrap=h:1 --json",
    "topics --json list --bootstrap h:1",
    "topics --bootstrap h:1 list --json",
    "topics --bootstrap=h:1 --json list",
    "--json topics --bootstrap h:1 list",
    "--bootstrap h:1 --json topics list",
    "--bootstrap=h:1 topics --json list",
]


@pytest.mark.parametrize("line", SAME)
def test_options_may_precede_or_follow_the_names(line: str) -> None:
    found = asked(*line.split())
    assert (found.command, found.options) == asked(*SAME[0].split())


def some_value(action: argparse.Action) -> str:
    """Return a value that the option accepts."""
    if action.choices is not None:
        return str(next(iter(action.choices)))
    for text in ("7", "7s", "a=b", "a=1", "t:0", "topic:t", "end", "@5"):
        try:
            if callable(action.type):
                action.type(text)
        except (argparse.ArgumentTypeError, ValueError):
            continue
        return text
    raise AssertionError(f"no value for {action.option_strings}")


def needed_at(place: CommandPlace, but: argparse.Action | None = None) -> list[str]:
    """Return the words without which the command is refused: positional arguments, and options, except `but`."""
    operands = [some_value(action) for action in place.operands if action.nargs not in ("*", "?")]
    required = [action for action in place.options if action.required and action is not but]
    return [*operands, *(f"{action.option_strings[-1]}={some_value(action)}" for action in required)]


@each_case("place", LEAVES, ids=[place.at for place in LEAVES])
def test_every_option_of_every_command_is_accepted_at_each_place(place: CommandPlace) -> None:
    options = [(name, action) for action in place.options for name in action.option_strings]
    for name, action in some([(name, action) for name, action in options if name not in ("-h", "--help")], 2):
        assert_taken_at_each_place(place, name, action)


def assert_taken_at_each_place(place: CommandPlace, name: str, action: argparse.Action) -> None:
    names, operands = place.at.strip("/").split("/"), needed_at(place, action)
    given = [name, *([some_value(action)] if takes_value(action) else [])]
    lines = [[*names[:cut], *given, *names[cut:], *operands] for cut in range(len(names) + 1)]
    lines.append([*names, *operands, *given])
    if takes_value(action) and name.startswith("--"):
        lines.append([*names, f"{name}={given[1]}", *operands])
    first, *others = [asked(*line) for line in lines]
    assert others == [first] * len(others), name
    assert getattr(first.options, action.dest) != action.default or action.choices, name


def test_an_option_is_a_flag_in_all_commands_or_in_none() -> None:
    """Otherwise the parser could not know, before it has read the command, whether a value follows."""
    with_value: dict[str, set[bool]] = {}
    for place in LEAVES:
        for action in place.options:
            for name in action.option_strings:
                with_value.setdefault(name, set()).add(takes_value(action))
    assert {name for name, kinds in with_value.items() if len(kinds) > 1} == set()


def test_an_option_takes_one_value_or_none() -> None:
    assert {action.nargs for place in LEAVES for action in place.options} <= {None, 0}


def test_operands_may_be_between_options() -> None:
    assert asked("topics", "status", "a", "--json", "b", "--bootstrap", "h:1", "c").options.topics == ["a", "b", "c"]


def test_arguments_after_two_dashes_are_operands() -> None:
    assert asked("topics", "status", "--json", "--", "--odd", "-n").options.topics == ["--odd", "-n"]


def test_a_value_may_start_with_a_dash() -> None:
    assert asked("serve", "--override", "-x=-1").options.override == ["-x=-1"]


# Errors

WRONG = {
    "sevre": "ottla: command 'sevre' not found; did you mean serve?",
    "topic list": "ottla: command 'topic' not found; did you mean topics?",
    "zzz": "ottla: command 'zzz' not found; choose from: serve, ",
    "--jsno topics list": "ottla: unknown option --jsno; did you mean --json?",
    "topics": "ottla topics: missing action; choose from: list, describe, create, delete, status",
    "topics --json": "ottla topics: missing action; choose from: list",
    "topics lits": "ottla topics: action 'lits' not found; did you mean list?",
    "topics 7": "ottla topics: action '7' not found; choose from: list, describe",
    "topics list --bootsrap h:1": "ottla topics list: unknown option --bootsrap; did you mean --bootstrap?",
    "topics list --boot h:1": "ottla topics list: unknown option --boot; did you mean --bootstrap?",
    "topics list --admin h:1": "ottla topics list: unknown option --admin; use --bootstrap for this command",
    "compact t --bootstrap h:1": "ottla compact: unknown option --bootstrap; use --admin for this command",
    "topics --partitions 3 list": "ottla topics list: unknown option --partitions",
    "topics list -x": "ottla topics list: unknown option -x",
    "topics list --bootstrap": "ottla topics list: argument --bootstrap: expected one argument",
    "topics list --bootstrap --json": "ottla topics list: argument --bootstrap: expected one argument",
    "topics list --json=yes": "ottla topics list: argument --json: ignored explicit argument 'yes'",
    "topics list orders": "ottla topics list: unexpected argument 'orders'",
    "topics describe a b": "ottla topics describe: unexpected argument 'b'",
    "topics create": "ottla topics create: the following arguments are required: TOPIC",
    "topics create t --partitions none": "argument --partitions: expected a number from 1 on, found 'none'",
    "topics create t --partitions 0": "argument --partitions: expected a number from 1 on, found '0'",
    "topics create t --config zork": "argument --config: expected NAME=VALUE, found 'zork'",
    "serve --profile kafak": "ottla serve: argument --profile: invalid choice 'kafak'; did you mean kafka?",
    "serve --profile fast": "ottla serve: argument --profile: invalid choice 'fast'; choose from: kafka, dev",
    "completion bsh": "ottla completion: argument SHELL: invalid choice 'bsh'; did you mean bash?",
    "completion": "ottla completion: the following arguments are required: SHELL",
    "describe-config min.cleanable.dirty.ratoi": "option min.cleanable.dirty.ratoi not found; did you mean min.cl",
}


@pytest.mark.parametrize(("line", "says"), WRONG.items())
def test_a_mistake_is_one_line_and_exit_code_2(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(line.split())
    except SystemExit as end:
        assert isinstance(end.code, int)
        code = end.code
    printed = capsys.readouterr()
    (told,) = printed.err.splitlines()
    assert told.startswith("ottla") and says in told
    assert (printed.out, code) == ("", 1 if line.startswith("describe-config") else 2)


NOBODY = {"--bootstrap": "127.0.0.1:1", "--admin": "127.0.0.1:1"}
ASKING = [place for place in LEAVES if place.at not in ("/serve", "/dev") and NOBODY.keys() & place.parser.options]


@pytest.mark.parametrize("place", ASKING, ids=[place.at for place in ASKING])
def test_every_networked_command_reports_an_unreachable_server_in_one_line(
    place: CommandPlace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    option = next(name for name in NOBODY if name in place.parser.options)
    (tmp_path / "seed.json").write_text("{}")
    more = {"/seed": [str(tmp_path / "seed.json")], "/produce": ["value"], "/erase": ["17"], "/retention": ["t"]}
    words = [*place.at[1:].split("/"), *needed_at(place), *more.get(place.at, []), option, NOBODY[option]]
    assert main(words) == 2
    printed = capsys.readouterr()
    (told,) = printed.err.splitlines()
    assert told.startswith("ottla: ") and " at 127.0.0.1:1" in told and printed.out == ""


NO_NAMES = ["ü..x", "a..b", ".x", "x" * 64, "ü" * 64]
"""Hosts that are refused before a name server is asked."""


@pytest.mark.parametrize("place", ASKING, ids=[place.at for place in ASKING])
def test_every_networked_command_refuses_an_invalid_host_in_one_line(
    place: CommandPlace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    option = next(name for name in NOBODY if name in place.parser.options)
    (tmp_path / "seed.json").write_text("{}")
    more = {"/seed": [str(tmp_path / "seed.json")], "/produce": ["value"], "/erase": ["17"], "/retention": ["t"]}
    for host in [*NO_NAMES, "a b"] if option == "--admin" else NO_NAMES:
        words = [*place.at[1:].split("/"), *needed_at(place), *more.get(place.at, []), option, f"{host}:9"]
        assert main(words) == 2, host
        printed = capsys.readouterr()
        (told,) = printed.err.splitlines()
        assert told.startswith("ottla: ") and f"{host}:9" in told and printed.out == ""


@pytest.mark.parametrize("place", LEAVES, ids=[place.at for place in LEAVES])
def test_every_command_refuses_unknown_options_and_surplus_operands(
    place: CommandPlace, capsys: pytest.CaptureFixture[str]
) -> None:
    names, needed = place.at[1:].split("/"), needed_at(place)
    takes_many = any(action.nargs in ("*", "+") for action in place.operands)
    optional = ["x" for action in place.operands if action.nargs == "?"]
    for words in ([*names, *needed, "--zork"], [] if takes_many else [*names, *needed, *optional, "surplus"]):
        if words:
            with pytest.raises(SystemExit) as end:
                main(words)
            (told,) = capsys.readouterr().err.splitlines()
            assert end.value.code == 2 and told.startswith(f"ottla {' '.join(names)}: ")


# Help


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_every_place_has_a_help_with_all_allowed_arguments(
    place: CommandPlace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [name for name in place.at.split("/") if name]
    texts = []
    for words in ([*names, "--help"], [*names, "-h"], ["--help", *names], ["help", *names]):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 0
        texts.append(capsys.readouterr().out)
    assert texts == texts[:1] * 4
    assert texts[0].startswith(" ".join(["usage: ottla", *names]))
    assert [word for word in place.words if word not in texts[0]] == []


def test_every_command_and_option_has_an_explanation() -> None:
    helps = {f"{place.at} {action.dest}": action.help for place in LEAVES for action in place.options}
    helps |= {place.at: place.help for place in PLACES.values() if place.at}
    assert {what for what, text in helps.items() if not text or text.endswith(".")} == set()


def test_the_table_lists_the_existing_commands() -> None:
    for name in ROWS:
        commands = load(name)
        assert (commands.command is None) == bool(commands.actions)
        assert commands.command is None or commands.command.name == name
    assert top().names.keys() == ROWS.keys()


LOADED = """
import sys
from ottla.server.commands.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sorted(name for name in sys.modules if name.startswith("ottla.") or name == "trio"), file=sys.stderr)
"""


@pytest.mark.parametrize("line", ["--help", "serve --help", "zzz"])
def test_a_help_text_loads_no_broker_and_no_other_command(line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *line.split()], capture_output=True, text=True, check=True, env={**os.environ}
    )
    loaded = [name for name in done.stderr.splitlines()[-1].split() if ".commands.frame" not in name]
    server = "ottla.server ottla.server.commands ottla.server.commands.cli"
    assert loaded == [*server.split(), *(["ottla.server.commands.serve_command"] if "serve" in line else [])]


# Ends


def test_messages_of_a_broker_do_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def refused() -> None:
        raise CommandError("there is no group \x1b]0;x\x07\nof two lines")

    assert with_exit_code(refused) == 1
    assert capsys.readouterr().err == "ottla: there is no group \\x1b]0;x\\x07 of two lines\n"


def test_an_interrupt_gives_exit_code_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_arguments: object, as_it_is: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ottla.server.commands.completion.show", interrupt)
    assert main(["completion", "bash"]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["topics", "list", "--bootstrap", "..:9092"], "label empty or too long"),
        (["nodes", "list", "--admin", "..:9092"], "label empty or too long"),
        (["explain", "\udcff"], r"expected UTF-8, found '\udcff'"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ottla: ") and says in line


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_output_is_not_an_error(unbuffered: str) -> None:
    """Python writes a command's output at once, or at the end."""
    lines = ("completion bash", "describe-config --json", "--help", "serve --help")
    for line in some(lines, 1 if unbuffered else 2):
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.server", *line.split()],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with ended(process):
            assert process.stdout is not None and process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0
