"""Report as one HTML page for people who must prove an erasure: it needs no other file, and has no script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from ..pictures.page import document
from ..pictures.svg import words
from .places import Contents, KeyReport, Place, Verdict

FILES_SHOWN_MAX = 2_000
"""Maximum number of files in the page; the JSON form has more."""

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1.5rem; }
th, td { border: 1px solid #9aa3ab; padding: 0.25rem 0.5rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
td.path { overflow-wrap: anywhere; font-family: ui-monospace, monospace; font-size: 0.9em; }
.verdict { border: 2px solid; padding: 0.75rem 1rem; font-weight: 600; }
"""

VERDICTS = {
    Verdict.GONE: "Gone: no record of the keys was found.",
    Verdict.TOMBSTONES: "No value was found. Tombstones still have the keys themselves.",
    Verdict.HELD: "Not erased: values of the keys were found.",
    Verdict.UNPROVEN: "Not proven: no value was found, but something could not be searched.",
}


def page(report: KeyReport) -> str:
    """Return the whole page."""
    return document(f"Erasure from {report.topic}", "".join(_body(report)))


def moment(at_ms: int | None) -> str:
    """Return a time as text, or as a number of milliseconds if it has no calendar date; a dash for None."""
    if at_ms is None:
        return "–"
    try:
        found = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms since 1970"
    return f"{found:%Y-%m-%d %H:%M:%S} UTC"


def _body(report: KeyReport) -> Iterator[str]:
    yield f"<style>{_STYLE}</style><h1>Erasure from topic {words(report.topic)}</h1>"
    yield f'<p class="verdict">{words(VERDICTS[report.verdict])}</p>'
    yield (
        f"<p>Searched at {words(moment(report.now_ms))}: {report.files_searched} files, {report.bytes_searched} bytes and"
        f" {report.records_searched} records in log files. Found: {report.values_found} values and"
        f" {report.tombstones_found} tombstones.</p>"
    )
    if not report.are_all_listed:
        yield "<p>The lists below are not complete; these numbers are.</p>"
    yield from _list("Sources", report.sources)
    keys = ((_key(each.key, each.key_encoding), each.values, each.tombstones) for each in report.keys)
    yield from _table("Keys", ("Key", "Values found", "Tombstones found"), keys)
    yield from _table(
        "Places that still have a key",
        (
            "File",
            "Key",
            "Values",
            "Tombstones",
            "Offsets",
            "Newest record",
            "Why it is there",
            "Not before",
            "At the latest",
        ),
        map(_place, report.places),
        "None.",
    )
    unread = ((each.path, each.problem) for each in report.unread)
    yield from _table("Not searched, or only in part", ("File or directory", "Problem"), unread, "None.")
    yield from _list("What this search cannot see", report.not_seen)
    kinds = {Contents.RECORDS: "records, all searched", Contents.NO_KEYS: "numbers only: its format has no keys"}
    files = (
        (each.path, kinds[each.contents], each.size_bytes, each.batches, each.records)
        for each in report.files[:FILES_SHOWN_MAX]
    )
    yield from _table("Files", ("File", "Contents", "Bytes", "Batches", "Records"), files, "None.")
    if len(report.files) > FILES_SHOWN_MAX:
        yield f"<p>and {report.files_searched - FILES_SHOWN_MAX} more</p>"


def _place(place: Place) -> Sequence[object]:
    offsets = str(place.first_offset)
    if place.last_offset != place.first_offset:
        offsets += f" to {place.last_offset}"
    return (
        place.path,
        _key(place.key, place.key_encoding),
        place.values,
        place.tombstones,
        offsets,
        moment(place.newest_timestamp_ms if place.newest_timestamp_ms >= 0 else None),
        f"{place.why.replace('_', ' ')}: {place.explanation}",
        moment(place.not_before_ms),
        moment(place.at_the_latest_ms),
    )


def _key(text: str, encoding: str) -> str:
    return text if encoding == "text" else f"{text} ({encoding})"


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    yield f"<h2>{title}</h2><ul>"
    yield from (f"<li>{words(each)}</li>" for each in items)
    yield "</ul>"


def _table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]], empty: str = "") -> Iterator[str]:
    yield f"<h2>{title}</h2>"
    is_empty = True
    for row in rows:
        if is_empty:
            yield f"<table><tr>{''.join(f'<th>{name}</th>' for name in header)}</tr>"
        is_empty = False
        yield f"<tr>{''.join(map(_cell, row))}</tr>"
    yield f"<p>{empty}</p>" if is_empty else "</table>"


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value}</td>'
    kind = ' class="path"' if str(value).startswith("/") else ""
    return f"<td{kind}>{words(str(value))}</td>"
