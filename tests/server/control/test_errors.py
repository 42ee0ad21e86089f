"""Suggestions for names that do not exist."""

from __future__ import annotations

import pytest

from ottla.server.runtime.errors import LOOKED_AT_MAX, did_you_mean

NEAR = [
    ("ordres", ["users", "orders", "order-events"], "; did you mean 'orders'?"),
    ("zzz", ["users", "orders"], ""),
    ("", ["users"], ""),
    ("users", [], ""),
    ("order-77x", [f"order-{number}" for number in range(100)], "; did you mean 'order-77'?"),
    ("x" * 300, ["x" * 249], f"; did you mean '{'x' * 249}'?"),
    ("late", ["never"] * LOOKED_AT_MAX + ["late"], ""),
]


@pytest.mark.parametrize(("name", "among", "sentence"), NEAR)
def test_the_nearest_name_is_suggested(name: str, among: list[str], sentence: str) -> None:
    assert did_you_mean(name, among) == sentence
