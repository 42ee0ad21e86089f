"""`ottla-spark verify --bootstrap`: options that do not match give one line, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")

from ottla.pipeline.cli import main
from ottla.pipeline.wire.verify_wire import clean_end_of

ONE = ("--bootstrap", "h:1", "--topic", "t")
TWO = (*ONE, "--against-topic", "u")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "verify: expected DATA_DIR or --bootstrap"),
        (("./data", *ONE), "--bootstrap: expected no DATA_DIR with it"),
        ((*ONE, "--plan", "x"), "--bootstrap: expected no --plan with it"),
        ((*ONE, "--config", "a=b"), "--bootstrap: expected no --config with it"),
        (("--bootstrap", "h:1"), "--bootstrap: expected --topic with the name of one topic, found none"),
        (("--bootstrap", "h:1", "--topic", "t,u"), "--bootstrap: expected --topic with the name of one topic, found t,u"),
        ((*ONE, "--master", "none"), "--bootstrap: expected a Spark master, as Spark's connector reads topics, found --master none"),
        ((*ONE, "--headers"), "--headers is only with --against or --against-topic"),
        ((*ONE, "--every-version"), "--every-version is only with --against or --against-topic"),
        ((*TWO, "--clean-end", "1"), "--clean-end is only for one topic by itself"),
        ((*TWO, "--no-transactions"), "--no-transactions is only for one topic by itself"),
        ((*TWO, "--cleaned-within", "0"), "--cleaned-within is only for one topic by itself"),
        ((*ONE, "--clean-end", "-1"), "--clean-end: expected an offset, or {\"0\": offset, …}, found '-1'"),
        ((*ONE, "--clean-end", '{"a": 1}'), "--clean-end: expected an offset"),
        ((*ONE, "--command-config", "/nowhere"), "/nowhere: No such file or directory"),
        (("./data", "--topic", "t", "--headers"), "--headers: expected --bootstrap with it"),
        (("./data", "--topic", "t", "--against", "x", "--plan", "y"), "--against and --plan: expected one of them"),
    ],
)  # fmt: skip
def test_incompatible_options_are_reported_in_one_line(
    arguments: tuple[str, ...], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", *arguments]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ottla-spark: {says}")


@pytest.mark.parametrize(("text", "found"), [("4711", 4711), ('{"0": 1, "12": 0}', {0: 1, 12: 0})])
def test_a_clean_end_applies_to_all_partitions_or_to_one(text: str, found: object) -> None:
    assert clean_end_of(text) == found


@pytest.mark.parametrize("text", ["", "true", "1.5", "[1]", '{"0": -1}', '{"0": true}', "null"])
def test_an_invalid_clean_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        clean_end_of(text)


def test_an_options_file_that_is_a_directory_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *ONE, "--command-config", str(tmp_path)]) == 1
    assert capfd.readouterr().err == f"ottla-spark: {tmp_path}: Is a directory\n"
