"""The comparison of two releases of Apache Kafka in `compat.apache_kafka.release`, on small made-up ones; running it needs both releases."""

import json
import zipfile
from pathlib import Path

import pytest
from compat.apache_kafka.release import __main__ as release
from compat.apache_kafka.release import answers, classes, histories, messages, tools
from compat.apache_kafka.release.tables import CELL, Table, changed_words, differences
from compat.support.suite import NOT_RUN, NotRunError


def test_answers_that_differ_are_listed_by_name() -> None:
    old = {"api  9": "0-1", "api 10": "0-2", "api  3": "0"}
    new = {"api  9": "0-2", "api 10": "0-3", "api  3": "0", "api 93": "0"}
    assert differences(old, new) == [("api  9", "0-1", "0-2"), ("api 10", "0-2", "0-3"), ("api 93", "", "0")]
    assert differences(new, old)[-1] == ("api 93", "0", "")


def test_of_answers_with_the_same_facts_only_the_changed_words_are_shown() -> None:
    old, new = {"x": "INT; default 1: The size of it."}, {"x": "INT; default 1: The size of the whole log."}
    assert differences(old, new) == [("x", "", "[-it.-] {+the whole log.+}")]
    other = {"x": "INT; default 2: The size of it."}
    assert differences(old, other) == [("x", old["x"], other["x"])]
    assert changed_words("a b c", "a c d") == "[-b-] {+d+}"


def test_a_table_in_markdown_keeps_a_cell_on_one_line_and_in_bounds() -> None:
    lines = Table("T", ("a", "b"), [("x|y", "1\n2"), ("long", "w" * (CELL + 1))], ["note"]).markdown().splitlines()
    assert lines[:7] == ["## T", "", "note.", "", "| a | b |", "| --- | --- |", "| x\\|y | 1 2 |"]
    assert lines[7] == f"| long | {'w' * CELL}… |"


OLD = """// Licensed under the License.
// limitations under the License.
{ "apiKey": 7, "type": "request", "name": "ThingRequest", "validVersions": "0-1",
  // Version 1 is the first.
  "fields": [
    { "name": "Things", "type": "[]Thing", "versions": "0+", "about": "All things.", "fields": [
      { "name": "Size", "type": "int32", "versions": "0+", "about": "How many." } ] } ] }
"""
NEW = (
    OLD.replace('"0-1"', '"0-2"')
    .replace("first.\n", "first.\n  //\n  // Version 2 adds Id.\n")
    .replace("How many.", "How very many.")
    .replace(
        '"fields": [\n    {',
        '"fields": [\n    { "name": "Id", "type": "uuid", "versions": "2+", "about": "Its id." },\n    {',
    )
)


def test_a_changed_definition_has_a_row_for_its_versions_its_comments_and_each_field() -> None:
    rows = messages.compare({"clients ThingRequest": OLD}, {"clients ThingRequest": NEW})
    facts = "type request, apiKey 7, validVersions"
    assert rows == [
        ("clients ThingRequest", "Id", "", "type uuid, versions 2+: Its id."),
        ("clients ThingRequest", "Things.Size", "", "{+very+}"),
        ("clients ThingRequest", "comment", "", "{+Version 2 adds Id.+}"),
        ("clients ThingRequest", "message", f"{facts} 0-1", f"{facts} 0-2"),
    ]
    assert messages.compare({"a": OLD}, {"a": OLD}) == []


def test_a_new_definition_is_one_row_with_its_fields_and_comments() -> None:
    ((name, part, before, after),) = messages.compare({}, {"a": OLD})
    assert (name, part, before) == ("a", "all", "")
    assert after.endswith("; fields Things, Things.Size; comment: Version 1 is the first.")


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """A folder with a jar of one definition and three classes."""
    option = b"\x01\x00\x0b" + b"segment.max" + b"\x07"
    with zipfile.ZipFile(tmp_path / "kafka-clients-9.0.0.jar", "w") as jar:
        jar.writestr("common/message/ThingRequest.json", OLD)
        jar.writestr("org/apache/kafka/log/Log.class", option + b"\x01\x00\x10org.apache.kafka")
        jar.writestr("org/apache/kafka/log/Log$Inner.class", b"\x01\x00\x02ab")
        jar.writestr("org/apache/kafka/shaded/x/Y.class", option)
    return tmp_path


