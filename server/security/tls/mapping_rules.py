"""`ssl.principal.mapping.rules`: how the subject of a client's certificate becomes the name of its user.

Rules are separated by commas; the first that matches the whole name applies:

    DEFAULT                                  the name as it is
    RULE:PATTERN/REPLACEMENT/[L|U]           REPLACEMENT with `$1` for PATTERN's groups, in lower or upper case

Patterns are regular expressions of RE2: the time of a match is linear in the length of the name. RE2 has Java's syntax
without look-around, back-references and sets within sets, which are refused.
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
"""Syntax that RE2 reads differently from Java: `(?U)`, and a set within a set (`[a-z&&[^x]]`)."""

NAME_CHARS_MAX = 1_024
"""Maximum length of a subject that rules are applied to: the replacement of each of its characters costs some microseconds."""
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; without `pattern` it is DEFAULT."""

    pattern: Any = None
    """Compiled pattern of RE2, which has no types."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the name that the rule makes of `name`, None if the rule does not match.

        UnprovenError: the name is too long.
        """
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
        """Return the replacement with Java's rules.

        `$12` is group 1 and a 2 if group 12 does not exist, `$9` is text without group 9.
        """

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
    """Parse the rules of the option's text.

    Raises:
        ValueError: A rule is malformed; names it.
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
    """Return the name by the first of `rules` that matches. UnprovenError: no rule matches, or the name is too long."""
    for rule in rules:
        result = rule.apply(name)
        if result is not None:
            return result
    raise UnprovenError(f"no rule of ssl.principal.mapping.rules applies to {name[:_SHOWN_CHARS]}")
