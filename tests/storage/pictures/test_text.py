"""Pictures as text: they have the requested width, and nothing that a terminal cannot show."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ottla.storage.cleaning.eligibility import BlockedReason
from ottla.storage.cleaning.progress import Phase
from ottla.storage.pictures.log_picture import GroupPicture, Part
from ottla.storage.pictures.passes import pass_of
from ottla.storage.pictures.scale import Axis
from ottla.storage.pictures.text import bar, key, pass_lines, state, style
from support.noted import each_case
from support.pictures.made import LOG, picture, running

PLAIN = style(is_unicode=False, has_colours=False)
BLOCKS = style(is_unicode=True, has_colours=False)
COLOURED = style(is_unicode=True, has_colours=True)


@each_case("width", [1, 2, 9, 80, 500])
@each_case("axis", Axis)
def test_a_bar_is_as_wide_as_it_is_to_be(width: int, axis: Axis) -> None:
    shown = picture(*LOG)
    logs = [shown, picture(("active", 0, 0)), *(replace(shown, running=running(phase)) for phase in Phase)]
    for found in logs:
        for look in (PLAIN, BLOCKS):
            assert len(bar(found, width, look, axis)) == width
        assert bar(found, width, PLAIN, axis).isascii()
        assert re.sub(r"\x1b\[[0-9;]*m", "", bar(found, width, COLOURED, axis)) == bar(found, width, BLOCKS, axis)


def test_parts_stand_to_scale() -> None:
    assert bar(picture(*LOG), 25, PLAIN) == "#" * 5 + "/" * 15 + "x" * 3 + "-" * 2
    assert bar(picture(*LOG), 10, BLOCKS) == "██▒▒▒▒▒▒▓░"
    assert bar(picture(("closed", 1, 9), ("active", 1, 9)), 4, PLAIN) == "==--"
    assert key(Part, PLAIN) == "# clean  / dirty  x held  - active  = closed"


def test_a_pass_moves_through_the_bar() -> None:
    log = picture(*LOG)
    assert bar(replace(log, running=running(Phase.MAP)), 10, PLAIN) == "##>>>>//x-"
    assert bar(replace(log, running=running(Phase.GROUPS)), 10, PLAIN) == "##//>>//x-"
    assert bar(replace(log, running=running(Phase.PREPARING, map_offset=1000)), 10, PLAIN) == "##>/////x-"


def test_the_state_is_a_few_words() -> None:
    log = picture(*LOG)
    assert state(log) == "50 % dirty, eligible"
    assert state(replace(log, waits_for=BlockedReason.ACTIVE_SEGMENT)) == "50 % dirty, not eligible: active segment"
    assert state(replace(log, waits_for=BlockedReason.ALL_CLEAN)) == "all clean"
    assert state(replace(log, cleanup_policy=("delete",))) == "not compacted"
    assert state(replace(log, running=running(Phase.MAP))) == "a pass is reading keys: 79 %"


@pytest.mark.parametrize("tried", [True, False])
def test_a_pass_is_told_before_and_after(tried: bool) -> None:
    group = GroupPicture(
        base_offset=0,
        end_offset=10,
        segments_before=2,
        segments_after=1,
        source_bytes=(600, 400),
        bytes_before=1000,
        bytes_after=250 if tried else None,
        records_before=10,
        records_after=3 if tried else None,
    )
    made = pass_of([group, group], first_dirty_offset=0, upper_offset=20, removed={"superseded": 14})
    lines = pass_lines(made, 16, PLAIN)
    assert all(
        line.isascii()
        for line in pass_lines(pass_of([group] * 5_000, first_dirty_offset=0, upper_offset=1, removed={}), 9, PLAIN)
    )
    if tried:
        assert lines == [
            "##......##......",
            "now: 2.0 KiB, 20 records, 4 segments",
            "####",
            "after the pass: 500 B (25 %), 6 records, 2 segments",
        ]
    else:
        assert lines == ["=" * 16, "now: 2.0 KiB, 20 records, 4 segments"]
