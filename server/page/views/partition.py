"""One partition: the picture of its log, its last and next pass, and its remaining records.

The page also shows why the partition is not cleaned, with remedies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from ....storage.cleaning.eligibility import BlockedReason
from ....storage.cleaning.outlook import RemedyAction
from ....storage.logs.log import Log
from ....storage.pictures.log_picture import Contents, LogPicture, PassPicture
from ....storage.pictures.passes import pass_tried
from ...broker.broker import Broker
from ...cleaning.advice import ADVANCE_CLOCK, NEXT_RECORD, WAIT, Remedy, moment
from ...control.dry_run import dry_run
from ...control.partitions import logs_of
from ...control.pictures import partition_picture, picture_of
from ...runtime.errors import ControlError
from ...runtime.time_slices import TimeSlice
from ...services.explaining import Explaining, PartitionExplanation
from ..section import EVENTS, Page, Section, number_in, segment

RECORDS_MAX = 20
"""Maximum number of removals that a dry run lists."""


@dataclass(frozen=True, slots=True)
class Button:
    """A call, as a form without input fields."""

    call: str
    """Method and path."""
    fields: tuple[tuple[str, str], ...]
    """Names and values, as JSON."""
    says: str
    done: str


@dataclass(frozen=True, slots=True)
class Remedied:
    """A remedy with its buttons."""

    sentence: str
    buttons: tuple[Button, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """Why the partition is not cleaned."""

    topic: str
    partition: int
    is_eligible: bool
    waits_for: str | None
    sentence: str
    is_under_way: bool
    first: Button | None
    """The most likely action."""
    others: tuple[Remedied, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """Result of a dry run."""

    name: str
    is_forced: bool
    picture: PassPicture | None
    sentences: tuple[str, ...]
    refusal: str | None


@dataclass(frozen=True, slots=True)
class Looked:
    """Remaining records in a range."""

    name: str
    from_offset: int | None
    to_offset: int | None
    contents: Contents | None
    refusal: str | None


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of the partition `partition` of `topic`.

    `dry` (or `dry=force`) shows what the next pass would remove, `from` and `to` the remaining records in a range.
    """
    topic = fields["topic"]
    log = _log(broker, topic, fields["partition"])
    picture = await picture_of(broker, log)
    why = await _why_of(broker, log, picture)
    is_watched = EVENTS in fields
    tried = Tried(picture.name, False, None, (), None)
    if not is_watched:
        tried = await _tried(broker, picture, fields.get("dry"))
    looked = await _looked_of(broker, log, picture, fields, is_watched=is_watched)
    return Page(
        picture.name,
        "/topics",
        (
            Section("log", "log", picture),
            Section("why", "why", why),
            Section("last", "last_pass", (picture.name, picture.passes, picture.last_pass)),
            Section("next", "next_pass", tried, is_still=True),
            Section("survivors", "survivors", looked),
        ),
        trail=(("Topics", "/topics"), (topic, f"/topics/{segment(topic)}")),
    )


def _log(broker: Broker, topic: str, text: str) -> Log:
    (log,) = logs_of(broker, topic, [number_in("partition", text, 10) or 0])
    return log


_WHYS: WeakKeyDictionary[Log, tuple[LogPicture, Why]] = WeakKeyDictionary()
"""Cache: the last explanation of each log, with the picture that it belongs to. Finding remedies takes ten times as
long as the picture.
"""


async def _why_of(broker: Broker, log: Log, picture: LogPicture) -> Why:
    known_picture, why = _WHYS.get(log, (None, None))
    if why is None or picture is not known_picture:
        explained = await (await Explaining.load(broker.services, [log], TimeSlice())).next()
        why = _why(picture, explained)
        if (
            explained.waits_for is not BlockedReason.OPEN_TRANSACTION
        ):  # the coordinator of the transaction may change its decision
            _WHYS[log] = picture, why
    return why


def _why(picture: LogPicture, explained: PartitionExplanation) -> Why:
    """Return why the partition is not cleaned. Times are absolute: a countdown would be drawn again each second."""
    topic, partition = picture.topic, picture.partition
    is_under_way = picture.running is not None
    first: Button | None = None
    if not picture.is_compacted:
        first = _configs(topic, {"cleanup.policy": "compact"}, "Make this topic compacted")
    elif not is_under_way and (explained.eligible or explained.cleaner.eligibility.forced_bytes):
        first = _compact(topic, partition)
    others = tuple(_remedied(topic, partition, each) for each in explained.remedies if "force" not in each.moves)
    return Why(
        topic,
        partition,
        explained.eligible,
        explained.waits_for and explained.waits_for.value,
        "A pass is running." if is_under_way else _still(explained),
        is_under_way,
        first,
        () if is_under_way else others,
    )


