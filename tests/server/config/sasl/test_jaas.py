"""JAAS lines as Apache Kafka accepts them; its refusals, and their errors."""

from __future__ import annotations

import pytest

from ottla.server.config.sasl.jaas import parse_jaas
from support.noted import each_case

READ = {
    'M required user_a="b";': [("M", {"user_a": "b"})],
    "M required;": [("M", {})],
    "org.x.M REQUISITE a=b c='d e';": [("org.x.M", {"a": "b", "c": "d e"})],
    'M optional a="x=1;y" ;': [("M", {"a": "x=1;y"})],
    'M required a="q\\"u\\\\o\\te\\n\\101";': [("M", {"a": 'q"u\\o\te\nA'})],
    'M required "a b"="c" a="\'";': [("M", {"a b": "c", "a": "'"})],
    "M sufficient /* a=b */ c=d // e=f;\n g=h;": [("M", {"c": "d", "g": "h"})],
    "M required a=b / what follows\n;": [("M", {"a": "b"})],
    "M required a=b;N required c=d;": [("M", {"a": "b"}), ("N", {"c": "d"})],
    'M required a="1" a="2";': [("M", {"a": "2"})],
    "M required a=ä-_$1.2;": [("M", {"a": "ä-_$1.2"})],
    'M\trequired\na\n=\n"" ;': [("M", {"a": ""})],
    'M required a="\\400\\0477";': [("M", {"a": " 0'7"})],
    "M required a=truetrue;": [("M", {"a": "truetrue"})],
}


@each_case("text, expected", READ.items())
def test_a_line_is_parsed(text: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert [(entry.name, dict(entry.options)) for entry in parse_jaas(text)] == expected


REFUSED = {
    "": "must contain a login module",
    "// nothing": "must contain a login module",
    "M": "must have one of required, requisite, sufficient, optional after the class of entry 1",
    "M needed;": "must have one of required",
    "= required;": "must start with the class of a login module",
    'M required user_a="secret"': "must end the options of the class of entry 1 with a semicolon",
    'M required user_a="secret" user_b;': "must have = after the name of option 2 of the class of entry 1",
    "M required user_a=;": "must have a value for option 1 of the class of entry 1",
    "M required user_a=12;": "must have a value for option 1 of the class of entry 1, in quotes unless it is a single word",
    "M required user_a=#secret;": "must have a value for option 1 of the class of entry 1",
    'M required user_a="secret;': "must close each quoted string on its line",
    'M required user_a="sec\nret";': "must close each quoted string on its line",
    'M required user_a="secret", user_b="x";': "must have options NAME=VALUE after the class of entry 1, also as option 2",
    'M required user_a="a"secret user_b="x";': "must have = after the name of option 2 of the class of entry 1",
    "M required user_a=a;secret user_b=x;": "must have one of required, requisite, sufficient, optional after the class of entry 2",
    'M required user_a=a;secret required;secret required "': "must close each quoted string",
    'M required user_a="x"; ;': "must start with the class of a login module",
    "secretbad": "after the class of entry 1",
    "secret.with.dots optional": "must end the options of the class of entry 1",
    "org.x.YLoginModule needed": "after org.x.YLoginModule",
}


@each_case("text, told", REFUSED.items())
def test_a_malformed_line_is_refused_without_its_secrets(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told.replace("=", "[=]")) as refused:
        parse_jaas(text)
    assert "secret" not in str(refused.value)


def test_no_repr_shows_a_secret() -> None:
    assert "hunter2" not in repr(parse_jaas('M required user_a="hunter2";'))


@pytest.mark.parametrize("text", ['M required a="' + "\\" * 100_000, "M required " + "a=b " * 50_000, "/*" * 100_000])
def test_parsing_a_long_line_takes_linear_time(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_jaas(text)
