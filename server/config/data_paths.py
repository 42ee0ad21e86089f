"""Paths that somebody gives for data directories outside of `log.dirs`, where commas separate them."""

from __future__ import annotations

import os

from ...storage.topics.options import ConfigError


def refuse_comma(name: str, given: str) -> None:
    """Nobody who has a folder `my,data` means two, and as one it could not be told to `log.dirs`, which has no escape.

    Raises:
        ConfigError: `given` is a path, or leads through one, that is there and has a comma. `name` is where it was given.
    """
    path = given.strip()
    while "," in path:
        if os.path.lexists(path):
            raise ConfigError(
                f"Invalid value {given} for {name}: {path} is a single path, but log.dirs separates directories with"
                " commas; use a symbolic link without a comma in its name"
            )
        path = os.path.dirname(path)
