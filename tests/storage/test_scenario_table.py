"""SCENARIOS.md is complete and current."""

from __future__ import annotations

from support.cleaner.scenario_table import COMMAND, TABLE, rendered, rows, shown_by

SCENARIOS = [str(number) for number in range(1, 218)]
BUGS_WITH_A_TEST = {4545, 7215, 8764, 14055, 17076, 18597, 19895}


def test_every_scenario_has_a_line_and_every_line_a_test_or_reason() -> None:
    found = rows(TABLE.read_text())
    assert [row.number for row in found if not row.number.startswith("KAFKA-")] == SCENARIOS
    assert [row.number for row in found if not row.tests and not row.otherwise] == []


def test_known_bugs_of_apache_kafka_have_tests_with_their_numbers() -> None:
    shown = shown_by()
    assert [bug for bug in BUGS_WITH_A_TEST if not shown[f"KAFKA-{bug}"]] == []


def test_every_scenario_of_a_test_is_in_the_table() -> None:
    assert set(shown_by()) - {row.number for row in rows(TABLE.read_text())} == set()


def test_the_table_names_the_existing_tests() -> None:
    text = TABLE.read_text()
    assert text == rendered(text, shown_by()), f"run {COMMAND}"
