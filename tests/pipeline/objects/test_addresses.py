"""Addresses and options of stores, and that no secret gets into either."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline.errors import UsageError
from ottla.pipeline.objects.addresses import SCHEMES, FsOptions, is_address, normalize, option_names, parse_fs_options
from support.noted import each_case

NORMAL = {
    "s3://logs/a/b/": "s3://logs/a/b",
    "S3A://logs": "s3://logs",
    "s3n://logs/x": "s3://logs/x",
    "gcs://logs/x//": "gs://logs/x",
    "abfss://box@account.dfs.core.windows.net/x": "abfs://box@account.dfs.core.windows.net/x",
    "hdfs://me@name:8020/x": "hdfs://me@name:8020/x",
    "hdfs://ha-name/x": "hdfs://ha-name/x",
    "file:///data/": "file:///data",
}


@pytest.mark.parametrize("given", NORMAL)
def test_an_address_is_said_in_one_way(given: str) -> None:
    assert is_address(given)
    assert normalize(given) == NORMAL[given]


@pytest.mark.parametrize("path", ["/data", "./s3", "s3:/logs", "data,other", "", "C:\\data"])
def test_a_path_is_none(path: str) -> None:
    assert not is_address(path)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ftp://host/x", r"ftp://: expected one of s3://, gs://, abfs://, hdfs://, file://"),
        ("s3://KEYID:hush@logs/x", "no credentials in an address"),
        ("s3://hush@logs/x", "no credentials in an address"),
        ("abfs://box:hush@account/x", "no credentials in an address"),
        ("hdfs://me:hush@name/x", "no credentials in an address"),
        ("s3://logs/x?endpoint_override=hush", "no options in an address"),
        ("s3:///x", "expected s3://BUCKET/…"),
    ],
)
def test_what_no_address_has_is_refused_and_not_repeated(address: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        normalize(address)
    assert "hush" not in str(refused.value)


def test_options_are_of_one_scheme_each() -> None:
    found = parse_fs_options({"S3A.Region": "eu-west-1", "s3.endpoint_override": "http://h:1", "gs.anonymous": "True"})
    assert found.texts == (("gs.anonymous", "True"), ("s3.endpoint_override", "http://h:1"), ("s3.region", "eu-west-1"))
    assert pickle.loads(pickle.dumps(found)) == found
    assert parse_fs_options({}) == FsOptions()
    assert {name.partition(".")[0] for name in option_names()} == {name for name, of in SCHEMES.items() if of.options}


@each_case(
    "name, text, said",
    [
        ("s3.secret_key", "hush", "expected no secret"),
        ("s3.access_key", "hush", "expected no secret"),
        ("s3.session_token", "hush", "expected no secret"),
        ("gs.access_token", "hush", "expected no secret"),
        ("abfs.account_key", "hush", "expected no secret"),
        ("abfs.sas_token", "hush", "expected no secret"),
        ("s3.regoin", "x", "unknown option s3.regoin; options are s3.endpoint_override, s3.region"),
        ("region", "x", "unknown option region"),
        ("s3.anonymous", "perhaps", "option s3.anonymous: invalid value 'perhaps'"),
        ("s3.connect_timeout", "soon", "option s3.connect_timeout: invalid value 'soon'"),
        ("s3.scheme", "ftp", "option s3.scheme"),
    ],
)
def test_secrets_and_what_does_not_exist_are_refused(name: str, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        parse_fs_options({name: text})
    assert "hush" not in str(refused.value)


def test_no_option_is_a_credential_of_pyarrow() -> None:
    for name in option_names():
        assert not any(word in name for word in ("secret", "key", "token", "password"))


def test_a_store_is_opened_once_a_process(tmp_path: Path) -> None:
    first, path = FsOptions().open(f"file://{tmp_path}")
    assert (path, FsOptions().open("file:///other")[0] is first) == (str(tmp_path), True)


def test_a_bucket_is_the_beginning_of_the_path() -> None:
    options = parse_fs_options(
        {"s3.endpoint_override": "http://127.0.0.1:1", "s3.region": "eu-west-1", "s3.anonymous": "true"}
    )
    filesystem, path = options.open("s3://logs/a/b")
    assert (filesystem.type_name, path) == ("s3", "logs/a/b")
