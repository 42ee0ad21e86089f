"""Random requests about quotas, and one broker's answers to them as plain values."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
)
from ottla.server.client.connection import Client

NAMES: dict[str, list[str | None]] = {
    "user": ["alice", "bob", "ANONYMOUS", "CN=x, O=y", "ü", None],
    "client-id": ["app", "a/b", "app 2", None],
    "ip": ["127.0.0.1", "10.0.0.1", "::1", "localhost", None],
}
ODD_NAMES = {"ip": ["no.such.host.invalid", "300.1.1.1", "", "a b"], "user": [""], "client-id": [""]}
CLIENT_KEYS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"]
KEYS = [*CLIENT_KEYS, "connection_creation_rate"]
VALUES = [1.0, 1024.0, 5.0, 1e6, 0.5, 2.0**31 - 1, 2.0**53, 1 + 1e-7]
ODD_VALUES = [0.0, -0.0, -1.0, 0.25, 5e-324, 1e-310, 2.0**31, 2.0**63, 2.0**64, 1e300, 1 + 1e-5]
ODD_VALUES += [float("nan"), float("inf"), float("-inf")]

Answer = Any


def alteration(rng: random.Random) -> AlterClientQuotasRequest:
    """Return a request with at most one error per entity: Apache Kafka checks the keys in the order of its hash tables."""
    entries = [_entry(rng) for _ in range(rng.choice([1, 1, 1, 2, 3, 5]))]
    if rng.random() < 0.1:
        entries.append(EntryData(entity=rng.choice(entries).entity, ops=_ops(rng, CLIENT_KEYS, odd=False)))
    if rng.random() < 0.02:
        entries = []
    return AlterClientQuotasRequest(entries=tuple(entries), validate_only=rng.random() < 0.15)


def _entry(rng: random.Random) -> EntryData:
    kinds = rng.choice([["user"], ["client-id"], ["user", "client-id"], ["ip"]])
    if rng.random() < 0.06:
        kinds = rng.choice([[], ["ip", "user"], ["ip", "client-id"], ["group"], ["User"], ["user", "ip", "client-id"]])
    is_odd = len(kinds) == 1 and rng.random() < 0.06
    entity = tuple(
        EntityData(
            entity_type=kind,
            entity_name=rng.choice(ODD_NAMES[kind] if is_odd and kind in ODD_NAMES else NAMES.get(kind, ["x", None])),
        )
        for kind in kinds
    )
    keys = ["connection_creation_rate"] if "ip" in kinds else CLIENT_KEYS
    return EntryData(entity=entity, ops=_ops(rng, keys, odd=rng.random() < 0.15))


def _ops(rng: random.Random, keys: list[str], *, odd: bool) -> tuple[OpData, ...]:
    chosen = rng.sample(keys, rng.randint(1 if odd else 0, len(keys)))
    ops = [
        OpData(key=key, value=0.0, remove=True)
        if rng.random() < 0.4
        else OpData(key=key, value=max(1.0, float(round(value))) if "rate" in key else value)
        for key in chosen
        for value in [rng.choice(VALUES[:6])]
    ]
    if odd:
        match rng.randrange(3):
            case 0:
                ops[0] = OpData(key=rng.choice(KEYS), value=rng.choice(ODD_VALUES))
            case 1:
                ops.append(OpData(key=rng.choice(["zork", "", "Producer_Byte_Rate", *KEYS]), value=1.0))
            case _:
                ops.append(OpData(key=ops[0].key, value=1.0))
    return tuple(ops)


def question(rng: random.Random) -> DescribeClientQuotasRequest:
    kinds = rng.sample(["user", "client-id", "ip"], rng.choice([0, 1, 1, 1, 2, 2, 3]))
    if rng.random() < 0.05:
        kinds = rng.choice([["user", "user"], [""], ["group"], ["ip", "ip"]])
    components = []
    for kind in kinds:
        match_type = rng.choice([0, 0, 1, 2]) if rng.random() < 0.97 else rng.choice([-1, 3, 7])
        name = rng.choice([name for name in NAMES.get(kind, ["x"]) if name is not None]) if match_type == 0 else None
        if rng.random() < 0.03:
            name = None if name is not None else "x"
        components.append(ComponentData(entity_type=kind, match_type=match_type, match=name))
    return DescribeClientQuotasRequest(components=tuple(components), strict=rng.random() < 0.5)


class Side:
    """One broker."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._client = Client(host, int(port), timeout_s=60)

    def clear(self) -> None:
        """Remove all quotas."""
        entries = self._client.ask(DescribeClientQuotasRequest(), 1).entries
        gone = tuple(
            EntryData(
                entity=tuple(
                    EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
                ),
                ops=tuple(OpData(key=each.key, remove=True) for each in entry.values),
            )
            for entry in entries
        )
        self._client.ask(AlterClientQuotasRequest(entries=gone), 1)

    def ask(self, request: Any, version: int) -> Answer:
        answer = self._client.ask(request, version)
        if isinstance(request, AlterClientQuotasRequest):
            return sorted(
                (
                    (_entity(entry.entity), _code(entry.error_code), _message(entry.error_message))
                    for entry in answer.entries
                ),
                key=repr,
            )
        entries = answer.entries
        return (
            _code(answer.error_code),
            answer.error_message,
            None
            if entries is None
            else sorted(
                (
                    (_entity(entry.entity), sorted((each.key, repr(each.value)) for each in entry.values))
                    for entry in entries
                ),
                key=repr,
            ),
        )


def _entity(parts: Iterable[Any]) -> list[tuple[str, str | None]]:
    return sorted(((part.entity_type, part.entity_name) for part in parts), key=repr)


def _message(text: str | None) -> str | None:
    """Sort the entities of a message: Kafka lists them in a hash table's order where it does not know a type."""
    found = re.search(r"entries=\{(.*)\}", text or "")
    return text if text is None or found is None else text.replace(found[1], ", ".join(sorted(found[1].split(", "))))


def _code(number: int) -> str:
    return ErrorCode(number).name
