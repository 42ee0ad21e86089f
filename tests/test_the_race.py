"""The report of the race from its figures; `make bench` measures."""

import argparse
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compat.bench.race import chart, report, sides
from compat.bench.race.__main__ import KEPT, ROWS, TEXT, keep, main, publish
from compat.bench.race.course import Course
from compat.bench.race.figures import KFAKE, MOCK, SIDES, Figure, Section, read, write
from compat.bench.readme import __main__ as readme
from compat.bench.table import KAFKA, OTTLA, Row
from compat.support.brokers.process import BrokerProcess
from compat.support.suite import NotRunError, Options, Suite

ROOT = Path(__file__).parents[1]
VERSIONS = dict.fromkeys(SIDES, "1.0")


def cpu() -> Figure:
    values = {KAFKA: [4.0, 2.0, 9.0], OTTLA: [1.0, 1.5, 3.0], KFAKE: [0.05]}
    return Figure(
        "produce 1 KB: broker CPU", "s/GB", is_cpu=True, values=values, absent={MOCK: "keeps 5 MB | a partition"}
    )


def rate() -> Figure:
    return Figure("produce <1 KB>", "MB/s", more_is_better=True, values={KAFKA: [100.0], OTTLA: [1250.0]})


def section(*figures: Figure, others_part: float | None = 0.0, name: str = "large") -> Section:
    return Section(
        name, "Large batches", "How.", list(figures), "2026-11-23", "abc1234", others_part, False, "a CPU", VERSIONS
    )


def test_a_table_has_medians_spread_ratio_and_reasons_for_missing_figures() -> None:
    assert report.table(section(cpu(), rate(), others_part=0.25)) == [
        "## Large batches",
        "",
        "How.",
        "",
        "2026-11-23, commit abc1234, others' part of the machine: 25%.",
        "",
        "| | Apache Kafka | Ottla | kfake | librdkafka's mock | ratio |",
        "|---|---|---|---|---|---|",
        "| produce 1 KB: broker CPU, s/GB | 4.00 (2.00–9.00) | 1.50 (1.00–3.00) | 0.050 | keeps 5 MB / a partition | 0.38 (0.50) |",
        "| produce <1 KB>, MB/s | 100 | 1 250 | – | – | 12.50 |",
        "",
    ]


def test_a_missing_or_zero_side_has_no_ratio() -> None:
    assert report.ratio(Figure("a", "s", values={OTTLA: [1.0]})) == ""
    assert report.ratio(Figure("a", "s", values={KAFKA: [1.0]})) == ""
    assert report.ratio(Figure("a", "s", values={KAFKA: [0.0], OTTLA: [1.0]})) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (0.004, "0.004"), (0.6, "0.60"), (9.876, "9.88"), (56.78, "56.8"), (12345.6, "12 346")],
)
def test_a_number_has_its_significant_digits(value: float, shown: str) -> None:
    assert report.number(value) == shown


def test_the_report_gives_the_machines_load_and_the_absent_sides() -> None:
    text = report.rendered([section(cpu(), others_part=0.42)], {KFAKE: "needs Go", MOCK: "needs a library"})
    assert "Other work had up to 42% of the processors meanwhile" in text
    assert "\nMachine: a CPU.\n" in text
    assert "\nlibrdkafka's mock did not run: needs a library.\n" in text
    assert "kfake did not run" not in text  # it did, when this was measured
    quiet = report.rendered([section(cpu(), others_part=0.02)], {})
    assert "Other work" not in quiet
    assert "did not run" not in quiet
    assert "short ones" not in quiet
    assert "short ones" in report.rendered([replace(section(cpu()), is_quick=True)], {})


def test_stored_measurements_read_back_complete(tmp_path: Path) -> None:
    kept = [section(cpu(), rate()), section(others_part=None, name="small")]
    assert len(kept[0].figures) == 2
    assert read(tmp_path / "rows.json") == {}
    write(tmp_path / "deeper" / "rows.json", kept)
    assert list(read(tmp_path / "deeper" / "rows.json").values()) == kept


