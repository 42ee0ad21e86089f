"""`ssl.principal.mapping.rules`: how the subject of a client's certificate becomes the name of its user.

Rules with commas between, of which the first that applies to the whole name counts:

    DEFAULT                                  the name as it is
    RULE:PATTERN/REPLACEMENT/[L|U]           what PATTERN leaves of it, `$1` for its groups, in lower or upper case

Patterns are regular expressions as RE2 knows them: a match takes time that grows with the name, not with its powers. RE2 has
Java's syntax without look-around, back-references and sets within sets, which are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..principal import UnprovenError

_RULE = r"(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
_NEXT = re.compile(rf"\s*(?:{_RULE})\s*(?:,|$)")
_REFERENCE = re.compile(r"\\(.)|\$([0-9]+)|\$\{(\w+)\}", re.DOTALL)
_OF_JAVA_ALONE = re.compile(
    r"\\Q(?:(?!\\E).)*(?:\\E)?|\\.|(?P<flag>\(\?[a-z-]*U)|\[\^?\]?(?:\\.|[^\\\[\]&]|&(?!&))*(?P<set>\[|&&)?", re.DOTALL
)
"""What RE2 takes for something else: `(?U)`, and a set within a set (`[a-z&&[^x]]`)."""

NAME_CHARS_MAX = 1_024
"""Of a subject that a rule is tried with: the replacement of each of its characters costs some microseconds."""
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Rule:
    """One of them; without `pattern` it is DEFAULT."""

    pattern: Any = None
    """Of RE2, which has no types."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """What `name` becomes, None if the rule does not apply. UnprovenError: the name is too long to try."""
        pattern = self.pattern
        if pattern is None:
            return name
        if len(name) > NAME_CHARS_MAX:
            raise UnprovenError(
                f"ssl.principal.mapping.rules: the subject of the client's certificate is too long"
                f" ({len(name)} characters, limit {NAME_CHARS_MAX}); it begins with {name[:_SHOWN_CHARS]}"
            )
        if pattern.fullmatch(name) is None:
            return None
        result: str = pattern.sub(self._expanded, name)
        return {"L": result.lower, "U": result.upper}.get(self.case, lambda: result)()

    def _expanded(self, match: Any) -> str:
        """The replacement as Java reads it: `$12` is group 1 and a 2 where there is no group 12, `$9` is text without group 9."""

        def value(reference: re.Match[str]) -> str:
            literal, digits, name = reference.groups()
            if literal is not None:
                return str(literal)
            if name is not None:
                return match[name] or ""
            groups: int = match.re.groups
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
            raise ValueError(f"{text[at:]!r}: invalid rule; expected DEFAULT or RULE:PATTERN/REPLACEMENT/[LU]")
        at = found.end()
        if found["default"]:
            rules.append(Rule())
            continue
        pattern = _compiled(found["pattern"])
        for name in re.findall(r"\$\{(\w+)\}", found["replacement"]):
            if name not in pattern.groupindex:
                raise ValueError(f"{found['pattern']!r}: group {name} not found")
        rules.append(Rule(pattern, found["replacement"], found["case"]))
    return tuple(rules) or (Rule(),)


def _compiled(pattern: str) -> Any:
    # Imported here, as few brokers have a rule.
    import re2

    for found in _OF_JAVA_ALONE.finditer(pattern):
        if found["set"] or found["flag"]:
            what = "nested character class" if found["set"] else "flag U"
            raise ValueError(
                f"{pattern!r}: {what} ({found[0]!r}) is only supported by Java; rewrite the pattern without it"
            )
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise ValueError(f"{pattern!r}: invalid RE2 regular expression: {reason}; use RE2 syntax") from None
    except UnicodeEncodeError:
        raise ValueError(f"{pattern!r}: not valid Unicode") from None


def mapped(rules: tuple[Rule, ...], name: str) -> str:
    """What the first of `rules` that applies makes of `name`. UnprovenError: there is none, or the name is too long to try one."""
    for rule in rules:
        result = rule.apply(name)
        if result is not None:
            return result
    raise UnprovenError(f"no rule of ssl.principal.mapping.rules applies to {name[:_SHOWN_CHARS]}")
