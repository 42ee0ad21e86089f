"""Invalid requests during a login: each answer can be written, and contains only the code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.apis import APIS, Api
from ottla.protocol.connection import Request, encode_response
from ottla.protocol.messages.metadata import MetadataRequestTopic
from ottla.server.network.authentication.allowance import ELEMENTS_MAX, refused
from support.sizes import size
from support.strategies import as_of, messages


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
@given(data=st.data())
@settings(max_examples=size(3, 20), deadline=None)
def test_any_request_has_a_response_or_none(api: Api, data: st.DataObject) -> None:
    version = data.draw(st.integers(*api.versions))
    body = as_of(data.draw(messages(api.request)), version)
    request = Request(api, version, 1, "c", body)
    answer = refused(request)
    if answer is not None:
        assert b"".join(map(bytes, encode_response(request, answer)))


def test_a_large_request_has_no_response() -> None:
    api = APIS[16]
    assert refused(Request(api, 4, 1, "c", api.request(), elements=ELEMENTS_MAX)) is not None
    assert refused(Request(api, 4, 1, "c", api.request(), elements=ELEMENTS_MAX + 1)) is None


def test_a_request_with_an_unrepeatable_name_has_no_response() -> None:
    api = APIS[3]
    topic = MetadataRequestTopic(topic_id=bytes(16), name=None)
    assert refused(Request(api, 10, 1, "c", api.request(topics=(topic,)))) is None
