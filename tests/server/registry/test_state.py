"""The fold of `_schemas`: what it says after any history, and after any compaction of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.registry import state as state_module
from ottla.server.registry.errors import RegistryError
from ottla.server.registry.records import (
    Pair,
    Reference,
    UnreadableRecordError,
    Version,
    clear_subject_record,
    config_record,
    content_of,
    delete_subject_record,
    mode_record,
    parse_record,
    schema_record,
    schema_tombstone,
)
from ottla.server.registry.state import State
from support.noted import each_case

TEXTS = [content_of("AVRO", f'"{name}"') for name in ("int", "long", "string", "bytes")]
REFERRING = content_of("AVRO", '"r"', (Reference("a", "a", 1),))


def folded(pairs: Sequence[Pair]) -> State:
    state = State()
    for pair in pairs:
        entry = parse_record(*pair)
        if entry is not None:
            for _ in state.apply(entry):
                pass
    return state


def visible(state: State) -> Any:
    """Return what clients can see."""
    return (
        {subject: list(versions.values()) for subject, versions in sorted(state.subjects.items())},
        {
            name: (context.contents, context.places, context.ids)
            for name, context in state.contexts.items()
            if context.contents
        },
        state.configs,
        state.modes,
        {place: set(referrers) for place, referrers in state.referrers.items()},
        state.versions_count,
        state.text_bytes,
    )


def version(subject: str, number: int, schema_id: int, *, deleted: bool = False) -> Pair:
    """Return the record of a version; its schema follows from its id, as in a registry."""
    content = REFERRING if schema_id == len(TEXTS) else TEXTS[schema_id]
    return schema_record(Version(subject, number, schema_id, content, deleted))


subjects = st.sampled_from(["a", "b", ":.c:a"])
numbers = st.integers(1, 3)
records = st.one_of(
    st.builds(version, subjects, numbers, st.integers(0, len(TEXTS)), deleted=st.booleans()),
    st.builds(schema_tombstone, subjects, numbers),
    st.builds(delete_subject_record, subjects, numbers),
    st.builds(config_record, st.none() | subjects, st.none() | st.just({"compatibilityLevel": "FULL"})),
    st.builds(mode_record, st.none() | subjects, st.none() | st.sampled_from(["READONLY", "IMPORT"])),
)


def plausible(history: list[Pair]) -> list[Pair]:
    """Return the history of a registry: a subject's versions are deleted by a watermark that only grows."""
    watermarks: dict[bytes, int] = {}
    kept = []
    for key, value in history:
        if value is not None and b"DELETE_SUBJECT" in key:
            entry = parse_record(key, value)
            assert entry is not None
            if entry.version < watermarks.get(key, 0):
                continue
            watermarks[key] = entry.version
        kept.append((key, value))
    return kept


@given(st.lists(records, max_size=25))
def test_indexes_follow_from_the_versions(history: list[Pair]) -> None:
    state = folded(history)
    again = State()
    for versions in state.subjects.values():
        assert list(versions) == sorted(versions)
        for each in versions.values():
            entry = parse_record(*schema_record(each))
            assert entry is not None
            for _ in again.apply(entry):
                pass
    settings = [config_record(*each) for each in state.configs.items()] + [
        mode_record(*each) for each in state.modes.items()
    ]
    for pair in settings:
        entry = parse_record(*pair)
        assert entry is not None
        for _ in again.apply(entry):
            pass
    assert visible(state) == visible(again)


@given(st.lists(records, max_size=25).map(plausible), st.randoms(use_true_random=False))
def test_a_compacted_topic_says_the_same(history: list[Pair], rng: random.Random) -> None:
    """A pass removes records with a newer one of the same key below some offset, and some tombstones."""
    upto = rng.randint(0, len(history))
    newest = {key: at for at, (key, _) in enumerate(history)}
    dirty = history[:upto]
    kept = [
        pair
        for at, pair in enumerate(dirty)
        if at >= max((n for n, each in enumerate(dirty) if each[0] == pair[0]), default=0)
        and not (pair[1] is None and newest[pair[0]] == at and rng.random() < 0.5)
    ]
    compacted = [*kept, *history[upto:]]
    assert visible(folded(compacted)) == visible(folded(history))


def test_deleted_versions_stay_until_they_are_cleared() -> None:
    history = [version("a", 1, 0), version("a", 2, 1), version("b", 1, 2), delete_subject_record("a", 2)]
    state = folded(history)
    assert [each.is_deleted for each in state.versions("a")] == [True, True]
    assert not state.has_subject("a", deleted=False) and state.has_subject("a", deleted=True)
    cleared = folded([*history, clear_subject_record(None)])
    assert list(cleared.subjects) == ["b"]
    assert cleared.contexts["."].last_id == 2


def test_a_schema_with_an_id_of_another_one_is_ignored() -> None:
    other = schema_record(Version("b", 1, 0, content_of("AVRO", '"null"')))
    state = folded([version("a", 1, 0), other])
    assert list(state.subjects) == ["a"]
    assert state.content(".", 0) == TEXTS[0]


def test_ids_of_contexts_are_independent() -> None:
    other = schema_record(Version(":.c:b", 1, 0, content_of("AVRO", '"null"')))
    state = folded([version("a", 1, 0), other])
    assert (state.content(".", 0), state.content(".c", 0)) == (TEXTS[0], content_of("AVRO", '"null"'))


