"""The chart: how many times better or worse than Apache Kafka, a bar a figure, on a logarithmic scale."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from html import escape

from .figures import Figure, Section
from .report import is_quotable

WIDTH, LEFT, RIGHT, ROW, HEAD, BAR = 860, 400, 90, 20, 44, 13
TICKS = (0.1, 0.25, 0.5, 1, 2, 4, 10, 25)
BETTER, WORSE, INK, FAINT = "#2a78b5", "#c46a2d", "#24292f", "#d0d7de"
PER_SECTION = 16
"""The most bars of a section; more would hide the others."""
LEFT_OUT = re.compile(r"connections: p|fewest|p99\.9")


def drawn(sections: Iterable[Section]) -> str:
    """Return an SVG with a background of its own, so that it is readable on a dark page as well."""
    sections = list(sections)
    bars = [
        (f"{figure.what}, {figure.unit}", better)
        for section in sections
        for figure, better in shown(section.figures)[:PER_SECTION]
    ]
    rough = "" if all(map(is_quotable, sections)) else "; rough: short rounds, or a busy machine"
    height = HEAD + ROW * len(bars) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" role="img">',
        "<title>How many times better than Apache Kafka</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="18" fill="{INK}" font-weight="bold">Ottla, times better (right) or worse (left) than Apache Kafka{rough}</text>',
    ]
    for tick in TICKS:
        ink = INK if tick == 1 else FAINT
        parts.append(f'<path d="M{place(tick):.1f} {HEAD - 6}V{height - 8}" stroke="{ink}"/>')
        parts.append(f'<text x="{place(tick):.1f}" y="{HEAD - 10}" fill="{INK}" text-anchor="middle">{tick:g}</text>')
    for number, (what, better) in enumerate(bars):
        top = HEAD + ROW * number
        begin, end = sorted((place(1), place(better)))
        fill = BETTER if better >= 1 else WORSE
        parts.append(f'<text x="{LEFT - 8}" y="{top + 11}" fill="{INK}" text-anchor="end">{escape(what)}</text>')
        parts.append(
            f'<rect x="{begin:.1f}" y="{top}" width="{max(end - begin, 1):.1f}" height="{BAR}" fill="{fill}"/>'
        )
        parts.append(f'<text x="{WIDTH - 12}" y="{top + 11}" fill="{INK}" text-anchor="end">{better:.2f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def shown(figures: Iterable[Figure]) -> list[tuple[Figure, float]]:
    """Return each figure with the factor by which it is better than Apache Kafka's; by the least value of CPU figures."""
    found = []
    for figure in figures:
        times = figure.ratio(of_the_least=figure.is_cpu)
        if times and not LEFT_OUT.search(figure.what):
            found.append((figure, times if figure.more_is_better else 1 / times))
    return found


def place(better: float) -> float:
    """Return the horizontal position; a value beyond the scale is at its end."""
    low, high = math.log(TICKS[0]), math.log(TICKS[-1])
    part = (min(max(math.log(better), low), high) - low) / (high - low)
    return LEFT + part * (WIDTH - LEFT - RIGHT)
