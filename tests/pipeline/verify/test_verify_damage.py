"""Every kind of planted damage is found, and named with its place."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline.errors import ExitCode, PipelineError
from support.noted import each_case
from support.pipeline.damaged_log import CASES, Case, Disk, found_as_expected


def test_the_sound_log_passes() -> None:
    for report in Disk().verify():
        report.check()
        assert report.partitions[0].records > 5 and report.partitions[0].segments > 2


@each_case("case", CASES)
def test_damage_is_found_and_named(case: Case) -> None:
    assert found_as_expected(case) == []


def test_a_failed_report_names_the_first_finding() -> None:
    disk = Disk()
    CASES[0].plant(disk)
    for report in disk.verify():
        with pytest.raises(
            PipelineError,
            match=r"^t-0: .*: expected .*, found .*",
            check=lambda error: error.exit_code == ExitCode.UNVERIFIED,
        ):
            report.check()
