"""server.properties files: Java's syntax, and the comment lines that have a meaning for us."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.config.properties import (
    Properties,
    parse_properties,
    parse_server_properties,
    properties_text,
)
from ottla.storage.topics.options import ConfigError


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a\t=\tb ", {"a": "b "}),
        ("  a==b", {"a": "=b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("# c\n! d\n\n   \n   # e\na=1", {"a": "1"}),
        ("a=1#2", {"a": "1#2"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=x,\\\n    y,\\\n    z", {"a": "x,y,z"}),
        ("a=x\\\n# no comment", {"a": "x# no comment"}),
        ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        ("a=x\\\n", {"a": "x"}),
        ("a=x\\\n\nb=y", {"a": "x", "b": "y"}),
        (r"a\ b\=c\:d=e", {"a b=c:d": "e"}),
        (r"a=\t\n\r\f\\\q", {"a": "\t\n\r\f\\q"}),
        (r"a=\u00e4\u20AC", {"a": "ä€"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        ("a=größe", {"a": "größe"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


@pytest.mark.parametrize("escape", [r"\u12", r"\u", r"\u00zz", r"\u 123"])
def test_a_malformed_escape_is_refused_and_what_may_be_a_password_not_shown(escape: str) -> None:
    with pytest.raises(ConfigError, match=r"escape in the value of 'ssl\.key\.password'") as refused:
        parse_properties(f"ssl.key.password=secret{escape}")
    with pytest.raises(ConfigError, match="escape in a key") as refused_key:
        parse_properties(f"secret{escape}=a")
    assert "secret" not in f"{refused.value}{refused_key.value}"


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_any_pair_survives_when_escaped(pairs: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in pairs.items())
    if any("\ud800" <= unit <= "\udfff" for pair in pairs.items() for unit in "".join(pair)):
        parse_properties(text)
    else:
        assert parse_properties(text) == pairs


@given(st.text(alphabet="a=: \\\n#!u0\t"))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_server_properties(text)


def test_comment_lines_carry_what_has_no_property() -> None:
    text = """\
# A comment with = in it
#nodes=7
# nodes=3
# controllers=3000@localhost:19124,3001@localhost:19125
# controller.listener=CONTROLLER
# node.1.listeners=EXTERNAL://localhost:19123
# node.2.log.dirs=C\\:\\\\x
# cluster.id=abc
# feature.metadata.version=30
# metadata.version=4.3-IV0
node.id=0
"""
    assert parse_server_properties(text) == Properties(
        values={"node.id": "0"},
        node_values={1: {"listeners": "EXTERNAL://localhost:19123"}, 2: {"log.dirs": "C:\\x"}},
        nodes=3,
        controllers={3000: "localhost:19124", 3001: "localhost:19125"},
        controller_listener="CONTROLLER",
        cluster_id="abc",
        features={"metadata.version": 30},
        metadata_version="4.3-IV0",
    )


@pytest.mark.parametrize(
    "line",
    [
        "# nodes=many",
        "# nodes=",
        "# nodes=1001",
        "# feature.x=-1",
        "# feature.x=40000",
        "# controllers=a@h:1",
        "# node.99999999999.a=1",
    ],
)
def test_a_comment_line_of_ours_with_a_wrong_number_is_refused(line: str) -> None:
    with pytest.raises(ConfigError, match="comment line #"):
        parse_server_properties(line)


@pytest.mark.parametrize(
    "value", ["", "plain", " led by a blank", 'C:\\dir="x"', "tab\tand\nline", "ünïcode 🔑", "trailing\\"]
)
def test_a_value_is_written_as_it_is_read(value: str) -> None:
    line = f"name={properties_text(value)}"
    assert line.isascii()
    assert parse_properties(line) == {"name": value}
