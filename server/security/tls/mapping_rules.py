"""`ssl.principal.mapping.rules`: how the subject of a client's certificate becomes the name of its user.

Rules with commas between, of which the first that applies to the whole name counts:

    DEFAULT                                  the name as it is
    RULE:PATTERN/REPLACEMENT/[L|U]           what PATTERN leaves of it, `$1` for its groups, in lower or upper case

Patterns are regular expressions as Python knows them, which are Java's but for rarities.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RULE = r"(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
_NEXT = re.compile(rf"\s*(?:{_RULE})\s*(?:,|$)")
_REFERENCE = re.compile(r"\\(.)|\$([0-9]+)|\$\{(\w+)\}", re.DOTALL)
_JAVA_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")


class NoRuleError(Exception):
    """No rule applies to a name."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One of them; without `pattern` it is DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """What `name` becomes, None if the rule does not apply."""
        pattern = self.pattern
        if pattern is None:
            return name
        if pattern.fullmatch(name) is None:
            return None
        result = pattern.sub(self._expanded, name)
        return {"L": result.lower, "U": result.upper}.get(self.case, lambda: result)()

    def _expanded(self, match: re.Match[str]) -> str:
        """The replacement as Java reads it: `$12` is group 1 and a 2 where there is no group 12, `$9` is text without group 9."""

        def value(reference: re.Match[str]) -> str:
            literal, digits, name = reference.groups()
            if literal is not None:
                return str(literal)
            if name is not None:
                return match[name] or ""
            groups = match.re.groups
            if int(digits[0]) > groups:
                return f"${digits}"
            size = 1
            while size < len(digits) and int(digits[: size + 1]) <= groups:
                size += 1
            return (match[int(digits[:size])] or "") + digits[size:]

        return _REFERENCE.sub(value, self.replacement)


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules of the option's text.

    Raises:
        ValueError: One is malformed; names it.
    """
    rules: list[Rule] = []
    text, at = text.strip(), 0
    while at < len(text):
        found = _NEXT.match(text, at)
        if found is None:
            raise ValueError(f"{text[at:]!r} is no rule; expected DEFAULT or RULE:PATTERN/REPLACEMENT/[LU]")
        at = found.end()
        if found["default"]:
            rules.append(Rule())
            continue
        try:
            pattern = re.compile(_JAVA_GROUP.sub("(?P<", found["pattern"]))
        except re.error as error:
            raise ValueError(f"{found['pattern']!r} is no regular expression: {error}") from None
        for name in re.findall(r"\$\{(\w+)\}", found["replacement"]):
            if name not in pattern.groupindex:
                raise ValueError(f"{found['pattern']!r} has no group {name}")
        rules.append(Rule(pattern, found["replacement"], found["case"]))
    return tuple(rules) or (Rule(),)


def mapped(rules: tuple[Rule, ...], name: str) -> str:
    """What the first of `rules` that applies makes of `name`. NoRuleError: there is none."""
    for rule in rules:
        result = rule.apply(name)
        if result is not None:
            return result
    raise NoRuleError(f"no rule of ssl.principal.mapping.rules applies to {name}")
