"""The checksum is the package's own, and costs a start no more than that."""

import subprocess
import sys

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.checksum import crc32c


@given(st.binary(), st.binary())
def test_the_checksum_equals_the_packages_and_continues_an_earlier_one(first: bytes, second: bytes) -> None:
    assert crc32c(first + second) == package.crc32c(first + second) == crc32c(second, crc32c(first))


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, and every table of such checksums


def test_modules_that_only_report_versions_are_not_loaded() -> None:
    program = "import sys, ottla.protocol.checksum; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
