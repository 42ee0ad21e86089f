"""A token whose signature has been checked is accepted again, while its key is valid and until its own expiry."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.server.config.sasl.oauth import OauthConfig
from ottla.server.runtime.clock import Clock
from ottla.server.security.principal import UnprovenError
from ottla.server.security.sasl.jwks import CHARS_MAX, KEPT_MAX, Jwks, ProvedToken, ProvedTokens
from ottla.server.security.sasl.oauthbearer import checked
from support.security.issuing import NOW_S, jwks_text, token

HOUR_S = 3600


class Keys:
    """Keys in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.put("k1")
        self.config = OauthConfig(path.as_uri())
        self.jwks = Jwks(self.config, Clock(lambda: NOW_S * 1000, lambda: 0))
        self.jwks.load()

    def put(self, *names: str, as_if: str = "") -> None:
        """Write these keys to the file; the first may have the id of another one."""
        text = jwks_text(*names)
        self.path.write_text(text.replace(f'"kid": "{names[0]}"', f'"kid": "{as_if}"') if as_if else text)

    async def user(self, text: str, at_s: int = NOW_S) -> str:
        return (await checked(text, self.config, self.jwks, at_s * 1000)).subject


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys.json")


async def test_a_known_token_is_accepted_again(keys: Keys) -> None:
    shown = token()
    assert [await keys.user(shown) for _ in range(3)] == ["alice"] * 3
    assert len(keys.jwks.proved) == 1


async def test_a_known_token_expires(keys: Keys) -> None:
    shown = token()
    await keys.user(shown)
    with pytest.raises(UnprovenError, match="token has expired"):
        await keys.user(shown, at_s=NOW_S + 2 * HOUR_S)


async def test_a_known_token_ends_with_its_key(keys: Keys) -> None:
    shown = token()
    await keys.user(shown)
    keys.put("k2")
    with pytest.raises(UnprovenError, match="no signing key has"):
        await keys.user(shown)


async def test_another_key_of_the_same_id_does_not_match(keys: Keys) -> None:
    shown = token()
    await keys.user(shown)
    keys.put("k2", as_if="k1")
    with pytest.raises(UnprovenError, match="invalid signature"):
        await keys.user(shown)
    assert not len(keys.jwks.proved)


async def test_a_known_token_is_accepted_after_its_key_is_read_again(keys: Keys) -> None:
    shown = token()
    await keys.user(shown)
    keys.put("k1", "k2")
    assert await keys.user(shown) == "alice"


@pytest.mark.parametrize("part", range(3))
async def test_a_token_that_differs_in_any_character_is_another_one(keys: Keys, part: int) -> None:
    shown, other = token(), token("k2", sub="bob").replace("k2", "k1")
    await keys.user(shown)
    parts = shown.split(".")
    parts[part] = other.split(".")[part]
    if (forged := ".".join(parts)) != shown:
        with pytest.raises(UnprovenError):
            await keys.user(forged)


async def test_a_refused_token_is_not_stored(keys: Keys) -> None:
    with pytest.raises(UnprovenError):
        await keys.user(token("k2").replace("k2", "k1"))
    assert not len(keys.jwks.proved)


def test_recent_short_tokens_are_cached() -> None:
    proved, found = ProvedTokens(), ProvedToken("k1", "RS256", object(), b"{}")
    for number in range(KEPT_MAX):
        proved.put(str(number), found)
    assert proved.get("0") is found
    proved.put("one more", found)
    assert (proved.get("0"), proved.get("1"), len(proved)) == (found, None, KEPT_MAX)
    proved.put("x" * (CHARS_MAX + 1), found)
    assert (proved.get("x" * (CHARS_MAX + 1)), len(proved)) == (None, KEPT_MAX)


def test_tokens_are_not_stored_themselves() -> None:
    proved = ProvedTokens()
    proved.put("a.secret.token", ProvedToken("k1", "RS256", None, b"{}"))
    assert "secret" not in repr(vars(proved))