@pytest.mark.parametrize("damaged", ["", "[", '[{"name": "large"}]', '[{"figures": []}]', "[1]"])
def test_a_damaged_file_of_measurements_is_refused_by_name(tmp_path: Path, damaged: str) -> None:
    (tmp_path / KEPT).write_text(damaged)
    with pytest.raises(ValueError, match=r"REPORT\.json does not hold what the race measured"):
        read(tmp_path / KEPT)


def test_a_row_measured_again_leaves_the_other_rows_unchanged(tmp_path: Path) -> None:
    before = [section(cpu(), name="small"), section(cpu(), name="large"), section(cpu(), name="start")]
    write(tmp_path / KEPT, before)
    anew = section(replace(cpu(), values={KAFKA: [8.0], OTTLA: [2.0]}), name="large")
    assert keep(tmp_path, anew)
    assert list(read(tmp_path / KEPT).values()) == [before[0], anew, before[2]]
    assert publish(tmp_path, {})
    text = (tmp_path / TEXT).read_text()
    assert text.count("\n## Large batches\n") == 3
    assert text.count("| produce 1 KB: broker CPU, s/GB | 4.00 (2.00–9.00) |") == 2
    assert text.count("| produce 1 KB: broker CPU, s/GB | 8.00 |") == 1
    assert (tmp_path / report.CHART).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["REPORT.json", "REPORT.md", "REPORT.svg"]


def test_a_measurement_of_one_side_does_not_replace_one_of_both(tmp_path: Path) -> None:
    both, alone = section(cpu()), section(replace(cpu(), values={OTTLA: [2.0]}))
    assert keep(tmp_path, alone)
    assert keep(tmp_path, both)
    assert not keep(tmp_path, alone)
    assert list(read(tmp_path / KEPT).values()) == [both]


def test_an_empty_report_is_not_published(tmp_path: Path) -> None:
    assert not publish(tmp_path, {})
    assert list(tmp_path.iterdir()) == []


def test_a_row_from_another_machine_or_version_is_labelled() -> None:
    elsewhere = replace(section(cpu(), name="small"), machine="another CPU")
    older = replace(section(cpu(), name="start"), versions=VERSIONS | {KFAKE: "0.9"})
    rows = [elsewhere, section(cpu()), section(cpu(), name="acks"), older]
    text = report.rendered(rows, {})
    assert re.findall("^Machine: (.*)$", text, re.MULTILINE) == ["a CPU.", "another CPU.", "a CPU."]
    assert re.findall(r"kfake (\S+);", text) == ["1.0", "1.0", "0.9"]


def test_the_committed_report_matches_the_stored_measurements() -> None:
    folder = ROOT / "compat" / "bench"
    sections = list(read(folder / KEPT).values())
    assert report.rendered(sections, {}) == (folder / TEXT).read_text()
    assert chart.drawn(sections) == (folder / report.CHART).read_text()


def test_a_row_of_another_benchmark_becomes_a_figure() -> None:
    row = Row("idle CPU", "%")
    row.values = {KAFKA: [3.0], OTTLA: [0.1], KFAKE: []}
    assert Figure.of_row(row, {KFAKE: "none"}) == Figure(
        "idle CPU", "%", is_cpu=True, values={KAFKA: [3.0], OTTLA: [0.1]}, absent={KFAKE: "none"}
    )


def test_the_readme_takes_its_comparisons_from_the_report() -> None:
    told = {"CPU for a gigabyte of 1 KB records produced": "0.38 of its 4.00 s/GB: 1.50 s/GB"}
    text = report.rendered([section(cpu())], {})
    assert report.headlines_of(text) == report.headlines([section(cpu())]) == told
    assert readme.compared(text) == (
        "Compared with [Apache Kafka, in brackets](compat/bench/REPORT.md): "
        "CPU for a gigabyte of 1 KB records produced 1.50 s/GB (4.00 s/GB)."
    )
    assert readme.compared("") == ""


@pytest.mark.parametrize("rough", [{"is_quick": True}, {"others_part": 0.3}, {"others_part": None}])
def test_figures_from_short_rounds_or_busy_machines_stay_out_of_the_readme(rough: dict[str, Any]) -> None:
    text = report.rendered([replace(section(cpu()), **rough)], {})
    assert "In short" not in text
    assert readme.compared(text) == ""
    assert "rough" in chart.drawn([replace(section(cpu()), **rough)])


