"""The modules of an API's first request are loaded in a thread: on Trio's thread all other clients would wait."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.protocol.apis import APIS, snake_case
from ottla.server import handlers
from ottla.server.handlers import TRAITS, Trait

MOSTLY_ASK_FOR_NONE = {"transactions": {"InitProducerId", "Produce"}, "groups": set[str]()}


@pytest.mark.parametrize("trait", [Trait.GROUPS, Trait.TRANSACTIONS])
def test_every_handler_that_needs_a_coordinator_is_loaded_with_it(trait: Trait) -> None:
    whose = str(trait.name).lower()
    folder = Path(handlers.__file__).parent
    asking = {
        name
        for name in (api.name for api in APIS.values())
        if re.search(rf"\bcoordinators\.{whose}\b", (folder / f"{snake_case(name)}.py").read_text())
    }
    assert asking - MOSTLY_ASK_FOR_NONE[whose] == {name for name, traits in TRAITS.items() if trait in traits}


def test_a_coordinator_is_loaded_with_its_handler() -> None:
    keys = {api.name: key for key, api in APIS.items()}
    code = "import sys; from ottla.server.handlers import load\n"
    for name, whose in (("ListGroups", "groups"), ("ListTransactions", "transactions")):
        is_there = f"print('{name}', 'ottla.server.{whose}.service' in sys.modules)\n"
        code += f"{is_there}load({keys[name]}); {is_there}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "ListGroups False\nListGroups True\nListTransactions False\nListTransactions True\n"