def _still(explained: PartitionExplanation) -> str:
    if explained.eligible:
        return "Eligible: the next round of the cleaner will clean it, after dirtier logs."
    if explained.waits_for is BlockedReason.ALL_CLEAN:
        return "Nothing is dirty: the whole log is clean."
    if explained.waits_for is BlockedReason.NOT_COMPACTED:
        return "This topic is not compacted: cleanup.policy does not include compact."
    return f"{explained.sentence[:1].upper()}{explained.sentence[1:]}."


def _remedied(topic: str, partition: int, remedy: Remedy) -> Remedied:
    """Return a remedy with the calls that carry it out, in order."""
    if set(remedy.moves) & {WAIT, ADVANCE_CLOCK} and remedy.eligible_at_ms is not None:
        at = moment(remedy.eligible_at_ms)
        button = _button(
            "PUT /v1/clock", {"now_ms": str(remedy.eligible_at_ms)}, f"Move the clock to {at}", "Clock moved."
        )
        ends = ", and the active segment rolls" if ADVANCE_CLOCK in remedy.moves else ""
        return Remedied(f"eligible at {at}{ends}", (button,))
    buttons = []
    if configs := _settings(remedy):
        buttons.append(
            _configs(topic, configs, f"Set {', '.join(f'{name}={value}' for name, value in configs.items())}")
        )
    if RemedyAction.ROLL in remedy.moves:
        path = f"POST /v1/topics/{segment(topic)}/roll"
        buttons.append(
            _button(path, {"partitions": f"[{partition}]"}, "Roll the active segment", "Active segment rolled.")
        )
    if remedy.moves == (NEXT_RECORD,):
        return Remedied(remedy.sentence, ())
    return Remedied(remedy.sentence, tuple(buttons))


def _settings(remedy: Remedy) -> dict[str, str]:
    """Return the options that its `ottla configs alter` sets."""
    found: dict[str, str] = {}
    for command in remedy.commands:
        words = command.split()
        if words[:3] == ["ottla", "configs", "alter"]:
            found |= {name: value for name, _, value in (word.partition("=") for word in words[4:])}
    return found


def _compact(topic: str, partition: int) -> Button:
    """Return a forced compaction.

    The user of the button wants everything compacted, including the active segment, whatever the ratio and lags.
    """
    fields = {"partitions": f"[{partition}]", "force": "true"}
    return _button(f"POST /v1/topics/{segment(topic)}/compact", fields, "Compact now", "Compacted.")


def _configs(topic: str, configs: Mapping[str, str], says: str) -> Button:
    path = f"POST /v1/topics/{segment(topic)}/configs"
    return _button(path, {f"configs/{name}": f'"{value}"' for name, value in configs.items()}, says, "Option set.")


def _button(call: str, fields: Mapping[str, str], says: str, done: str) -> Button:
    return Button(call, tuple(fields.items()), says, done)


async def _tried(broker: Broker, picture: LogPicture, wanted: str | None) -> Tried:
    found = Tried(picture.name, wanted == "force", None, (), None)
    if wanted is None:
        return found
    try:
        run = await dry_run(broker, picture.topic, picture.partition, force=found.is_forced, records_max=RECORDS_MAX)
    except ControlError as refused:
        return replace(found, refusal=str(refused))
    (each,) = run.partitions
    return replace(found, picture=pass_tried(each.would_pass), sentences=each.sentences)


_LOOKS: WeakKeyDictionary[Log, dict[tuple[str, str], tuple[int, Looked]]] = WeakKeyDictionary()
"""Cache by range, with the number of passes at the time. A look reads the log, so a watched page repeats it only after
a pass.
"""
LOOKS_MAX = 16
"""Maximum number of ranges of one log: enough for all pages that may be watched at a time."""


async def _looked_of(
    broker: Broker, log: Log, picture: LogPicture, fields: Mapping[str, str], *, is_watched: bool
) -> Looked:
    looks = _LOOKS.setdefault(log, {})
    asked = fields.get("from", ""), fields.get("to", "")
    known = looks.get(asked)
    if known is not None and is_watched and known[0] == picture.passes:
        return known[1]
    looked = await _looked(broker, picture, fields)
    looks.pop(asked, None)
    if len(looks) >= LOOKS_MAX:
        del looks[next(iter(looks))]
    looks[asked] = picture.passes, looked
    return looked


async def _looked(broker: Broker, picture: LogPicture, fields: Mapping[str, str]) -> Looked:
    try:
        low, high = number_in("from", fields.get("from", "")), number_in("to", fields.get("to", ""))
        look = await partition_picture(broker, picture.topic, picture.partition, from_offset=low, to_offset=high)
    except ControlError as refused:
        return Looked(picture.name, None, None, None, str(refused))
    return Looked(picture.name, look.contents.from_offset, look.contents.to_offset, look.contents, None)
