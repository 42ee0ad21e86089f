"""Errors of a store as errors of a job, and the duration of retries.

PyArrow raises OSError for all of them, with the SDK's text. The first row of REFUSALS that matches the text decides:

    refused     another call would also be refused: exit code 1, at once
    not there   no server listens, or the name has no address: exit code 6, at once, unless it has answered this process before
    the rest    5xx, SlowDown, resets, truncated bodies, missing responses: retried, for PAUSES_S
"""

from __future__ import annotations

import errno
import re
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ..errors import PipelineError, UsageError

T = TypeVar("T")

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between attempts. The SDK makes three requests in each, with pauses of its own."""
ANSWER_S = 60.0
"""Timeout of one response in seconds. Without it a dead connection would block for ever, as the SDK has no timeout here."""
_REASON_MAX = 300


class Refusal(NamedTuple):
    """Row of the table: a pattern of the SDK's text, and Ottla's text."""

    said: re.Pattern[str]
    text: str


REFUSALS = (
    Refusal(re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|container does not exist|ContainerNotFound", re.IGNORECASE), "bucket not found"),
    Refusal(
        re.compile(r"AuthorizationHeaderMalformed|PERMANENT_REDIRECT|PermanentRedirect|HTTP status 301|in a different region|the region", re.IGNORECASE),
        "the bucket is in another region than the requested one (option s3.region, AWS_REGION)",
    ),
    Refusal(
        re.compile(
            r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|EXPIRED_TOKEN|INVALID_CLIENT_TOKEN|UNRECOGNIZED_CLIENT|"
            r"MISSING_AUTHENTICATION|HTTP status 40[13]|PermissionDenied|UNAUTHENTICATED|AuthenticationFailed|credentials|"
            r"Permission denied",
            re.IGNORECASE,
        ),
        "the store rejects the credentials in the environment",
    ),
    Refusal(re.compile(r"Unable to load lib|libhdfs|libjvm|HADOOP_HOME|CLASSPATH", re.IGNORECASE), "HDFS needs Hadoop's libhdfs and its CLASSPATH"),
    Refusal(re.compile(r"HTTP status 400|NOT_IMPLEMENTED|Invalid argument", re.IGNORECASE), "the store does not support the request"),
)  # fmt: skip
_NOT_THERE = re.compile(
    r"curlCode: (?:6|7)\b|Could ?n.t connect|Could not resolve|Connection refused|UnknownHost", re.IGNORECASE
)
_MISSING = re.compile(r"No such file or directory '")
"""PyArrow's text for an empty listing at GCS, which has no errno."""
_SECRETS = re.compile(r"(?i)((?:sig|signature|secret|token|password|credential)[\w-]{0,40}=)[^&\s]+")
_REQUEST_ID = re.compile(r" ?\(Request ID: [^()]{0,200}\)")

_answered: set[str] = set()
"""Stores (`SCHEME://AUTHORITY`) that have answered this process."""


def store_of(address: str) -> str:
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def as_error(error: BaseException, address: str) -> PipelineError:
    """Return an error with one line of text: the address, the problem, and the store's own text."""
    said = " ".join(_SECRETS.sub(r"\1…", _REQUEST_ID.sub("", str(error))).split())[:_REASON_MAX]
    if (refusal := _refusal(said)) is not None:
        return UsageError(f"{address}: {refusal.text} ({said})")
    if isinstance(error, (ValueError, TypeError, ImportError)):
        return UsageError(f"{address}: {said}")
    where = "no server answers there" if _NOT_THERE.search(said) else "the store does not answer"
    return PipelineError(f"{address}: {where} ({said})")


def _refusal(said: str) -> Refusal | None:
    return next((each for each in REFUSALS if each.said.search(said)), None)


def patiently(call: Callable[[], T], address: str, *, answer_s: float = ANSWER_S) -> T:
    """Return the result of a call, retrying errors that may be temporary.

    Raises:
        FileNotFoundError: The object does not exist.
        UsageError, PipelineError: As `as_error`.
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
    """Return or raise the result of a call.

    Raises OSError after `answer_s` without one; the call's thread is abandoned then.
    """
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((call(), None))
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it again
            found.append((None, error))

    # Not a pool: Python would wait for its threads at exit.
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