def test_definitions_and_names_of_apis_are_read_from_the_jars(jars: Path) -> None:
    assert messages.definitions(jars) == {"kafka-clients ThingRequest": OLD}
    assert messages.api_names(jars) == {7: "Thing"}


def test_classes_are_read_with_their_nested_ones_and_without_those_of_others(jars: Path) -> None:
    found = {name: len(data) for name, data in classes.bodies(jars).items()}
    assert found == {"kafka-clients org/apache/kafka/log/Log": 39}
    assert classes.option_names(jars) == {"segment.max": "Log"}


def test_changed_classes_are_summed_by_package_with_the_largest_first() -> None:
    same = {"a x/y/Same": b"s"}
    old = {**same, "a x/y/Gone": bytes(700), "a x/y/Less": bytes(900), "b z/One": bytes(10), "b z/z/It": bytes(1)}
    new = {**same, "a x/y/Less": bytes(400), "b z/One": bytes(4_000), "b z/z/It": bytes(900)}
    assert classes.by_package(old, new) == [
        ("b", "z", "0", "0", "1", "3990", "One +3990"),
        ("a", "x.y", "0", "1", "1", "1200", "Gone -700, Less -500"),
    ]


def test_a_verdict_has_a_row_if_it_differs_and_a_new_option_has_one_row() -> None:
    refused = "INVALID_CONFIG: Invalid value 0"
    old = {"size": {"0": refused, "1": answers.ACCEPTED}}
    new = {"size": {"0": answers.ACCEPTED, "1": answers.ACCEPTED}, "lag": {"0": answers.ACCEPTED, "x": refused}}
    assert answers.compare(old, new) == [
        ("lag", "all", "", "accepts '0'"),
        ("size", "0", refused, answers.ACCEPTED),
    ]


def test_a_history_that_ottla_leaves_otherwise_has_its_first_difference_without_times() -> None:
    assert histories.shown([]) == "as Ottla"
    some = ["h theme, step 3: at: Kafka 1795848250844, Ottla 2", "more"]
    assert histories.shown(some) == "2 differences, first step 3: at: Kafka TIME, Ottla 2"


def test_help_has_a_row_with_its_options_if_its_words_changed() -> None:
    old = {
        "Acl": "Acl\n--add  one of {b, a}",
        "Log": "Log\n* --dir <String>  a dir\n--old-",
        "Gone": "Gone\n  --xy, -x X",
    }
    new = {"Acl": "Acl\n--add  one of {a, b}", "Log": "Log\n* --dir <String>  a dir\n--new  more", "New": "-h, --help"}
    assert tools.compare_helps(old, new) == [
        ("Gone", "gone", "---xy"),
        ("Log", "help", "+--new; [---old--] {+--new more+}"),
        ("New", "new", "+--help"),
    ]


def test_a_section_without_its_tools_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(old: str, new: str) -> Table:
        raise NotRunError("java and Maven")

    def found(old: str, new: str) -> Table:
        print("progress")
        return Table("Found", ("what",), [(f"{old} to {new}",)])

    monkeypatch.setattr(release, "SECTIONS", {"missing": missing, "found": found})
    assert release.main(["2.0", "--from", "1.0"]) == NOT_RUN
    out = capsys.readouterr().out
    assert "not run: needs java and Maven" in out
    assert "| 1.0 to 2.0 |" in out
    assert "progress" not in out
    assert release.main(["2.0", "--from", "1.0", "--only", "found", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found"]["rows"] == [["1.0 to 2.0"]]
