"""The checksum is the package's own, and costs a start no more than that."""

import subprocess
import sys

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.checksum import crc32c


@given(st.binary(), st.binary())
def test_it_is_that_of_the_package_and_goes_on_where_another_ended(first: bytes, second: bytes) -> None:
    assert crc32c(first + second) == package.crc32c(first + second) == crc32c(second, crc32c(first))


def test_it_is_the_castagnoli_checksum() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, and every table of such checksums


def test_nothing_is_loaded_that_only_tells_versions() -> None:
    program = "import sys, ottla.protocol.checksum; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
