"""The content of drawings: where bars and marks are, for any log."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from ottla.storage.cleaning.progress import Phase
from ottla.storage.pictures import page, svg
from ottla.storage.pictures.log_picture import Bucket, Contents, GroupPicture, Horizon, LogPicture, Part, PassPicture
from ottla.storage.pictures.log_svg import contents_svg, log_svg
from ottla.storage.pictures.pass_svg import pass_svg
from ottla.storage.pictures.passes import pass_of
from ottla.storage.pictures.scale import Axis, Scale, grouped, labels, marks
from support.noted import each_case
from support.pictures.made import LOG, SVG, boxes, parsed, parts, percent, picture, running, texts

BARS = [f"bar {part.value}" for part in Part]
HOSTILE = '<script>alert("1")</script>&\'\x00\u202e\ud800'


def random_logs() -> list[LogPicture]:
    rng = random.Random(6)
    found = []
    for _ in range(60):
        sizes = sorted(rng.randrange(6) for _ in range(3))
        spec = [
            (part, rng.choice((0, 1, 7, 10**3, 10**9, 2**52)), rng.choice((0, 61, 10**4, 10**12)))
            for part, count in zip(("clean", "dirty", "held"), sizes, strict=True)
            for _ in range(count)
        ]
        spec.append(("active", rng.choice((0, 1, 500)), rng.choice((0, 61, 10**6))))
        start = rng.choice((0, 5, 2**62))
        end = start + sum(count for _, count, _ in spec)
        stable = rng.randint(start, end)
        found.append(
            picture(
                *spec,
                start=start,
                last_stable_offset=stable,
                high_watermark=rng.randint(stable, end),
                horizon=Horizon(at_ms=1, offset=rng.randint(start, end)),
            )
        )
    return found


@each_case("axis", Axis)
@each_case("found", random_logs())
def test_bars_fill_the_width_in_order_and_contain_their_marks(found: LogPicture, axis: Axis) -> None:
    drawing = log_svg(found, axis)
    bars = boxes(drawing, *BARS)
    is_empty = not any(bar.size_bytes if axis is Axis.BYTES else bar.end_offset - bar.base_offset for bar in found.bars)
    assert bool(bars) is not is_empty
    if bars:
        assert bars[0].left == 0
        assert bars[-1].right == pytest.approx(100, abs=0.002)
        assert all(one.right == pytest.approx(following.left, abs=0.003) for one, following in pairwise(bars))
    order = ["clean", "dirty", "held", "active"]
    drawn = parts(bars)
    assert drawn == [part for part in order if part in drawn]
    lines = [percent(each.get("x1")) for each in parsed(drawing).iter(f"{SVG}line")]
    assert lines
    assert all(0 <= at <= 100 for at in lines)
    assert lines == sorted(lines)


@each_case("found", random_logs())
def test_mark_labels_do_not_overlap_and_fit_a_narrow_picture(found: LogPicture) -> None:
    scale = Scale(found.bars, Axis.OFFSETS)
    placed = labels(marks(found, scale), svg.NARROW, svg.CHARACTER)
    extents: dict[int, list[tuple[float, float]]] = {}
    for label in placed:
        length = (len(label.mark.text) + 1) * svg.CHARACTER
        left = label.place * svg.NARROW - (length if label.anchor == "end" else 0)
        assert left >= -2 * svg.CHARACTER
        assert left + length <= svg.NARROW + 2 * svg.CHARACTER
        extents.setdefault(label.lane, []).append((left, left + length))
    for lane in extents.values():
        assert all(one[1] <= following[0] for one, following in pairwise(sorted(lane)))


def test_the_positions_in_a_plain_log_are_exact() -> None:
    drawing = log_svg(picture(*LOG, horizon=Horizon(at_ms=1, offset=500)))
    assert [(box.kind, box.left, box.right) for box in boxes(drawing, *BARS)] == [
        ("bar clean", 0, 20),
        ("bar dirty", 20, 40),
        ("bar dirty", 40, 80),
        ("bar held", 80, 92),
        ("bar active", 92, 100),
    ]
    said = texts(drawing)
    assert [text for text in said if len(text) > 1] == [
        "log start 0",
        "delete horizon 500",
        f"first dirty {grouped(1000)}",
        f"uncleanable from {grouped(4000)}",
        f"last stable = high watermark = log end {grouped(5000)}",
    ]
    assert [text for text in said if len(text) == 1] == ["C", "D", "H", "A"]


def test_an_empty_log_is_described_and_one_record_fills_it() -> None:
    assert texts(log_svg(picture(("active", 0, 0)))) == ["no records", "empty, the next offset is 0"]
    assert [(box.left, box.right) for box in boxes(log_svg(picture(("active", 1, 70))), *BARS)] == [(0, 100)]


def test_ten_thousand_segments_become_few_bars() -> None:
    rng = random.Random(1)
    spec = [("clean" if at < 4_000 else "dirty", rng.randrange(1, 2_000), rng.randrange(10**6)) for at in range(10_000)]
    for axis in Axis:
        drawing = log_svg(picture(*spec, ("active", 10, 10)), axis)
        bars = boxes(drawing, *BARS)
        assert len(bars) <= 170
        assert len(drawing) < 40_000
        assert parts(bars)[:2] == ["clean", "dirty"]


@pytest.mark.parametrize(
    ("phase", "fields", "span", "now", "said"),
    [
        (Phase.PREPARING, {}, (20, 20), 20, "a pass is starting"),
        (Phase.MAP, {}, (20, 80), 60, "a pass is reading keys: 79 %"),
        (Phase.MAP, {"map_offset": 1000, "map_bytes_read": 0}, (20, 80), 20, "a pass is reading keys: 0 %"),
        (Phase.MAP, {"map_bytes": 0, "map_bytes_read": 0, "map_offset": 9000}, (20, 80), 80, "a pass is reading keys: 100 %"),
        (Phase.GROUPS, {}, (40, 80), 60, "a pass is copying group 2 of 2: 79 %"),
        (Phase.GROUPS, {"group": 0, "group_count": 0, "bytes_to_read": 0}, (20, 20), 20, "a pass is copying group 0 of 0: 100 %"),
        (Phase.GROUPS, {"group_bytes": 0, "group_bytes_read": 0}, (40, 80), 80, "a pass is copying group 2 of 2: 79 %"),
    ],
)  # fmt: skip
def test_a_running_pass_is_shown_at_its_position(
    phase: Phase, fields: dict[str, int], span: tuple[float, float], now: float, said: str
) -> None:
    drawing = log_svg(picture(*LOG, running=running(phase, **fields)))
    (whole,) = boxes(drawing, "pass-span")
    (shade,) = boxes(drawing, "pass-shade")
    assert (whole.left, whole.right, shade.left, shade.right) == (*span, span[0], now)
    assert said in texts(drawing)


def groups(count: int, *, tried: bool = True) -> list[GroupPicture]:
    return [
        GroupPicture(
            base_offset=100 * number,
            end_offset=100 * number + 100,
            segments_before=2,
            segments_after=1,
            source_bytes=(600, 400),
            bytes_before=1000,
            bytes_after=250 if tried else None,
            records_before=100,
            records_after=25 if tried else None,
        )
        for number in range(count)
    ]


def done(count: int, *, tried: bool = True) -> PassPicture:
    return pass_of(
        groups(count, tried=tried),
        first_dirty_offset=0,
        upper_offset=100 * count,
        removed={"superseded": 75 * count, "markers": 0},
        ended_at_ms=1,
    )


def test_a_pass_shows_kept_and_removed_records_and_its_result() -> None:
    drawing = pass_svg(done(2), "orders-0")
    assert [(box.left, box.right) for box in boxes(drawing, "kept")] == [(0, 12.5), (50, 62.5)]
    assert [(box.left, box.right) for box in boxes(drawing, "gone")] == [(12.5, 50), (62.5, 100)]
    assert [(box.left, box.right) for box in boxes(drawing, "bar clean")] == [(0, 12.5), (12.5, 25)]
    assert texts(drawing) == [
        "before: 2.0 KiB, 200 records, 4 segments",
        "after: 500 B (25 %), 50 records, 2 segments",
        "hatched: removed",
    ]


def test_an_unmeasured_pass_has_no_result() -> None:
    drawing = pass_svg(done(2, tried=False), "orders-0")
    assert not boxes(drawing, "gone", "kept", "bar clean")
    assert [(box.left, box.right) for box in boxes(drawing, "bar closed")] == [(0, 50), (50, 100)]


@pytest.mark.parametrize("count", [0, 1, 239, 241, 10_000])
def test_very_many_groups_are_merged_without_loss(count: int) -> None:
    found = done(count)
    assert len(found.groups) <= 160
    assert sum(len(each.source_bytes) for each in found.groups) <= 320
    assert (found.bytes_before, found.bytes_after, found.segments_before) == (1000 * count, 250 * count, 2 * count)
    for whole, name in ((found.bytes_before, "bytes_before"), (found.records_before, "records_before")):
        assert sum(getattr(each, name) for each in found.groups) == whole
    assert all(sum(each.source_bytes) == each.bytes_before for each in found.groups)
    drawing = pass_svg(found, "orders-0")
    assert len(drawing) < 100_000
    edges = boxes(drawing, "kept", "gone")
    assert not count or edges[0].left == 0
    assert not count or edges[-1].right == pytest.approx(100, abs=0.01)


def contents(*records: int, width: int = 10, looked_at: int | None = None) -> Contents:
    buckets = tuple(
        Bucket(from_offset=width * at, to_offset=width * at + width, records=count, tombstones=count // 2, markers=0)
        for at, count in enumerate(records)
    )
    end = width * len(records)
    reached = end if looked_at is None else looked_at
    return Contents(
        from_offset=0, to_offset=end, buckets=buckets, looked_at_to_offset=reached, records=sum(records), horizon=None
    )


def test_survivors_are_drawn_and_gaps_are_not() -> None:
    drawing = contents_svg(contents(0, 1, 10, 0), "orders-0")
    assert [(box.left, box.right) for box in boxes(drawing, "survivors")] == [(25, 50), (50, 75)]
    assert [(box.left, box.right) for box in boxes(drawing, "tombstones")] == [(50, 75)]
    assert [(box.left, box.right) for box in boxes(contents_svg(contents(1, looked_at=5), "t-0"), "beyond")] == [
        (50, 100)
    ]
    assert boxes(contents_svg(contents(), "t-0"), "survivors") == []


def test_hostile_names_stay_text() -> None:
    hostile = replace(picture(*LOG), topic=HOSTILE, explanation=HOSTILE)
    for drawing in (log_svg(hostile), pass_svg(done(1), HOSTILE), contents_svg(contents(3), HOSTILE)):
        assert "<script" not in drawing
        assert {each.tag.removeprefix(SVG) for each in parsed(drawing).iter()} <= {
            *("svg", "title", "desc", "rect", "line", "text", "g", "circle", "path"),
        }
    for html in (page.fragment(HOSTILE, [hostile]), page.plan_fragment(HOSTILE, [(HOSTILE, done(1))])):
        assert "<script" not in html
        assert "\x00" not in html
        html.encode()
    assert "<script" not in page.document(HOSTILE.replace("\ud800", ""), "")


def test_drawings_describe_themselves_without_styles_or_addresses() -> None:
    for drawing in (log_svg(picture(*LOG)), pass_svg(done(2), "t-0"), contents_svg(contents(3), "t-0")):
        root = parsed(drawing)
        assert not [each for each in root.iter() if "style" in each.attrib or "href" in each.attrib]
        assert [each.tag for each in root][:2] == [f"{SVG}title", f"{SVG}desc"]
        assert all(each.text for each in list(root)[:2])


def test_a_fragment_is_self_contained_and_bounded() -> None:
    html = page.fragment("orders", [picture(*LOG)] * 200)
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "and 150 more" in html
    assert len(html) < 500_000
    assert page.style() in html
