"""`ottla describe-config`: every option can be looked up, and lists are complete."""

import json

import pytest

from ottla.server.commands.cli import main
from ottla.server.commands.describe_config import render
from ottla.server.commands.frame.errors import SAID_NO, CommandError
from ottla.server.config.options.known_options import BROKER_OPTIONS
from ottla.storage.topics.config import TOPIC_OPTIONS


def test_one_option_shows_type_default_bound_and_meaning() -> None:
    text = render("min.cleanable.dirty.ratio")
    for part in ("topic option", "double", "default 0.5", "between 0 and 1", "log.cleaner.min.cleanable.ratio"):
        assert part in text
    assert TOPIC_OPTIONS["min.cleanable.dirty.ratio"].doc in text


def test_a_name_in_both_scopes_shows_both_unless_one_is_selected() -> None:
    assert "topic option, string" in render("compression.type")
    assert "broker option, string" in render("compression.type")
    assert "topic option, string" not in render("compression.type", scope="broker")


def test_the_dev_profile_is_shown_next_to_the_default() -> None:
    assert "default 15000 (dev: 100)" in render("log.cleaner.backoff.ms")


@pytest.mark.parametrize("markdown", [True, False])
@pytest.mark.parametrize(("scope", "options"), [("topic", TOPIC_OPTIONS), ("broker", BROKER_OPTIONS)])
def test_the_list_names_every_option_that_is_not_hidden(scope: str, options: dict[str, object], markdown: bool) -> None:
    text = render(scope=scope, markdown=markdown)
    for option in (TOPIC_OPTIONS if scope == "topic" else BROKER_OPTIONS).values():
        assert (option.name in text.replace("`", "").split() or f"{option.name}," in text) != option.hidden


def test_markdown_rows_all_have_six_cells() -> None:
    rows = [line for line in render(markdown=True).splitlines() if line.startswith("|")]
    assert len(rows) > 100
    assert {row.replace("\\|", "").count("|") for row in rows} == {7}


def test_every_effective_option_has_its_own_meaning() -> None:
    docs = [option.doc for option in (*TOPIC_OPTIONS.values(), *BROKER_OPTIONS.values()) if option.acts]
    assert all(doc.endswith(".") for doc in docs)
    assert len(set(docs)) == len(docs)


def test_an_unknown_name_is_reported_with_similar_names() -> None:
    with pytest.raises(
        CommandError,
        match=r"segment\.byte not found; did you mean .*segment\.bytes",
        check=lambda error: error.exit_code == SAID_NO,
    ):
        render("segment.byte")
    with pytest.raises(CommandError, match=r"option zork not found$", check=lambda error: error.exit_code == SAID_NO):
        render("zork")


def test_the_command_prints_or_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe-config", "segment.bytes"]) == 0
    assert main(["describe-config", "zork"]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("segment.bytes\n")
    assert shown.err == "ottla: option zork not found\n"


def test_json_has_an_object_for_each_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe-config", "--json", "--scope", "topic"]) == 0
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert found.keys() == {name for name, option in TOPIC_OPTIONS.items() if not option.hidden}
    assert found["min.cleanable.dirty.ratio"]["default"] == "0.5"
