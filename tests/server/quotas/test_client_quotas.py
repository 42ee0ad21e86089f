"""Quotas: the usage of clients, their throttle time, and how little is remembered of them."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Mapping

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.quotas import rates
from ottla.server.quotas.clients import ClientQuotas, QuotaClient
from ottla.server.quotas.connections import UNLIMITED, AddressBounds, ConnectionRates
from ottla.server.quotas.entities import Entity
from ottla.server.quotas.rates import MAX_INT, Rate, Sensors, TokenBucket, Window, bounded
from ottla.server.quotas.table import Holding

WINDOW = Window(11, 1000)
APP = QuotaClient(0, "alice", "app")
PRODUCED, FETCHED, TIME, MUTATED = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)


class Time:
    ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def quotas_of(time: Time, quotas: Mapping[str, float], **entity: str | None) -> ClientQuotas:
    made = ClientQuotas(time, WINDOW, WINDOW)
    of = Entity.from_parts({kind.replace("_", "-"): name for kind, name in entity.items()} or {"user": "alice"})
    made.set(Holding.from_quotas({of: quotas}, {}).limits)
    return made


# Rates


def test_a_rate_counts_ten_whole_samples_from_the_start() -> None:
    rate = Rate()
    rate.record(1000, WINDOW, 0)
    assert rate.measure(WINDOW, 0) == 100
    assert rate.measure(WINDOW, 500) == pytest.approx(1000 / 10.5)
    assert rate.throttle_ms(50, WINDOW, 0) == 10_000
    assert rate.throttle_ms(100, WINDOW, 0) == 0


def test_a_sample_counts_until_a_window_has_passed_since_its_last_record() -> None:
    rate = Rate()
    rate.record(1000, WINDOW, 0)
    rate.record(1000, WINDOW, 900)
    assert rate.measure(WINDOW, 11_899) == pytest.approx(2000 / 11.899)
    assert rate.measure(WINDOW, 11_900) == 0


def test_a_rate_forgets_samples_one_by_one() -> None:
    rate = Rate()
    for at_ms in range(0, 60_000, 100):
        rate.record(10, WINDOW, at_ms)
    assert rate.measure(WINDOW, 60_000) == pytest.approx(100, rel=0.1)
    assert len(rate._samples) <= 12


def test_nothing_is_waited_for_longer_than_an_answer_can_say() -> None:
    rate, bucket = Rate(), TokenBucket()
    rate.record(2.0**62, WINDOW, 0)
    bucket.take(2.0**62, 1, WINDOW, 0)
    for bound in (1, 5e-324):
        assert rate.throttle_ms(bound, WINDOW, 0) == bucket.throttle_ms(bound, WINDOW, 0) == MAX_INT


@pytest.mark.parametrize("bound", [5e-324, 1e308])
def test_the_least_and_the_largest_bound_can_be_reckoned_with(bound: float) -> None:
    time = Time()
    quotas = quotas_of(time, {TIME: bound, MUTATED: bound})
    for _ in range(3):
        assert 0 <= quotas.use(TIME, APP, 50.0) <= WINDOW.sample_ms
        for strict in (True, False):
            mutations = quotas.mutations(APP, strict=strict)
            assert mutations is not None
            with contextlib.suppress(KafkaError):
                mutations.record(10**6)
            assert 0 <= mutations.throttle_ms <= MAX_INT
        time.ms += 10**12


def test_a_bucket_begins_full_and_fills_again() -> None:
    bucket = TokenBucket()
    assert bucket.tokens(5, WINDOW, 0) == 55
    bucket.take(60, 5, WINDOW, 0)
    assert bucket.throttle_ms(5, WINDOW, 0) == 1000
    assert bucket.tokens(5, WINDOW, 1000) == 0
    assert bucket.tokens(5, WINDOW, 100_000) == 55


def test_whoever_reads_how_many_tokens_there_are_changes_nothing() -> None:
    time = Time()
    quotas = quotas_of(time, {MUTATED: 1})
    slow = quotas.mutations(APP, strict=False)
    assert slow is not None
    slow.record(1000)
    quotas.set(Holding.from_quotas({Entity.from_parts({"user": "alice"}): {MUTATED: 1000}}, {}).limits)
    for _ in range(10):
        time.ms += 500
        [_ for using, usage in quotas.usages() if quotas.used(using, usage)]
    fast = quotas.mutations(APP, strict=True)
    assert fast is not None
    fast.record(1)


# Clients


def test_a_client_waits_until_the_rate_is_its_quota_again() -> None:
    time = Time()
    quotas = quotas_of(time, {PRODUCED: 100})
    assert quotas.use(PRODUCED, APP, 1000) == 0
    assert quotas.use(PRODUCED, APP, 500) == 5000
    assert quotas.use(FETCHED, APP, 10**9) == 0
    assert quotas.use(PRODUCED, QuotaClient(1, "alice", "app"), 1000) == 0, "each node has its own"
    assert quotas.use(PRODUCED, QuotaClient(0, "alice", "other"), 0) == 5000, "shared by all clients of the user"
    assert quotas.use(PRODUCED, QuotaClient(0, "bob", "app"), 10**9) == 0
    time.ms += 5000
    assert quotas.use(PRODUCED, APP, 0) == 5000, "ten samples count as whole, even if time has not come so far"
    time.ms += 5000
    assert quotas.use(PRODUCED, APP, 0) == 5000
    time.ms += 5000
    assert quotas.use(PRODUCED, APP, 0) == 0


def test_time_is_waited_for_a_sample_at_most() -> None:
    quotas = quotas_of(Time(), {TIME: 1})
    assert quotas.use(TIME, APP, 1000) == WINDOW.sample_ms


def test_what_is_taken_back_does_not_count() -> None:
    quotas = quotas_of(Time(), {FETCHED: 100})
    assert quotas.use(FETCHED, APP, 5000) == 40_000
    quotas.take_back(FETCHED, APP, 5000)
    assert quotas.use(FETCHED, APP, 1000) == 0
    assert quotas.bytes_without_throttling(APP, FETCHED) == 1000
    assert quotas.bytes_without_throttling(APP, PRODUCED) is None


def test_another_amount_counts_what_was_used_before() -> None:
    quotas = quotas_of(Time(), {PRODUCED: 1000})
    assert quotas.use(PRODUCED, APP, 2000) == 0
    quotas.set(Holding.from_quotas({Entity.from_parts({"user": "alice"}): {PRODUCED: 100}}, {}).limits)
    assert quotas.use(PRODUCED, APP, 0) == 10_000


def test_mutations_are_refused_once_there_are_no_tokens() -> None:
    time = Time()
    quotas = quotas_of(time, {MUTATED: 1})
    strict = quotas.mutations(APP, strict=True)
    assert strict is not None
    strict.record(13)
    assert strict.throttle_ms == 0, "what made them run out is taken, and not waited for"
    with pytest.raises(KafkaError) as refusal:
        strict.record(1)
    assert (refusal.value.code, strict.throttle_ms) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 2000)
    time.ms += 500
    assert strict.throttle_ms == 1500
    time.ms += 1500
    later = quotas.mutations(APP, strict=True)
    assert later is not None
    later.record(1)


def test_mutations_of_old_versions_are_taken_and_waited_for() -> None:
    permissive = quotas_of(Time(), {MUTATED: 1}).mutations(APP, strict=False)
    assert permissive is not None
    permissive.record(13)
    assert permissive.throttle_ms == 2000
    permissive.record(1)
    assert permissive.throttle_ms == 3000


def test_who_is_throttled_is_told_until_the_time_is_over() -> None:
    time = Time()
    quotas = quotas_of(time, {PRODUCED: 100})
    quotas.mute(PRODUCED, APP, quotas.use(PRODUCED, APP, 1500))
    ((using, usage),) = quotas.usages()
    throttled = quotas.throttled(using, usage)
    assert throttled is not None
    assert (throttled.left_ms, throttled.rate, throttled.bound, str(throttled.entity)) == (5000, 150, 100, "user=alice")
    time.ms += 5000
    assert quotas.throttled(using, usage) is None
    assert (usage.throttled, usage.throttle_ms_total, usage.throttle_ms_max) == (1, 5000, 5000)


# Remembered clients


def test_hostile_client_ids_grow_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "SENSORS_MAX", 100)
    quotas = quotas_of(Time(), {PRODUCED: 100}, client_id=None)
    tracemalloc.start()
    for number in range(1000):
        quotas.use(PRODUCED, QuotaClient(0, "alice", f"{number}{'x' * 30_000}"), 1)
    remembered_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(quotas._sensors) == 100
    assert max(len(using.sharing.client_id) for using, _ in quotas.usages()) < 300
    assert remembered_bytes < 100 * 4_096


def test_names_of_any_length_are_told_apart() -> None:
    assert bounded("app") == "app"
    assert bounded("a" * 1000 + "b") != bounded("a" * 1000 + "c")


def test_who_has_used_nothing_for_an_hour_is_forgotten() -> None:
    kept: Sensors[str, Rate] = Sensors(Rate)
    first = kept.get("a", 0)
    kept.get("b", rates.INACTIVE_MS - 1)
    assert kept.get("a", rates.INACTIVE_MS - 1) is first
    kept.get("c", 2 * rates.INACTIVE_MS - 1)
    assert [key for key, _ in kept.items()] == ["c"]


def test_nothing_is_remembered_of_a_key_without_quotas() -> None:
    quotas = quotas_of(Time(), {PRODUCED: 100})
    quotas.use(PRODUCED, APP, 1)
    quotas.set({})
    assert len(quotas._sensors) == 0 and not quotas.keys


# Connections


def test_the_next_connection_waits_for_its_rate_but_not_longer_than_a_sample() -> None:
    rates = ConnectionRates(Time(), WINDOW)
    assert [rates.count_connection({(0, "A"): 1, (0, ""): UNLIMITED}) for _ in range(11)] == [0] * 10 + [1000]
    assert rates.count_connection({(0, "B"): 1}) == 0
    assert rates.count_connection({(0, "A"): 0}) == 1000


def test_a_connection_beyond_the_rate_of_its_address_does_not_count() -> None:
    time = Time()
    rates = ConnectionRates(time, WINDOW)
    rates.bounds = AddressBounds(UNLIMITED, {"10.0.0.1": 1})
    node = {(0, ""): 100}
    for _ in range(10):
        rates.count_connection(node)
        assert rates.close_after_ms((0, ""), "10.0.0.1", node) == 0
    for _ in range(50):
        rates.count_connection(node)
        assert rates.close_after_ms((0, ""), "::ffff:10.0.0.1", node) > 0
    assert rates.close_after_ms((0, ""), "10.0.0.2", node) == 0
    assert [(where, rate) for where, _, rate in rates.arrivals()] == [((0, ""), 1)]
    assert [(node, host) for node, host, _ in rates.rates()] == [(0, "10.0.0.1")]
    time.ms += 12_000
    assert rates.close_after_ms((0, ""), "10.0.0.1", node) == 0
