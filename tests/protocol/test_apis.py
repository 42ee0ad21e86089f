"""Tests of the table of APIs."""

from ottla.protocol.apis import APIS, Api, snake_case
from support.noted import each_case


def test_rows_are_sorted_by_key_and_each_key_and_name_occurs_once() -> None:
    assert sorted(APIS) == list(APIS)
    assert all(key == api.key for key, api in APIS.items())
    assert len({api.name for api in APIS.values()}) == len(APIS)


@each_case("api", APIS.values(), ids=[api.name for api in APIS.values()])
def test_every_row_has_message_classes_and_a_valid_range(api: Api) -> None:
    assert api.request.__name__ == f"{api.name}Request"
    assert api.response.__name__ == f"{api.name}Response"
    low, high = api.versions
    assert 0 <= low <= high
    assert api.advertised[0] <= low and api.advertised[1] == high
    assert api.speaks(low) and api.speaks(high) and not api.speaks(low - 1)
    assert api.unstable in (None, high + 1)
    assert not api.speaks((api.unstable or high) + 1)
    if api.flexible_since is not None:
        assert api.flexible_since <= high and api.is_flexible(high)


def test_produce_is_advertised_from_0_for_librdkafka_but_spoken_from_3() -> None:
    assert APIS[0].advertised == (0, 13)
    assert APIS[0].versions == (3, 13)


def test_only_api_versions_keeps_the_old_response_header() -> None:
    assert APIS[18].is_flexible(3) and not APIS[18].has_flexible_response_header(3)
    assert APIS[3].has_flexible_response_header(9) and not APIS[3].has_flexible_response_header(8)
    assert not APIS[47].is_flexible(0)


def test_the_file_of_an_api_is_named_in_snake_case() -> None:
    assert snake_case("OffsetForLeaderEpoch") == "offset_for_leader_epoch"
    assert snake_case("Produce") == "produce"
