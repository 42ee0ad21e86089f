"""Advice as one HTML page with curves of the size; it needs no other file, and has no script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..pictures import svg
from ..pictures.page import document, style
from .advising import CURVE_POINTS, Costs
from .notes import size_text, time_text

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; }
th, td { border: 1px solid #9aa3ab; padding: 0.25rem 0.5rem; text-align: left; }
td { font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid #9aa3ab; padding: 0.5rem; }
.curve { fill: none; stroke-width: 2; }
.curve-0 { stroke: var(--p-quiet); stroke-dasharray: 6 3; }
.curve-1 { stroke: var(--p-clean); }
"""
_TOP, _HEIGHT, _BOTTOM = 18.0, 200.0, 20.0
_UNITS = 1_000


def page(
    topic: str,
    header: str,
    notes: Sequence[str],
    columns: Sequence[tuple[str, Costs]],
    rows: Sequence[tuple[str, Sequence[str]]],
    misses: Sequence[str],
    commands: Sequence[str],
) -> str:
    """Return the whole page.

    Args:
        columns: Name and costs of one or two settings, for the curves; the rows have the same columns.
        commands: Lines that set the advised settings.
    """
    return document(f"Compaction of {topic}", "".join(_body(topic, header, notes, columns, rows, misses, commands)))


def _body(
    topic: str,
    header: str,
    notes: Sequence[str],
    columns: Sequence[tuple[str, Costs]],
    rows: Sequence[tuple[str, Sequence[str]]],
    misses: Sequence[str],
    commands: Sequence[str],
) -> Iterator[str]:
    yield f'<style>{style()}{_STYLE}</style><main class="ottla-picture"><h1>Compaction of topic {svg.words(topic)}</h1>'
    yield f"<p>{svg.words(header)}</p>"
    yield from (f"<p>{svg.words(each)}</p>" for each in notes)
    yield "<h2>Size over time</h2>"
    yield curves(columns)
    yield "<h2>Costs</h2><table><tr><th>Costs</th>"
    yield from (f"<th>{svg.words(name)}</th>" for name, _ in columns)
    yield "</tr>"
    for label, cells in rows:
        yield f"<tr><th>{svg.words(label)}</th>{''.join(f'<td>{svg.words(cell)}</td>' for cell in cells)}</tr>"
    yield "</table>"
    yield from (f"<p>Not reached: {svg.words(each)}.</p>" for each in misses)
    if commands:
        yield f"<h2>To set them</h2><pre>{svg.words(commands[0])}"
        yield from (f"\n\n{svg.words(each)}" for each in commands[1:])
        yield "</pre>"
    yield "</main>"


def curves(columns: Sequence[tuple[str, Costs]]) -> str:
    """Draw the size of the logs over time, one line for each of the settings."""
    highest = max((max(costs.curve_bytes, default=0) for _, costs in columns), default=0) or 1
    span = time_text(max((costs.span_ms for _, costs in columns), default=0)) or ""
    lines = [
        svg.tag(
            "polyline",
            class_=f"curve curve-{number}",
            points=_points(costs.curve_bytes, highest),
            vector_effect="non-scaling-stroke",
        )
        for number, (_, costs) in enumerate(columns)
    ]
    said = ", ".join(f"{name} up to {size_text(max(costs.curve_bytes, default=0))}" for name, costs in columns)
    return svg.drawing(
        _TOP + _HEIGHT + _BOTTOM * (1 + len(columns)),
        "Size of the logs over time",
        f"{said}; over {span}",
        svg.text(0, _TOP - 5, size_text(highest)),
        svg.tag(
            "svg",
            *lines,
            x=0,
            y=_TOP,
            width="100%",
            height=_HEIGHT,
            viewBox=f"0 0 {_UNITS} {_UNITS}",
            preserveAspectRatio="none",
        ),
        svg.bar(0, 1, _TOP, _HEIGHT, "outline"),
        svg.text(0, _TOP + _HEIGHT + _BOTTOM - 4, "now"),
        svg.text(1, _TOP + _HEIGHT + _BOTTOM - 4, f"after {span}", anchor="end"),
        *(
            piece
            for number, (name, _) in enumerate(columns)
            for piece in _key(number, name, _TOP + _HEIGHT + _BOTTOM * (2 + number) - 4)
        ),
        kind="advice",
    )


def _points(sizes: Sequence[int], highest: int) -> str:
    step = _UNITS / max(1, CURVE_POINTS - 1)
    return " ".join(f"{number * step:.1f},{_UNITS - _UNITS * size / highest:.1f}" for number, size in enumerate(sizes))


def _key(number: int, name: str, y: float) -> Iterator[str]:
    yield svg.tag("line", class_=f"curve curve-{number}", x1=0, x2=30, y1=y - 4, y2=y - 4)
    yield svg.text(0, y, name, dx=36)