@each_case(
    "subject, level, mode",
    [("a", "FULL", "READONLY"), ("b", "NONE", "IMPORT"), (":.c:a", "FORWARD", "READWRITE"), (None, "NONE", "IMPORT")],
)
def test_the_nearest_setting_counts(subject: str | None, level: str, mode: str) -> None:
    state = folded(
        [
            config_record(None, {"compatibilityLevel": "NONE", "normalize": True}),
            config_record("a", {"compatibilityLevel": "FULL"}),
            config_record(":.c:", {"compatibilityLevel": "FORWARD"}),
            mode_record(None, "IMPORT"),
            mode_record("a", "READONLY"),
            mode_record(":.c:", "READWRITE"),
        ]
    )
    assert state.config(subject) == {"compatibilityLevel": level, "normalize": True}
    assert state.mode(subject) == mode


def test_the_default_level_is_backward_and_an_override_is_stronger_than_a_subjects_mode() -> None:
    assert folded([]).config("a") == {"compatibilityLevel": "BACKWARD"}
    assert folded([]).mode("a") == "READWRITE"
    assert folded([mode_record("a", "IMPORT"), mode_record(None, "READONLY_OVERRIDE")]).mode("a") == "READONLY_OVERRIDE"


@each_case(
    "limit, most, history",
    [
        ("VERSIONS_MAX", 2, [version("a", number, number) for number in (1, 2, 3)]),
        ("TEXT_BYTES_MAX", 20, [version("a", number, number) for number in (1, 2, 3)]),
        ("TEXT_BYTES_MAX", 90, [config_record(each, {"compatibilityLevel": "FULL"}) for each in "abc"]),
        ("SETTINGS_MAX", 2, [config_record(each, {"normalize": True}) for each in "abc"]),
        ("SETTINGS_MAX", 2, [mode_record(each, "IMPORT") for each in "abc"]),
        (
            "TEXT_BYTES_MAX",
            70,  # one id and one text, of which each version has its own copy
            [
                schema_record(Version("a", each, 1, content_of("AVRO", '"int"', metadata={"m": str(each)})))
                for each in (1, 2, 3, 4, 5)
            ],
        ),
    ],
)
def test_the_state_is_bounded(limit: str, most: int, history: list[Pair]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_module, limit, most)
        folded(history[:-1])
        with pytest.raises(RegistryError, match=f"limit {most}"):
            folded(history)


def test_removed_records_leave_room() -> None:
    contents = [content_of("AVRO", '"int"', metadata=each) for each in (None, {"m": "1"}, {"m": "22"})]
    versions = [Version("a", number, 1, content) for number, content in enumerate(contents, 1)]
    history = [
        *map(schema_record, versions),
        schema_record(versions[1]),
        config_record("a", {"compatibilityLevel": "FULL", "compatibilityGroup": "g"}),
        config_record("a", {"compatibilityLevel": "FULL"}),
        config_record("a", None),
        config_record("a", None),
    ]
    for order in ((1, 2, 3), (3, 2, 1)):
        state = folded([*history, *(schema_tombstone("a", number) for number in order)])
        assert (state.versions_count, state.text_bytes) == (0, 0)
    assert folded(history).text_bytes == sum(each.size_bytes for each in contents)


@pytest.mark.parametrize(("limit", "most"), [("VERSIONS_MAX", 2), ("TEXT_BYTES_MAX", 10)])
def test_a_version_without_room_is_refused_before_it_is_written(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_module, limit, most)
    state = folded([version("a", 1, 0)])
    state.check_room(Version("b", 1, 9, content_of("AVRO", "1234")))
    state = folded([version("a", 1, 0), version("a", 2, 0)])
    with pytest.raises(RegistryError, match=f"limit {most}") as refused:
        state.check_room(Version("b", 1, 9, content_of("AVRO", "1", metadata={"properties": {"a": "b"}})))
    assert refused.value.code == 42209


@pytest.mark.parametrize("level", [5, "FOO", ["FULL"], {}])
def test_a_level_that_does_not_exist_is_ignored(level: object) -> None:
    state = folded([config_record("a", {"compatibilityLevel": level, "normalize": True})])
    assert state.config("a") == {"compatibilityLevel": "BACKWARD", "normalize": True}


def test_an_id_of_two_schemas_of_one_text_leaves_no_digest_behind() -> None:
    first, second = (content_of("AVRO", '"int"', metadata=each) for each in (None, {"owner": "b"}))
    versions = [Version("a", 1, 1, first), Version("b", 1, 1, second)]
    history = [*map(schema_record, versions), *(schema_tombstone(*each.place) for each in versions)]
    for upto in range(len(history) + 1):
        context = folded(history[:upto]).contexts.get(".")
        assert context is None or set(context.ids.values()) <= set(context.contents)


def test_metadata_at_the_limit_of_the_json_parser_does_not_end_the_fold() -> None:
    """Other clients may have written it; the parser's limit is that of the stack, and comparisons have the same."""
    for depth in range(900, 1000):
        fold_nested(depth)


def fold_nested(depth: int) -> None:
    value = b'{"subject":"a","version":1,"id":1,"schema":"s","metadata":%b}' % (b'{"a":' * depth + b"1" + b"}" * depth)
    state = State()
    for key in (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"keytype":"SCHEMA","subject":"b","version":1}'):
        with suppress(UnreadableRecordError):
            entry = parse_record(key, value)
            assert entry is not None
            deeper(partial(list, state.apply(entry)), 25)


def deeper(call: Callable[[], object], levels: int) -> None:
    """Call a function from a deeper stack."""
    if levels:
        deeper(call, levels - 1)
    else:
        call()
