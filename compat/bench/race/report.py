"""The report: sections as tables of medians, spread and ratio, and the few lines that README.md takes from it."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping

from ..table import KAFKA, OTTLA
from .figures import KFAKE, MOCK, SIDES, Figure, Section

CHART = "REPORT.svg"
BEGIN, END = "<!-- headlines: begin -->\n", "<!-- headlines: end -->\n"
TITLES = {KAFKA: "Apache Kafka", OTTLA: "Ottla", KFAKE: "kfake", MOCK: "librdkafka's mock"}
HEADLINES = {
    ("start", "start to first produce"): "from the command to a first record",
    ("start", "resident memory at rest"): "memory at rest, after a first record",
    ("small", "produce 100 B, 100 connections: requests"): "requests of one record, 100 connections",
    ("large", "produce 1 KB: broker CPU"): "CPU for a gigabyte of 1 KB records produced",
}
"""Section and figure -> its name in README.md."""
BUSY_PART = 0.1


Ground = tuple[str, dict[str, str]]
"""A machine, and the versions of the sides on it."""


def rendered(sections: Iterable[Section], missing: Mapping[str, str]) -> str:
    """Return the whole text. `missing`: sides that could not run on this machine, and what they need."""
    sections = list(sections)
    ground = most_common(sections)
    have_figures = {side for section in sections for figure in section.figures for side in figure.values}
    lines = [
        "# The race",
        "",
        "Made by `make bench`; what each row measures is in [README.md](README.md). Medians (least–most) of rounds in turns on one machine;",
        "**ratio** is Ottla's median to Apache Kafka's, of CPU also the least to the least, which is meaningful on a busy machine as well.",
        "",
        *told(ground),
        *(f"\n{TITLES[side]} did not run: {why}." for side, why in missing.items() if side not in have_figures),
        "",
        *busy_words(sections),
    ]
    short = headlines(sections)
    if short:
        lines += [
            "## In short",
            "",
            BEGIN + "| beside Apache Kafka | |",
            "|---|---|",
            *(f"| {what} | {told} |" for what, told in short.items()),
            END,
        ]
    lines += [f"![How many times better than Apache Kafka]({CHART})", ""]
    for section in sections:
        lines += table(section, ground)
    return "\n".join(lines)


def ground_of(section: Section) -> Ground:
    return section.machine, section.versions


def most_common(sections: list[Section]) -> Ground:
    """Return the machine and versions that most sections were measured with; in a tie, the first."""
    grounds = [ground_of(section) for section in sections]
    return max(grounds, key=grounds.count, default=("", {}))


def told(ground: Ground) -> list[str]:
    machine, versions = ground
    sides = "; ".join(f"{TITLES[side]} {versions.get(side, 'unknown')}" for side in SIDES)
    return [f"Machine: {machine}.", "", f"Sides: {sides}."]


def busy_words(sections: list[Section]) -> list[str]:
    lines = []
    parts = [section.others_part for section in sections if section.others_part is not None]
    if parts and max(parts) > BUSY_PART:
        lines += [
            f"Other work had up to {max(parts):.0%} of the processors meanwhile (each table says how much): nothing here is to be quoted.",
            "A JVM finds no processor to compile on then, so ratios to Apache Kafka are better than they are on a machine that does nothing else.",
            "",
        ]
    if any(section.is_quick for section in sections):
        lines += [
            "Some rounds were short ones: a JVM has compiled little by then, so Apache Kafka's CPU looks larger than it is in the long run.",
            "",
        ]
    return lines


def is_quotable(section: Section) -> bool:
    """Return whether README may quote a section.

    On a busy machine a JVM has no processor left to compile on: its ratios then favour Ottla.
    """
    return not section.is_quick and section.others_part is not None and section.others_part <= BUSY_PART


def table(section: Section, common: Ground | None = None) -> list[str]:
    """Return a section's table.

    `common` is the machine and versions that need not be repeated, as the report names them once.
    """
    others = "not known" if section.others_part is None else f"{section.others_part:.0%}"
    quick = "; short rounds" if section.is_quick else ""
    lines = [
        f"## {section.title}",
        "",
        f"{section.how}",
        "",
        f"{section.when}, commit {section.commit}, others' part of the machine: {others}{quick}.",
        "",
    ]
    if common is not None and ground_of(section) != common:
        lines += [*told(ground_of(section)), ""]
    if not section.figures:
        return lines
    lines += [f"| | {' | '.join(TITLES[side] for side in SIDES)} | ratio |", "|---|" + "---|" * (len(SIDES) + 1)]
    for figure in section.figures:
        cells = [cell(figure, side) for side in SIDES]
        lines.append(f"| {figure.what}, {figure.unit} | {' | '.join(cells)} | {ratio(figure)} |")
    return [*lines, ""]


def cell(figure: Figure, side: str) -> str:
    values = figure.values.get(side)
    if not values:
        return figure.absent.get(side, "–").replace("|", "/")
    if len(values) == 1:
        return number(values[0])
    return f"{number(statistics.median(values))} ({number(min(values))}–{number(max(values))})"


def ratio(figure: Figure) -> str:
    found = figure.ratio()
    if found is None:
        return ""
    least = figure.ratio(of_the_least=True) if figure.is_cpu else None
    return f"{found:.2f}" + (f" ({least:.2f})" if least is not None else "")


def number(value: float) -> str:
    """Format a number with three significant digits and a separator of thousands."""
    if value == 0:
        return "0"
    digits = next((digits for bound, digits in ((0.1, 3), (10, 2), (100, 1)) if abs(value) < bound), 0)
    return f"{value:,.{digits}f}".replace(",", " ")


def headlines(sections: Iterable[Section]) -> dict[str, str]:
    """Return the lines of HEADLINES that have both figures, from whole rounds on an otherwise idle machine."""
    found = {
        (section.name, figure.what): figure
        for section in sections
        if is_quotable(section)
        for figure in section.figures
    }
    told = {}
    for key, what in HEADLINES.items():
        figure = found.get(key)
        times = figure.ratio() if figure else None
        if figure is None or times is None:
            continue
        theirs, ours = (number(statistics.median(figure.values[side])) for side in (KAFKA, OTTLA))
        told[what] = f"{times:.2f} of its {theirs} {figure.unit}: {ours} {figure.unit}"
    return told


def headlines_of(report: str) -> dict[str, str]:
    """Read the headlines that `rendered` wrote; empty if the report has none."""
    lines = report.partition(BEGIN)[2].partition(END)[0].splitlines()[2:]
    rows = [re.fullmatch(r"\| (.+) \| (.+) \|", line) for line in lines]
    return {row[1]: row[2] for row in rows if row}
