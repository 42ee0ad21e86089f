"""The table of `docs/security-operations.md`: the rights that an API requires, derived from the answers of Apache Kafka.

python tests/support/authorization/rights_page.py      rewrites the table
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from ottla.server.security.acls.kinds import AclOperation, ResourceType
from support.authorization.answers import as_text
from support.authorization.questions import QUESTIONS, Question
from support.authorization.recording import FILE, Answers, Asked, read
from support.authorization.rights import EVERY, NOBODY, USERS

PAGE = Path(__file__).parents[3] / "docs" / "security-operations.md"
START, END = "<!-- rights -->\n", "<!-- end of rights -->\n"

Right = tuple[ResourceType, AclOperation]
Rights = frozenset[Right]

IMPLIED: dict[AclOperation, tuple[AclOperation, ...]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""The operations that imply an operation on the same resource."""
ABOUT_NOTHING = "nothing"
TITLES: Mapping[ResourceType, str] = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.DELEGATION_TOKEN: "delegation token",
    ResourceType.USER: "user",
}


def page(answers: Answers) -> str:
    """Return the rows, one for each question and range of versions."""
    lines = ["| API | Versions | Asks for |", "|---|---|---|"]
    for question in QUESTIONS:
        by_rights: dict[str, list[int]] = defaultdict(list)
        for version in question.versions:
            if Asked(question.id, version, NOBODY) not in answers:
                continue  # an API that is new
            by_rights[asks_for(answers, question, version)].append(version)
        for rights, versions in by_rights.items():
            lines.append(f"| {question.id} | {_range(versions)} | {rights} |")
    return "".join(f"{line}\n" for line in lines)


def asks_for(answers: Answers, question: Question, version: int) -> str:
    """Return the smallest rights that change the answer, alone or together. A single right that gets less far is left out."""
    of_nobody = _bare(answers[Asked(question.id, version, NOBODY)])
    seen: dict[Rights, str] = {frozenset(): of_nobody}
    for user, grants in USERS.items():
        if grants and all(grant.name in (EVERY, "kafka-cluster") for grant in grants):
            rights = frozenset((grant.resource_type, grant.operation) for grant in grants)
            seen[rights] = _bare(answers[Asked(question.id, version, user)])
    least = [
        rights
        for rights, answer in seen.items()
        if rights and all(answer != seen[fewer] for fewer in seen if fewer < rights or _implied_by(fewer, rights))
    ]
    furthest = [rights for rights in least if not any(rights < more for more in least)]
    return "; ".join(sorted(" and ".join(sorted(map(_right_text, rights))) for rights in furthest)) or ABOUT_NOTHING


def _implied_by(fewer: Rights, rights: Rights) -> bool:
    """Return whether `rights` imply `fewer`, and differ from them."""
    return fewer != rights and all(
        right in rights or any((right[0], stronger) in rights for stronger in IMPLIED.get(right[1], ()))
        for right in fewer
    )


def _bare(answer: Any) -> str:
    """Return the answer without the lists of allowed operations, which differ with every right."""
    if isinstance(answer, list):
        return as_text(sorted(map(_bare, answer)))
    if isinstance(answer, dict):
        return as_text({name: _bare(one) for name, one in answer.items() if not name.endswith("_operations")})
    return as_text(answer)


def _right_text(right: Right) -> str:
    return f"{right[1].name} on the {TITLES[right[0]]}"


def _range(versions: Iterable[int]) -> str:
    low, *_, high = (*versions, *versions)
    return f"{low}" if low == high else f"{low}-{high}"


def written(text: str, table: str) -> str:
    """Return the page with this table."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}{table}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), page(read(FILE.read_text()))))
