"""Addresses of data that is not on a file system of this machine, and their file systems.

    s3://bucket/prefix            gs://bucket/prefix          abfs://container@account/prefix
    hdfs://namenode:8020/path     file:///path                (s3a, s3n, gcs, abfss: other names of the same)

An address and its options contain no password and no key: credentials come from the environment of each process, as
PyArrow reads them (AWS_ACCESS_KEY_ID, ~/.aws, an instance's role; GOOGLE_APPLICATION_CREDENTIALS; Azure's default credential;
Hadoop's configuration). So nothing that is pickled, planned, logged or raised can contain a secret.

PyArrow is imported when an address is opened: plans and installs do not need it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..errors import UsageError, check_the_extra

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)

LAYOUTS = ("aiven", "localtiered")
"""Prefixes of a scheme, before a plus, that name the segment layout of a remote storage manager (`tiered`)."""

S3_ATTEMPTS = 3
"""Number of attempts of the SDK for one request; readers retry for longer (`failures.patiently`)."""


def is_address(path: str) -> bool:
    """Return whether this is an address, not a path of this machine."""
    return _ADDRESS.match(path) is not None


def normalize(address: str) -> str:
    """Return the normal form of an address: the scheme by its main name, and no slash at the end.

    Raises:
        UsageError: The scheme is unknown, or the address contains a password or options.
    """
    found = _ADDRESS.match(address)
    if found is None:
        raise UsageError(f"{address}: expected SCHEME://…, found a path")
    layout, plus, given = found[1].lower().rpartition("+")
    rest = found[2]
    if plus and layout not in LAYOUTS:
        raise UsageError(f"{layout}+{given}://: expected one of {', '.join(f'{name}+' for name in LAYOUTS)}")
    scheme = _OTHER_NAMES.get(given, given)
    if scheme not in SCHEMES:
        raise UsageError(f"{given}://: expected one of {', '.join(f'{name}://' for name in SCHEMES)}")
    authority = rest.partition("/")[0]
    if ":" in authority.rpartition("@")[0] or (scheme in ("s3", "gs") and "@" in authority):
        raise UsageError(f"{given}://…: expected no credentials in an address; they come from the environment")
    if "?" in rest:
        raise UsageError(f"{given}://{authority}/…: expected no options in an address: give them separately (fs.NAME)")
    if not authority and scheme != "file":
        raise UsageError(f"{address}: expected {SCHEMES[scheme].form}")
    return f"{layout}{plus}{scheme}://{rest.rstrip('/')}"


class Opener(Protocol):
    """Opener of addresses. It is sent to executors with the addresses that they read, so it holds no connection."""

    def open(self, address: str) -> tuple[FileSystem, str]:
        """Return PyArrow's file system for a normal address, and the path in it."""


Options = tuple[tuple[str, str], ...]


class FsOptions(NamedTuple):
    """Opener for the schemes of the tables below, with options by name (`s3.endpoint_override`)."""

    texts: Options = ()

    def open(self, address: str) -> tuple[FileSystem, str]:
        scheme, rest = _split(address)
        own = tuple((name.partition(".")[2], text) for name, text in self.texts if name.partition(".")[0] == scheme)
        authority, slash, path = rest.partition("/")
        if SCHEMES[scheme].has_bucket:
            return _filesystem(scheme, authority.rpartition("@")[2] if scheme == "abfs" else "", own), (
                f"{authority.rpartition('@')[0] if scheme == 'abfs' else authority}{slash}{path}"
            )
        return _filesystem(scheme, authority, own), f"/{path}"


def parse_fs_options(texts: Mapping[str, str]) -> FsOptions:
    """Parse options from `--fs-option NAME=VALUE`, or the format's `fs.NAME`.

    Raises:
        UsageError: An option is unknown, invalid, or a secret.
    """
    found = {}
    for given, text in texts.items():
        scheme, _, name = given.lower().partition(".")
        scheme = _OTHER_NAMES.get(scheme, scheme)
        if scheme not in SCHEMES or name not in SCHEMES[scheme].options:
            if any(word in given.lower() for word in _SECRET_WORDS):
                raise UsageError(
                    f"option {given}: expected no secret: executors and driver take credentials from their environment"
                )
            raise UsageError(f"unknown option {given}; options are {', '.join(option_names())}")
        try:
            SCHEMES[scheme].options[name](text)
        except (ValueError, KeyError):
            raise UsageError(f"option {scheme}.{name}: invalid value {text!r}") from None
        found[f"{scheme}.{name}"] = text
    return FsOptions(tuple(sorted(found.items())))


