"""docs/commands.md agrees with the commands."""

from __future__ import annotations

from support.commands.commands_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python tests/support/commands/commands_page.py"
