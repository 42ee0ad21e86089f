"""server.properties files: the comment lines that Ottla interprets."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.config.properties import Properties, parse_server_properties
from ottla.storage.topics.options import ConfigError


@given(st.text(alphabet="a=: \\\n#!u0\t"))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_server_properties(text)


def test_comment_lines_declare_settings_without_a_property() -> None:
    text = """\
# A comment with = in it
#nodes=7
# nodes=3
# controllers=3000@localhost:19124,3001@localhost:19125
# controller.listener=CONTROLLER
# node.1.listeners=EXTERNAL://localhost:19123
# node.2.log.dirs=C\\:\\\\x
# cluster.id=abc
# feature.metadata.version=30
# metadata.version=4.3-IV0
node.id=0
"""
    assert parse_server_properties(text) == Properties(
        values={"node.id": "0"},
        node_values={1: {"listeners": "EXTERNAL://localhost:19123"}, 2: {"log.dirs": "C:\\x"}},
        nodes=3,
        controllers={3000: "localhost:19124", 3001: "localhost:19125"},
        controller_listener="CONTROLLER",
        cluster_id="abc",
        features={"metadata.version": 30},
        metadata_version="4.3-IV0",
    )


@pytest.mark.parametrize(
    "line",
    [
        "# nodes=many",
        "# nodes=",
        "# nodes=1001",
        "# feature.x=-1",
        "# feature.x=40000",
        "# controllers=a@h:1",
        "# node.99999999999.a=1",
    ],
)
def test_our_comment_line_with_a_wrong_number_is_refused(line: str) -> None:
    with pytest.raises(ConfigError, match="comment line #"):
        parse_server_properties(line)
