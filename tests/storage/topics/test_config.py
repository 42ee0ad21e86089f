"""The topic options: the values of texts, which texts are refused and with which error, and a topic's effective options."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.topics.config import TOPIC_OPTIONS, ConfigError, LogConfig, parse_value
from ottla.storage.topics.options import MAX_LONG, Option, OptionType, format_value
from ottla.storage.topics.versions import VersionSource
from support.noted import each_case


@each_case(
    "name, text, value",
    [
        ("segment.bytes", "1048576", 1 << 20),
        ("segment.bytes", " \t2097152\n", 2 << 20),
        ("segment.bytes", "+2097152", 2 << 20),
        ("retention.ms", "-1", -1),
        ("retention.ms", str(MAX_LONG), MAX_LONG),
        ("min.cleanable.dirty.ratio", "0", 0.0),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
        ("min.cleanable.dirty.ratio", ".5", 0.5),
        ("min.cleanable.dirty.ratio", "1.", 1.0),
        ("preallocate", "TRUE", True),
        ("preallocate", " False ", False),
        ("cleanup.policy", "compact", ("compact",)),
        ("cleanup.policy", " delete , compact ", ("delete", "compact")),
        ("cleanup.policy", "\tdelete\n,\x0b\f\r compact", ("delete", "compact")),
        ("cleanup.policy", "compact,compact", ("compact",)),
        ("cleanup.policy", "", ()),
        ("compression.type", " zstd ", "zstd"),
        ("compression.gzip.level", "-1", -1),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,3:2", ("0:1", "3:2")),
    ],
)
def test_a_text_is_parsed_to_its_value(name: str, text: str, value: object) -> None:
    assert parse_value(name, text) == value


@pytest.mark.scenario(183)
@each_case(
    "name, text, bound",
    [
        ("segment.bytes", "1048575", "1048576"),
        ("segment.bytes", "", "INT"),
        ("segment.bytes", "1_048_576", "INT"),
        ("segment.bytes", "1e7", "INT"),
        ("segment.bytes", "٣", "INT"),
        ("segment.bytes", "2147483648", "INT"),
        ("max.decompressed.message.bytes", "0", "1"),
        ("max.decompressed.message.bytes", "2147483640", "2147483639"),
        ("retention.ms", "9223372036854775808", "LONG"),
        ("retention.ms", "-2", "-1"),
        ("min.cleanable.dirty.ratio", "1.01", "between 0 and 1"),
        ("min.cleanable.dirty.ratio", "-0.1", "between 0 and 1"),
        ("min.cleanable.dirty.ratio", "NaN", "DOUBLE"),
        ("min.cleanable.dirty.ratio", "1e999", "DOUBLE"),
        ("min.cleanable.dirty.ratio", "half", "DOUBLE"),
        ("preallocate", "yes", "true or false"),
        ("cleanup.policy", "Compact", "compact, delete"),
        ("cleanup.policy", "compact,", "empty"),
        ("cleanup.policy", "compact;delete", "compact, delete"),
        ("compression.type", "GZIP", "gzip"),
        ("compression.gzip.level", "0", "between 1 and 9"),
        ("compression.gzip.level", "10", "between 1 and 9"),
        ("compression.lz4.level", "18", "between 1 and 17"),
        ("compression.zstd.level", "-131073", "between -131072 and 22"),
        ("message.timestamp.type", "createtime", "CreateTime"),
        ("max.compaction.lag.ms", "0", "1"),
        ("segment.ms", "0", "1"),
        ("flush.messages", "0", "1"),
        ("segment.index.bytes", "3", "4"),
        ("internal.segment.bytes", "0", "1"),
        ("ottla.key.retention.ms", "-2", "-1"),
        ("ottla.compaction.strategy", "version", "offset, timestamp, header"),
        ("leader.replication.throttled.replicas", "0:1,*", "PARTITION:BROKER"),
    ],
)
def test_a_refused_text_is_reported_with_its_option_and_bound(name: str, text: str, bound: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_value(name, text)
    message = str(refused.value)
    assert message.startswith(f"Invalid value {text.strip()} for configuration {name}: ")
    assert bound in message.partition(": ")[2]


def test_a_very_long_value_is_shown_shortened() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_value("segment.bytes", "9" * 1_000_000)
    assert len(str(refused.value)) < 400


LONG = 1_000_000


@each_case("type", OptionType)
@each_case(
    "text",
    [
        f"a{' ' * LONG}b",
        f"a{' ' * LONG},{' ' * LONG}b",
        f"{'1' * LONG}x",
        f"1.{'1' * LONG}x",
        f"1e{'1' * LONG}x",
        f"+{'1' * LONG}.{'1' * LONG}",
        "," * LONG,
    ],
    ids=["white space", "white space and a comma", "digits", "decimals", "an exponent", "no end", "commas"],
)
def test_a_long_text_is_parsed_once(type: OptionType, text: str) -> None:
    """Reading it again from each of a million positions would take minutes: with 32 KB every client waited for two seconds."""
    with suppress(ConfigError):
        value = Option("any", type, None).parse(text)
        assert type not in (OptionType.INT, OptionType.LONG, OptionType.SHORT, OptionType.BOOLEAN, OptionType.DOUBLE)
        if type is OptionType.LIST and "," in text:
            assert value == ("a", "b")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"message\.format\.version"):
        parse_value("message.format.version", "3.0")


def test_a_secret_is_never_shown_in_an_error() -> None:
    secret = Option("x.password", OptionType.PASSWORD, None)
    assert "hunter2" not in str(secret.error("hunter2", "must be longer"))


def test_defaults_pass_their_own_checks() -> None:
    for option in TOPIC_OPTIONS.values():
        option.validate(option.default)
    LogConfig().check()


@given(st.sampled_from(sorted(TOPIC_OPTIONS)), st.data())
def test_written_options_read_back(name: str, data: st.DataObject) -> None:
    option = TOPIC_OPTIONS[name]
    kinds: dict[OptionType, st.SearchStrategy[object]] = {
        OptionType.BOOLEAN: st.booleans(),
        OptionType.INT: st.integers(-(2**31), 2**31 - 1),
        OptionType.LONG: st.integers(-(2**63), 2**63 - 1),
        OptionType.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
        OptionType.STRING: st.sampled_from(["gzip", "producer", "CreateTime", "LogAppendTime"]),
        OptionType.LIST: st.lists(st.sampled_from(["compact", "delete", "0:1", "*"]), unique=True).map(tuple),
    }
    value = data.draw(kinds[option.type])
    unchecked = option._replace(check=None)
    assert unchecked.parse(format_value(value)) == value  # type: ignore[arg-type]


@each_case(
    "value, text",
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (0.001, "0.001"),
        (0.00001, "1.0E-5"),
        (0.000123, "1.23E-4"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (-12345678.9, "-1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (None, ""),
        (True, "true"),
        (("a", "b"), "a,b"),
        (12, "12"),
    ],
)
def test_values_are_written_as_java_writes_them(value: object, text: str) -> None:
    assert format_value(value) == text  # type: ignore[arg-type]


def test_overrides_replace_the_brokers_defaults() -> None:
    base = LogConfig(retention_ms=5, segment_bytes=3 << 20)
    config = LogConfig.from_texts({"retention.ms": "7", "cleanup.policy": "compact,delete"}, base)
    assert (config.retention_ms, config.segment_bytes) == (7, 3 << 20)
    assert config.is_compact
    assert config.is_delete


@each_case(
    "texts, source",
    [
        ({"ottla.compaction.strategy": "offset", "ottla.compaction.strategy.header": "v"}, None),
        ({"ottla.compaction.strategy": "timestamp"}, VersionSource(None)),
        ({"ottla.compaction.strategy": "header", "ottla.compaction.strategy.header": "é"}, VersionSource("é".encode())),
    ],
)
def test_a_strategy_says_where_versions_are(texts: dict[str, str], source: VersionSource | None) -> None:
    assert LogConfig.from_texts({"cleanup.policy": "compact", **texts}).version_source == source


def test_the_hidden_segment_size_wins_and_may_be_small() -> None:
    config = LogConfig.from_texts({"internal.segment.bytes": "1000", "segment.bytes": "2097152"})
    assert config.segment_bytes == 1000


@pytest.mark.scenario(184, 185)
@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            ["Invalid value 5", "min.compaction.lag.ms", "max.compaction.lag.ms=4"],
        ),
        ({"remote.storage.enable": "true"}, ["Invalid value true", "remote.storage.enable"]),
        ({"remote.storage.enable": "true", "cleanup.policy": "compact"}, ["remote.storage.enable"]),
        ({"ottla.key.retention.ms": "0"}, ["Invalid value 0", "cleanup.policy must include compact"]),
        (
            {"ottla.compaction.strategy": "timestamp"},
            ["Invalid value timestamp", "cleanup.policy must include compact"],
        ),
        (
            {"ottla.compaction.strategy": "header", "cleanup.policy": "compact,delete"},
            ["Invalid value header", "ottla.compaction.strategy.header must name a header"],
        ),
    ],
)
def test_contradicting_options_are_refused(texts: dict[str, str], parts: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        LogConfig.from_texts(texts)
    assert all(part in str(refused.value) for part in parts)


def test_equal_lags_are_compatible() -> None:
    config = LogConfig.from_texts({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    assert config.min_compaction_lag_ms == config.max_compaction_lag_ms == 5


def test_stored_overrides_of_another_version_are_omitted_and_reported() -> None:
    stored = {"message.format.version": "2.8", "segment.bytes": "14", "retention.ms": "9", "min.compaction.lag.ms": "8"}
    config, problems = LogConfig.from_stored(stored | {"max.compaction.lag.ms": "3"})
    assert (config.retention_ms, config.segment_bytes) == (9, 1 << 30)
    assert [problem for problem in problems if "message.format.version" in problem]
    assert [problem for problem in problems if "segment.bytes" in problem]
    assert [problem for problem in problems if "max.compaction.lag.ms=3" in problem]
    assert len(problems) == 3