def test_a_bar_extends_to_the_right_where_ours_is_better() -> None:
    worse = Figure("start", "s", values={KAFKA: [1.0], OTTLA: [2.0]})
    drawing = ET.fromstring(chart.drawn([section(cpu(), rate(), worse, Figure("none", "s"))]))
    svg = "{http://www.w3.org/2000/svg}"
    _deps, *bars = drawing.findall(f"{svg}rect")
    middle = chart.place(1)
    begins = [float(bar.attrib["x"]) for bar in bars]
    ends = [begin + float(bar.attrib["width"]) for begin, bar in zip(begins, bars, strict=True)]
    assert begins == pytest.approx([middle, middle, chart.place(0.5)], abs=0.1)
    assert ends == pytest.approx(
        [chart.place(2), chart.place(12.5), middle], abs=0.1
    )  # the smallest CPU time to the smallest
    texts = [text.text for text in drawing.findall(f"{svg}text")]
    assert "produce <1 KB>, MB/s" in texts
    assert texts[-1] == "0.50"


@pytest.fixture
def brokers() -> Iterator[dict[str, BrokerProcess]]:
    """Yield brokers, none of which is ever started."""
    made = {side: sides.broker_of(side) for side in SIDES}
    yield made
    for broker in made.values():
        broker.dispose()


def course() -> Course:
    return Course(Suite("race"), Options(None, "ottla", True, False, argparse.Namespace()), SIDES, rounds=3)


def test_sides_take_turns_in_a_new_order_every_round() -> None:
    assert [side[:2] for side in course().turns((KAFKA, OTTLA))] == ["ap", "ot", "ot", "ap", "ap", "ot"]


def test_a_failing_side_leaves_the_row_with_a_reason_and_others_continue(
    brokers: dict[str, BrokerProcess],
) -> None:
    found, turns = Figure("a", "s"), []

    def turn(broker: BrokerProcess) -> None:
        turns.append(broker.kind)
        if broker.kind == KFAKE and turns.count(KFAKE) == 2:
            raise RuntimeError("no such thing\nsecond line")
        found.note(broker.kind, 1.0)

    race = course()
    race.in_turns(brokers, [found], turn)
    assert found.values == {KAFKA: [1.0] * 3, OTTLA: [1.0] * 3, MOCK: [1.0] * 3}
    assert found.absent == {KFAKE: "no such thing"}
    assert turns.count(KFAKE) == 2
    assert race.suite.failed == 0


def test_absence_of_one_of_the_two_main_sides_is_a_failure(brokers: dict[str, BrokerProcess]) -> None:
    race, found = course(), Figure("a", "s")

    def attempt(broker: BrokerProcess) -> None:
        if broker.kind == OTTLA:
            raise ValueError("refused")

    assert list(race.taking_part(brokers, [found], attempt)) == [KAFKA, KFAKE, MOCK]
    assert found.absent == {OTTLA: "ValueError: refused"}
    assert race.suite.failed == 1


def test_a_side_without_its_tools_is_named_with_its_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("OTTLA_COMPAT_CACHE", str(tmp_path))
    assert sides.missing(SIDES) == {KAFKA: "needs java and Maven", KFAKE: "needs Go"}
    with pytest.raises(NotRunError, match=r"^Go$"):
        sides.kfake_program()


def test_an_unknown_row_is_refused_with_the_names_of_all_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--rows", "smal"])
    said = capsys.readouterr().err
    assert [name for name in ROWS if name not in said] == []


def test_the_committed_report_is_complete() -> None:
    text = (ROOT / "compat" / "bench" / "REPORT.md").read_text()
    titles = [kind.title for kind in ROWS.values()]
    measured = [title for title in re.findall(r"^## (.*)$", text, re.MULTILINE) if title != "In short"]
    assert measured
    assert measured == [title for title in titles if title in measured]
    assert set(report.headlines_of(text)) <= set(report.HEADLINES.values())
    ET.parse(ROOT / "compat" / "bench" / report.CHART)
