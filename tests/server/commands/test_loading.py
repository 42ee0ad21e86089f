"""Loading of a broker's modules without the cycle collector."""

import gc

import pytest

from ottla.server.commands.serve_command import loading


def test_loaded_objects_are_not_scanned_by_the_collector() -> None:
    with loading():
        assert not gc.isenabled()
        made = list[object]()
    assert gc.isenabled()
    assert all(each is not made for each in gc.get_objects())


def test_the_collector_is_enabled_after_a_failed_import() -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError("no such module")
    assert gc.isenabled()
