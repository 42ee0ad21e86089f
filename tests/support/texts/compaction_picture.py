"""`docs/pictures/compaction.svg`: the compaction of docs/compaction-explained.md, drawn from a real broker's log.

cd tests && python -m support.texts.compaction_picture      draws it again
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import ottla

PICTURE = Path(__file__).parents[3] / "docs" / "pictures" / "compaction.svg"

FIRST = [
    ("order-1", "new"),
    ("order-2", "new"),
    ("order-1", "paid"),
    ("order-3", "new"),
    ("order-2", "paid"),
    ("order-1", "shipped"),
    ("order-3", None),
    ("order-2", "shipped"),
]
SECOND = [("order-4", "new")]
THIRD = [("order-4", "paid"), ("order-1", "returned")]

LEFT, CELL, HEIGHT, ROW, TOP = 20, 72, 46, 150, 92
COLOURS = {"order-1": "#cfe3ff", "order-2": "#ffe2b8", "order-3": "#e3d4fb", "order-4": "#c9efd4"}


@dataclass(frozen=True)
class Stage:
    """A log at one moment; its head begins at `first_dirty`."""

    title: str
    records: tuple[tuple[int, str, str | None], ...]
    first_dirty: int
    end: int


def stages() -> Iterator[Stage]:
    """Yield the log of the page, three times."""
    with ottla.Broker() as broker:
        broker.create_topic("orders", partitions=1, configs={"cleanup.policy": "compact"})
        broker.produce_all("orders", FIRST)
        yield _stage(broker, "1  Eight records. Nothing is compacted yet: all of the log is its head.")
        broker.compact("orders", force=True)
        yield _stage(
            broker, "2  After a pass: the newest record of each key, at its own offset. A delete is a record, too."
        )
        broker.produce_all("orders", SECOND)
        broker.clock.advance(hours=25)
        broker.compact("orders", force=True)
        broker.produce_all("orders", THIRD)
        yield _stage(broker, "3  A day later, one more pass: the delete is gone. New records make a new head.")


def _stage(broker: ottla.Broker, title: str) -> Stage:
    found = [
        (record.offset, str(record.key, "utf-8"), None if record.value is None else str(record.value, "utf-8"))
        for record in broker.records("orders")
        if record.key is not None
    ]
    (status,) = (each for at, each in broker.cleaner_status().items() if at.topic == "orders")
    return Stage(title, tuple(found), status.eligibility.first_dirty_offset, broker.offsets("orders")[0].end)


def picture() -> str:
    """Return the whole SVG."""
    shown = list(stages())
    columns = max(stage.end for stage in shown)
    width, height = 2 * LEFT + columns * CELL + 90, TOP + len(shown) * ROW + 6
    return "\n".join(
        [*_head(width, height), *(line for at, each in enumerate(shown) for line in _row(each, at)), "</svg>\n"]
    )


def _head(width: int, height: int) -> Iterator[str]:
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title desc">'
    yield '<title id="title">A compacted log, before a pass, after it, and a day later</title>'
    yield f'<desc id="desc">{escape(described())}</desc>'
    yield (
        "<style>text{font:13px system-ui,sans-serif;fill:#1c2330}.offset{font-size:11px;fill:#5a6270}.title{font-weight:600}"
        ".gone text{fill:#8a6d6d}.gone rect{fill:#f6f1f1;stroke-dasharray:4 3}rect{stroke:#7d8796}.mark{stroke:#b3261e;stroke-width:2}"
        ".marked{fill:#b3261e;font-size:12px}.gap{fill:none;stroke:#c6ccd6;stroke-dasharray:2 4}</style>"
    )
    yield f'<rect width="{width}" height="{height}" rx="10" fill="#ffffff" stroke="none"/>'
    yield f'<text x="{LEFT}" y="30" class="title">A topic with cleanup.policy=compact</text>'
    yield f'<text x="{LEFT}" y="50">Offsets never change. Dashed: superseded by a later record of the same key, so the next pass takes it out.</text>'


def _row(stage: Stage, at: int) -> Iterator[str]:
    top = TOP + at * ROW
    present = {offset: (key, value) for offset, key, value in stage.records}
    newest = {key: offset for offset, key, _ in stage.records}
    yield f'<text x="{LEFT}" y="{top - 6}" class="title">{escape(stage.title)}</text>'
    for offset in range(stage.end):
        x = LEFT + offset * CELL
        yield f'<text x="{x + CELL / 2:.0f}" y="{top + 18}" text-anchor="middle" class="offset">{offset}</text>'
        if offset not in present:
            yield f'<rect x="{x + 3}" y="{top + 24}" width="{CELL - 6}" height="{HEIGHT}" rx="5" class="gap"/>'
            continue
        key, value = present[offset]
        kind = ' class="gone"' if newest[key] != offset else ""
        yield f"<g{kind}>"
        yield f'<rect x="{x + 3}" y="{top + 24}" width="{CELL - 6}" height="{HEIGHT}" rx="5" fill="{COLOURS[key]}"/>'
        yield f'<text x="{x + CELL / 2:.0f}" y="{top + 43}" text-anchor="middle">{key}</text>'
        yield f'<text x="{x + CELL / 2:.0f}" y="{top + 61}" text-anchor="middle">{value or "(delete)"}</text></g>'
    clean = LEFT + stage.first_dirty * CELL
    yield f'<path d="M{clean} {top + 14}V{top + 88}" class="mark"/>'
    side = "tail ◂ first dirty offset ▸ head" if 0 < stage.first_dirty < stage.end else "first dirty offset"
    anchor = "start" if stage.first_dirty == 0 else "middle"
    yield f'<text x="{clean}" y="{top + 104}" text-anchor="{anchor}" class="marked">{side}</text>'


def described() -> str:
    """Return the picture in words, for readers who cannot see it."""
    return " ".join(_sentences())


def _sentences() -> Iterator[str]:
    for stage in stages():
        records = ", ".join(f"{offset} {key} {value or '(delete)'}" for offset, key, value in stage.records)
        yield f"{stage.title.partition('  ')[2]} Records: {records}. First dirty offset {stage.first_dirty}, log end {stage.end}."


if __name__ == "__main__":
    PICTURE.write_text(picture())
