"""ssl.principal.mapping.rules, as Apache Kafka's documentation and tests have them."""

from __future__ import annotations

import pytest

from ottla.server.security.tls.mapping_rules import NoRuleError, mapped, parse_rules

DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"
)


@pytest.mark.parametrize(
    ("rules", "name", "user"),
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
        ("RULE:.*/x/", "CN=a", "xx"),  # replaceAll meets the empty rest, too
    ],
)
def test_the_first_rule_that_applies_to_all_of_a_name_counts(rules: str, name: str, user: str) -> None:
    assert mapped(parse_rules(rules), name) == user


def test_a_name_that_no_rule_applies_to_is_nobody() -> None:
    with pytest.raises(NoRuleError, match=r"CN=b$"):
        mapped(parse_rules("RULE:^CN=a$/x/"), "CN=b")


@pytest.mark.parametrize(
    "rules", ["default", "DEFAULT/L", "RULE:", "RULE:a/b", "RULE:a/b/X", "RULE:(/x/", "RULE:a/${no}/", "DEFAULT,,x"]
)
def test_a_malformed_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"rule|expression|group"):
        parse_rules(rules)
