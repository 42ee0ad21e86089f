"""What the first request of an API needs is loaded in a thread: Trio's would keep all other clients waiting."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.protocol.apis import APIS, snake_case
from ottla.server import handlers

MOSTLY_ASK_FOR_NONE = {"transactions": {"InitProducerId", "Produce"}, "groups": set[str]()}


@pytest.mark.parametrize("whose", handlers.COORDINATED)
def test_every_handler_that_asks_for_a_coordinator_is_loaded_with_it(whose: str) -> None:
    folder = Path(handlers.__file__).parent
    asking = {
        name
        for name in handlers.SERVED
        if re.search(rf"\bcoordinators\.{whose}\b", (folder / f"{snake_case(name)}.py").read_text())
    }
    assert asking - MOSTLY_ASK_FOR_NONE[whose] == handlers.COORDINATED[whose]


def test_a_coordinator_is_there_once_the_handler_is() -> None:
    keys = {api.name: key for key, api in APIS.items()}
    code = "import sys; from ottla.server.handlers import load\n"
    for name, whose in (("ListGroups", "groups"), ("ListTransactions", "transactions")):
        is_there = f"print('{name}', 'ottla.server.{whose}.service' in sys.modules)\n"
        code += f"{is_there}load({keys[name]}); {is_there}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "ListGroups False\nListGroups True\nListTransactions False\nListTransactions True\n"
