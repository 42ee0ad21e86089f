"""What a store says no with, as errors of a job; and how long one goes on asking.

PyArrow raises OSError for all of it, with the SDK's words. The words decide, by the first row of REFUSALS that fits:

    refused     another call would be refused, too: exit code 1, at once
    not there   nobody listens, or the name has no address: exit code 6, at once, unless it has answered this process before
    the rest    5xx, SlowDown, resets, bodies that break off, answers that do not come: asked again, for PAUSES_S
"""

from __future__ import annotations

import errno
import re
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ..errors import PipelineError, ServiceFailedError, UsageError

T = TypeVar("T")

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Between attempts, each of which the SDK makes three of, with pauses of its own."""
ANSWER_S = 60.0
"""For one answer. A connection over which nothing comes any more would be waited for without end: the SDK has no time-out here."""
_REASON_MAX = 300


class Refusal(NamedTuple):
    """A row: what the SDK says, and what is said here."""

    said: re.Pattern[str]
    text: str


REFUSALS = (
    Refusal(re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|container does not exist|ContainerNotFound", re.IGNORECASE), "there is no such bucket"),
    Refusal(
        re.compile(r"AuthorizationHeaderMalformed|PERMANENT_REDIRECT|PermanentRedirect|HTTP status 301|in a different region|the region", re.IGNORECASE),
        "the bucket is in another region than the one that is asked (option s3.region, AWS_REGION)",
    ),
    Refusal(
        re.compile(
            r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|EXPIRED_TOKEN|INVALID_CLIENT_TOKEN|UNRECOGNIZED_CLIENT|"
            r"MISSING_AUTHENTICATION|HTTP status 40[13]|PermissionDenied|UNAUTHENTICATED|AuthenticationFailed|credentials|"
            r"Permission denied",
            re.IGNORECASE,
        ),
        "the store does not take the credentials in the environment",
    ),
    Refusal(re.compile(r"Unable to load lib|libhdfs|libjvm|HADOOP_HOME|CLASSPATH", re.IGNORECASE), "HDFS needs Hadoop's libhdfs and its CLASSPATH"),
    Refusal(re.compile(r"HTTP status 400|NOT_IMPLEMENTED|Invalid argument", re.IGNORECASE), "the store does not understand what it is asked"),
)  # fmt: skip
_NOT_THERE = re.compile(
    r"curlCode: (?:6|7)\b|Could ?n.t connect|Could not resolve|Connection refused|UnknownHost", re.IGNORECASE
)
_MISSING = re.compile(r"No such file or directory '")
"""PyArrow's words for a listing of nothing at GCS, which have no errno."""
_SECRETS = re.compile(r"(?i)((?:sig|signature|secret|token|password|credential)[\w-]{0,40}=)[^&\s]+")
_REQUEST_ID = re.compile(r" ?\(Request ID: [^()]{0,200}\)")

_answered: set[str] = set()
"""Stores (`SCHEME://AUTHORITY`) that have answered this process."""


def store_of(address: str) -> str:
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def as_error(error: BaseException, address: str) -> PipelineError:
    """One line: which address, what is wrong, and what the store said."""
    said = " ".join(_SECRETS.sub(r"\1…", _REQUEST_ID.sub("", str(error))).split())[:_REASON_MAX]
    if (refusal := _refusal(said)) is not None:
        return UsageError(f"{address}: {refusal.text} ({said})")
    if isinstance(error, (ValueError, TypeError, ImportError)):
        return UsageError(f"{address}: {said}")
    where = "nobody answers there" if _NOT_THERE.search(said) else "the store does not answer"
    return ServiceFailedError(f"{address}: {where} ({said})")


def _refusal(said: str) -> Refusal | None:
    return next((each for each in REFUSALS if each.said.search(said)), None)


def patiently(call: Callable[[], T], address: str, *, answer_s: float = ANSWER_S) -> T:
    """What the call returns: asked again where another time may do.

    Raises:
        FileNotFoundError: There is no such thing.
        UsageError, ServiceFailedError: As `as_error`.
    """
    store = store_of(address)
    for pause_s in (*PAUSES_S, None):
        try:
            found = within(call, answer_s)
        except FileNotFoundError:
            _answered.add(store)
            raise
        except OSError as error:
            said = str(error)
            if _MISSING.match(said):
                _answered.add(store)
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", address) from error
            is_final = _refusal(said) is not None or (bool(_NOT_THERE.search(said)) and store not in _answered)
            if pause_s is None or is_final:
                raise as_error(error, address) from error
            time.sleep(pause_s)
        else:
            _answered.add(store)
            return found
    raise AssertionError("the last attempt neither returned nor raised")


def within(call: Callable[[], T], answer_s: float) -> T:
    """What the call returns, or raises; OSError if it does neither for so long. It is left to itself then."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((call(), None))
        except BaseException as error:  # noqa: BLE001 - it is raised again, by who waits
            found.append((None, error))

    # No pool: its threads would be waited for when Python ends.
    thread = threading.Thread(target=run, name="store", daemon=True)
    thread.start()
    thread.join(answer_s)
    if not found:
        raise OSError(f"no answer for {answer_s:.0f} s")
    result, error = found[0]
    if error is not None:
        raise error
    value: T = result
    return value
