"""One partition: the picture of its log, why it waits and what makes it go, the last pass, the next one, and what is left where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from ....storage.cleaning.eligibility import Waits
from ....storage.cleaning.outlook import Move
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
"""Removals that a dry run lists."""


@dataclass(frozen=True, slots=True)
class Button:
    """A call, as a form with nothing to fill in."""

    call: str
    """Method and path."""
    fields: tuple[tuple[str, str], ...]
    """Names and values, as JSON."""
    says: str
    done: str


@dataclass(frozen=True, slots=True)
class Remedied:
    """One thing to do about it."""

    sentence: str
    buttons: tuple[Button, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """Why it waits."""

    topic: str
    partition: int
    is_eligible: bool
    waits_for: str | None
    sentence: str
    is_under_way: bool
    first: Button | None
    """What is most likely wanted."""
    others: tuple[Remedied, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """A dry run."""

    name: str
    is_forced: bool
    picture: PassPicture | None
    sentences: tuple[str, ...]
    refusal: str | None


@dataclass(frozen=True, slots=True)
class Looked:
    """A look at what is left."""

    name: str
    from_offset: int | None
    to_offset: int | None
    contents: Contents | None
    refusal: str | None


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """The partition `partition` of `topic`; with `dry` (or `dry=force`) what the next pass would remove, with `from` and `to` what is left there."""
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
"""Each for the picture that it was found out with: what would make a partition eligible takes ten times as long to say as what it looks like."""


async def _why_of(broker: Broker, log: Log, picture: LogPicture) -> Why:
    known_picture, why = _WHYS.get(log, (None, None))
    if why is None or picture is not known_picture:
        explained = await (await Explaining.of(broker.services, [log], TimeSlice())).next()
        why = _why(picture, explained)
        if explained.waits_for is not Waits.OPEN_TRANSACTION:  # whose coordinator may change its mind
            _WHYS[log] = picture, why
    return why


def _why(picture: LogPicture, explained: PartitionExplanation) -> Why:
    """Times are told as moments: what counts down would be drawn anew each second."""
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
    if explained.waits_for is Waits.ALL_CLEAN:
        return "Nothing is dirty: the whole log is clean."
    if explained.waits_for is Waits.NOT_COMPACTED:
        return "This topic is not compacted: cleanup.policy does not include compact."
    return f"{explained.sentence[:1].upper()}{explained.sentence[1:]}."


def _remedied(topic: str, partition: int, remedy: Remedy) -> Remedied:
    """A remedy with the calls that carry it out, one after the other."""
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
    if Move.ROLL in remedy.moves:
        path = f"POST /v1/topics/{segment(topic)}/roll"
        buttons.append(
            _button(path, {"partitions": f"[{partition}]"}, "Roll the active segment", "Active segment rolled.")
        )
    if remedy.moves == (NEXT_RECORD,):
        return Remedied(remedy.sentence, ())
    return Remedied(remedy.sentence, tuple(buttons))


def _settings(remedy: Remedy) -> dict[str, str]:
    """What its `ottla configs alter` would set."""
    found: dict[str, str] = {}
    for command in remedy.commands:
        words = command.split()
        if words[:3] == ["ottla", "configs", "alter"]:
            found |= {name: value for name, _, value in (word.partition("=") for word in words[4:])}
    return found


def _compact(topic: str, partition: int) -> Button:
    """By force: who presses it wants all there is compacted, the active segment too, whatever ratio and lags say."""
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
"""By range as asked for, after how many passes it was: it reads, so who watches has it again after a pass alone."""
LOOKS_MAX = 16
"""Of one log; all who may watch have room, whatever ranges they look at."""


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
