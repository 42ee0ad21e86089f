"""ssl.principal.mapping.rules, with the examples of Apache Kafka's documentation and tests."""

from __future__ import annotations

import pytest

from ottla.server.security.principal import UnprovenError
from ottla.server.security.tls.mapping_rules import NAME_CHARS_MAX, mapped, parse_rules
from support.noted import each_case

DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"
)


@each_case(
    "rules, name, user",
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("", "CN=a", "CN=a"),
        (DOCUMENTED, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        (DOCUMENTED, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (DOCUMENTED, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (DOCUMENTED, "O=x,CN=john.doe,C=US", "JOHN.DOE"),
        ("RULE:^CN=([^,]*).*$/$1/ , DEFAULT", "O=only", "O=only"),
        ("RULE:^CN=(\\w+)\\/(\\w+)$/$2.$1/", "CN=a/b", "b.a"),
        ("RULE:^CN=(.).*$/$12-$9\\$/", "CN=abc", "a2-$9$"),
        ("RULE:^CN=(?<who>.*)$/${who}!/", "CN=abc", "abc!"),
        ("RULE:^(CN=)?(.*)$/<$1>$2/", "O=x", "<>O=x"),
        (r"RULE:^CN=\Q[a&&b]\E(\[[&x]+)$/$1/", "CN=[a&&b][x&", "[x&"),
        ("RULE:.*/x/", "CN=a", "xx"),  # replaceAll also matches the empty rest
    ],
)
def test_the_first_completely_matching_rule_applies(rules: str, name: str, user: str) -> None:
    assert mapped(parse_rules(rules), name) == user


def test_a_name_without_a_matching_rule_is_refused() -> None:
    with pytest.raises(UnprovenError, match=r"CN=b$"):
        mapped(parse_rules("RULE:^CN=a$/x/"), "CN=b")


def test_a_rule_is_tried_only_with_names_of_limited_length() -> None:
    longest = "CN=" + "a" * (NAME_CHARS_MAX - 3)
    assert mapped(parse_rules("RULE:^CN=(.*)$/$1/"), longest) == longest[3:]
    with pytest.raises(
        UnprovenError, match=r"^ssl\.principal\.mapping\.rules: .*1025 characters, limit 1024.*CN=a{197}$"
    ):
        mapped(parse_rules("RULE:^CN=(.*)$/$1/,DEFAULT"), longest + "a")
    assert mapped(parse_rules("DEFAULT,RULE:^CN=(.*)$/$1/"), longest + "a") == longest + "a"


@pytest.mark.parametrize("rules", [DOCUMENTED, "RULE:(a*)*b/x/", "RULE:^(.*?,)*(.*?,)*(.*?,)*C=.*$/x/"])
def test_no_name_of_that_length_causes_backtracking(rules: str) -> None:
    parts = ("OU=a", "O=a", "L=a", "ST=a")
    name = ",".join(["CN=a", *(part for part in parts for _ in range(45))])
    assert len(name) < NAME_CHARS_MAX
    with pytest.raises(UnprovenError):
        mapped(parse_rules(rules.replace(r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "RULE:none/x/")), name)


@each_case(
    "pattern, part",
    [
        ("CN=(?=a).*", "(?="),
        ("CN=(?<!a)b", "(?<"),
        (r"CN=(.)\1", r"\1"),
        ("CN=a++", "++"),
        ("CN=(?>a)", "(?>"),
        (r"CN=\p{Alpha}", r"\p{Alpha}"),
        ("CN=[a-z&&[^x]]", "[a-z&&"),
        ("CN=[a[bc]]", "[a["),
        (r"\Qx\E[^\]a[:alpha:]]", r"[^\]a["),
        ("(?iU)cn=a", "(?iU"),
    ],
)
def test_a_pattern_that_only_java_supports_is_refused_with_its_rule(pattern: str, part: str) -> None:
    with pytest.raises(ValueError, match=r"RE2|only supported by Java") as refused:
        parse_rules(f"DEFAULT,RULE:{pattern}/x/")
    assert str(refused.value).startswith(repr(pattern))
    assert part in str(refused.value).replace(repr(pattern), "").replace("\\\\", "\\")


@pytest.mark.parametrize(
    "rules", ["default", "DEFAULT/L", "RULE:", "RULE:a/b", "RULE:a/b/X", "RULE:(/x/", "RULE:a/${no}/", "DEFAULT,,x"]
)
def test_a_malformed_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"rule|expression|group"):
        parse_rules(rules)
