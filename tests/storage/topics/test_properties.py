"""Java's properties syntax."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.topics.options import ConfigError
from ottla.storage.topics.properties import parse_properties, properties_text
from support.noted import each_case


@each_case(
    "text, pairs",
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
        (
            "jaas=x required \\\n    username=\"u\" \\\n  password='p=1';",
            {"jaas": "x required username=\"u\" password='p=1';"},
        ),
        ("a=1\u2028\x0b\x1c2", {"a": "1\u2028\x0b\x1c2"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, pairs: dict[str, str]) -> None:
    assert parse_properties(text) == pairs


@pytest.mark.parametrize("escape", [r"\u12", r"\u", r"\u00zz", r"\u 123"])
def test_a_malformed_escape_is_refused_and_a_possible_password_is_not_shown(escape: str) -> None:
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


@pytest.mark.parametrize(
    "value", ["", "plain", " led by a blank", 'C:\\dir="x"', "tab\tand\nline", "ünïcode 🔑", "trailing\\"]
)
def test_a_value_is_written_as_read(value: str) -> None:
    line = f"name={properties_text(value)}"
    assert line.isascii()
    assert parse_properties(line) == {"name": value}
