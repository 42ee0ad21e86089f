"""Histories of the cleaner that a release compacts differently.

`differential` records each history on the release, and Ottla replays it. Since Ottla compacts as the release that it follows, what
differs then is what the new release does differently.
"""

import re
from pathlib import Path

from ...support.brokers.apache_kafka import VERSION, jars
from ..differential import replay_storage, replay_transactions, replay_wire
from ..differential.__main__ import played
from ..differential.history import load
from ..differential.record import RECORDED, TRANSACTIONS_FILE, WIRE_FILE, record
from .tables import Table, differences

BUILD = Path(__file__).parents[3] / "build" / "compat" / "release"
TIME = re.compile(r"\b1[6-9]\d{11}\b")
KINDS = (
    ("over the wire", WIRE_FILE, replay_wire.replay),
    ("below the wire", TRANSACTIONS_FILE, replay_storage.replay),
    ("over the wire", TRANSACTIONS_FILE, replay_transactions.replay),
)


def histories(old: str, new: str) -> Table:
    """Compare what the cleaners of two releases leave of the same histories."""
    before, after = (findings(recording(version)) for version in (old, new))
    notes = [
        f"{len(some)} replays of histories that {version} played" for version, some in ((old, before), (new, after))
    ]
    return Table("Histories of the cleaner", ("history", old, new), differences(before, after), notes)


def recording(version: str) -> Path:
    """Return the folder with this release's histories, recorded now if need be: a quarter of an hour."""
    folder = RECORDED if version == VERSION else BUILD / version
    if not (folder / TRANSACTIONS_FILE).exists():  # the file that is written last
        jars(version)
        record(folder, version)
    return folder


def findings(folder: Path) -> dict[str, str]:
    """Return whether Ottla's replay of each recorded history leaves the same, by name and theme. Times differ by run: TIME."""
    found = {}
    for how, file, replay in KINDS:
        for history in load(folder / file):
            if replay is not replay_transactions.replay or history.map_entries is None:
                found[f"{history.name} ({history.theme}), {how}"] = shown(played(history, replay).differences)
    return found


def shown(some: list[str]) -> str:
    return f"{len(some)} differences, first {TIME.sub('TIME', some[0].partition(', ')[2])}" if some else "as Ottla"
