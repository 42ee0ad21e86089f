"""Keys that appear and disappear while clients log in: from a file and over http, from a server that is slow or fails."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ..issuer import OTHER_KEY, RSA_KEY, VALIDATOR, Issuer, good_claims
from ..key_server import KeyServer
from .asking import first_message, login
from .brokers import CHECKED, MODULE, broker
from .kinds import USER

REFRESH_MS = 2_000
SOON_S, PAUSE_S = 10.0, 0.2
SLOWLY_S, QUICKLY_S = 3.0, 1.5
FLOOD = 20


def options(url: str) -> dict[str, str]:
    """Return the options of a listener with these keys."""
    return {
        "oauthbearer.sasl.jaas.config": f"{MODULE};",
        "oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": str(REFRESH_MS),
        **CHECKED,
    }


def listeners(issuer: Issuer, url: str) -> dict[str, dict[str, str]]:
    """Their options by name."""
    return {"file": options(issuer.jwks_path.as_uri()), "http": options(url)}


def seen(against: str, work: Path) -> dict[str, Any]:
    """Return the result of each step."""
    issuer = Issuer(work)
    issuer.publish(RSA_KEY)
    state: dict[str, Any] = {"names": (RSA_KEY,), "wait_s": 0.0, "status": 200}

    def answer() -> tuple[int, str]:
        time.sleep(state["wait_s"])
        return state["status"], issuer.jwks(*state["names"]) if state["status"] == 200 else "out of order"

    found: dict[str, Any] = {}
    with KeyServer(answer) as server, broker(against, listeners(issuer, server.url)) as (_, at):
        old, new = issuer.token(USER), issuer.signed({"alg": "RS256", "kid": OTHER_KEY}, good_claims(USER), OTHER_KEY)

        def counts(name: str, token: str) -> bool:
            return "minutes" in login(at[name], first_message(token))[0]

        def soon(name: str, token: str, *, wanted: bool) -> bool:
            """Wait until the token is accepted, or refused, as `wanted`; return whether that happened in time."""
            due_s = time.monotonic() + SOON_S
            while counts(name, token) is not wanted and time.monotonic() < due_s:
                time.sleep(PAUSE_S)
            return counts(name, token) is wanted

        found["http: the keys are fetched before anybody comes"] = server.fetches > 0
        found["http: a token by a key that is published"] = counts("http", old)
        state["names"] = (RSA_KEY, OTHER_KEY)
        found["http: a token by a new key, soon"] = soon("http", new, wanted=True)
        state["names"] = (RSA_KEY,)
        found["http: a token by a key that was withdrawn is refused, soon"] = soon("http", new, wanted=False)
        before = server.fetches
        for number in range(FLOOD):
            login(
                at["http"],
                first_message(issuer.signed({"alg": "RS256", "kid": f"x{number}"}, good_claims(USER), OTHER_KEY)),
            )
        found["http: tokens by unknown keys do not have them fetched each"] = server.fetches - before < FLOOD / 2
        state["status"] = 500
        time.sleep(REFRESH_MS / 1000 + 1)
        found["http: a token counts while the server fails"] = counts("http", old)
        state["status"] = 200
        state["names"] = (RSA_KEY, OTHER_KEY)
        found["http: a token by a new key, soon after the server has failed"] = soon("http", new, wanted=True)
        state["wait_s"] = SLOWLY_S
        time.sleep(REFRESH_MS / 1000 + PAUSE_S)
        began_s = time.monotonic()
        found["http: a token counts while the server is slow"] = counts("http", old)
        found["http: nobody waits for it"] = time.monotonic() - began_s < QUICKLY_S
        found["file: a token by a key that is not published"] = counts("file", new)
        issuer.publish(RSA_KEY, OTHER_KEY)
        found["file: a token by a new key, soon"] = soon("file", new, wanted=True)
        issuer.jwks_path.write_text(json.dumps({"keys": []}))
        found["file: a token by a key that was withdrawn is refused, soon"] = soon("file", old, wanted=False)
    return found
