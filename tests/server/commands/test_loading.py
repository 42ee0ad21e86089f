"""Loading of a broker's modules without the cycle collector."""

import gc

import pytest

from ottla.server.commands.serve_command import loading


def test_what_is_loaded_is_not_looked_at_again() -> None:
    with loading():
        assert not gc.isenabled()
        made = list[object]()
    assert gc.isenabled()
    assert all(each is not made for each in gc.get_objects())


def test_the_collector_goes_on_where_something_cannot_be_loaded() -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError("no such module")
    assert gc.isenabled()