def option_names() -> Iterator[str]:
    for scheme, of in SCHEMES.items():
        yield from (f"{scheme}.{name}" for name in of.options)


_SECRET_WORDS = ("secret", "access_key", "account_key", "password", "token", "sas")


def flag(text: str) -> bool:
    """Parse `true` or `false`. Raises KeyError for another text."""
    return {"true": True, "false": False}[text.lower()]


def _web_scheme(text: str) -> str:
    return {"http": "http", "https": "https"}[text.lower()]


class Scheme(NamedTuple):
    """One row of the table: how a kind of store is opened, and its options."""

    form: str
    opened: Callable[[str, dict[str, Any]], FileSystem]
    """Return the file system for an authority and options."""
    options: Mapping[str, Callable[[str], Any]]
    """Parsers of options by PyArrow's own names, without credentials."""
    has_bucket: bool = False
    """Whether the first part of a path in it is the bucket."""


def _s3(_authority: str, options: dict[str, Any]) -> FileSystem:
    from pyarrow import fs

    endpoint = options.get("endpoint_override", "")
    if "://" in endpoint:  # the form of the AWS tools
        scheme, _, endpoint = endpoint.partition("://")
        options = {"scheme": scheme, **options, "endpoint_override": endpoint.rstrip("/")}
    attempts = options.pop("max_attempts", S3_ATTEMPTS)
    # Writing does not create buckets: a mistyped name is an error.
    return fs.S3FileSystem(retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=attempts), **options)


def _gs(_authority: str, options: dict[str, Any]) -> FileSystem:
    from pyarrow import fs

    return fs.GcsFileSystem(**{"retry_time_limit": timedelta(seconds=15), **options})


def _abfs(authority: str, options: dict[str, Any]) -> FileSystem:
    from pyarrow import fs

    return fs.AzureFileSystem(authority.partition(".")[0], **options)


def _hdfs(authority: str, options: dict[str, Any]) -> FileSystem:
    from pyarrow import fs

    user, _, place = authority.rpartition("@")
    host, _, port = place.partition(":")
    if user:
        options = {"user": user, **options}
    return fs.HadoopFileSystem(host, int(port) if port.isdecimal() else 0 if not port else 8020, **options)


def _file(_authority: str, _options: dict[str, Any]) -> FileSystem:
    from pyarrow import fs

    return fs.LocalFileSystem()


SCHEMES: Mapping[str, Scheme] = {
    "s3": Scheme(
        "s3://BUCKET/…",
        _s3,
        {
            "endpoint_override": str,
            "region": str,
            "scheme": _web_scheme,
            "anonymous": flag,
            "connect_timeout": float,
            "request_timeout": float,
            "max_attempts": int,
            "role_arn": str,
            "session_name": str,
            "external_id": str,
            "force_virtual_addressing": flag,
            "tls_ca_file_path": str,
        },
        has_bucket=True,
    ),
    "gs": Scheme(
        "gs://BUCKET/…",
        _gs,
        {
            "endpoint_override": str,
            "scheme": _web_scheme,
            "anonymous": flag,
            "target_service_account": str,
            "project_id": str,
            "retry_time_limit": lambda text: timedelta(seconds=float(text)),
        },
        has_bucket=True,
    ),
    "abfs": Scheme(
        "abfs://CONTAINER@ACCOUNT/…",
        _abfs,
        {
            "blob_storage_authority": str,
            "blob_storage_scheme": _web_scheme,
            "dfs_storage_authority": str,
            "dfs_storage_scheme": _web_scheme,
            "tenant_id": str,
            "client_id": str,
        },
        has_bucket=True,
    ),
    "hdfs": Scheme(
        "hdfs://NAMENODE:PORT/…",
        _hdfs,
        {"user": str, "replication": int, "buffer_size": int, "default_block_size": int, "kerb_ticket": str},
    ),
    "file": Scheme("file:///PATH", _file, {}),
}

_OTHER_NAMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}


def _split(address: str) -> Sequence[str]:
    found = _ADDRESS.match(address)
    assert found is not None
    return found.groups()


@cache
def _filesystem(scheme: str, authority: str, options: Options) -> FileSystem:
    """Return the file system of a store, one per process: it keeps the connections and the credentials."""
    check_the_extra()
    parsers = SCHEMES[scheme].options
    try:
        return SCHEMES[scheme].opened(authority, {name: parsers[name](text) for name, text in options})
    except (OSError, ValueError, TypeError, ImportError) as error:
        from .failures import as_error

        raise as_error(error, f"{scheme}://{authority}") from error
