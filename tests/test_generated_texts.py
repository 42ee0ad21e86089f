"""Generated pages are up to date; each script's docstring says how to make its page again."""

from __future__ import annotations

import pytest

from support.texts import compaction_picture, configuration_page, metrics_page, python_api_page, read_options_table


@pytest.mark.parametrize("module", [configuration_page, metrics_page, python_api_page])
def test_pages_are_up_to_date(module: object) -> None:
    assert module.PAGE.read_text() == module.page(), module.__doc__  # type: ignore[attr-defined]


def test_the_picture_of_compaction_is_up_to_date() -> None:
    assert compaction_picture.PICTURE.read_text() == compaction_picture.picture(), compaction_picture.__doc__


def test_only_existing_metrics_are_explained() -> None:
    assert set(metrics_page.MEANINGS) == {sample.name for sample in metrics_page.every_sample()}


def test_the_table_of_format_options_matches_the_code() -> None:
    assert read_options_table.PAGE.read_text(encoding="utf-8") == read_options_table.page(), read_options_table.__doc__
