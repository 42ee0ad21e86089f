"""OAUTHBEARER logins, answer by answer.

Tokens of every kind are sent to listeners whose keys come from a file, over http and https, or that accept unsigned tokens.
Others are malformed messages, and keys that change, are slow or are unavailable.

`--record` writes Apache Kafka's answers next to this program. Without it the same is sent to Ottla over bare sockets, and
each difference is a failure unless it is listed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from ...support.certificates import Certificates
from ...support.suite import NotRunError, Options, Suite, run_suite
from ..issuer import Issuer, unsigned
from ..key_server import KeyServer
from .asking import first_message, login
from .brokers import broker, listeners
from .differences import NAMED
from .kinds import MESSAGES, OTHER_CLAIMS, REPLIES, SCOPES, SIGNED, UNSIGNED, USER
from .rotation import seen

TABLES = {
    "file": SIGNED,
    "http": OTHER_CLAIMS,
    "https": {kind: made for kind, made in SIGNED.items() if kind.startswith(("good", "by "))},
    "unsigned": UNSIGNED,
}
"""Listener -> its tokens."""
FILE = Path(__file__).with_name("apache_kafka.json")


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its broker itself")
    against = "apache-kafka" if options.rest.record else options.against
    with tempfile.TemporaryDirectory() as work:
        answers = asked(against, Path(work))
    if not options.quick:
        with tempfile.TemporaryDirectory() as work:
            answers |= seen(against, Path(work))
    if options.rest.record:
        FILE.write_text(
            "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(answers[key])}" for key in answers) + "\n}\n"
        )
        suite.check("recorded", True, f"{len(answers)} conversations")
        return
    expected = json.loads(FILE.read_text())
    if not options.quick:
        suite.equal("conversations and steps on one side alone", [], sorted(set(expected) ^ set(answers)))
    for one, answer in answers.items():
        if one in NAMED:
            suite.check(f"{one}: differs as named", answer != expected.get(one))
        elif answer != expected.get(one):
            suite.equal(one, expected.get(one), answer)
    same = sum(answer == expected.get(one) for one, answer in answers.items())
    suite.check("conversations are alike", same > 0, f"{same} of {len(answers)}")


def asked(against: str, work: Path) -> dict[str, Any]:
    """Return the answers of a broker to every token and message."""
    issuer = Issuer(work)
    certificates = Certificates(work / "certificates")
    keys = lambda: (200, issuer.jwks())
    with (
        KeyServer(keys) as http,
        KeyServer(keys, certificates.server) as https,
        broker(against, listeners(issuer.jwks_path, http.url, https.url, certificates.ca)) as (_, at),
    ):
        answers: dict[str, Any] = {}
        for name, kinds in TABLES.items():
            for kind, made in kinds.items():
                answers[f"{name}: {kind}"] = login(at[name], first_message(made(issuer)))
        good = {"file": issuer.token(USER), "unsigned": unsigned(USER, scope=SCOPES)}
        for name, token in good.items():
            for kind, message in MESSAGES.items():
                answers[f"{name}, first message: {kind}"] = login(at[name], message.replace(b"TOKEN", token.encode()))
            for kind, reply in REPLIES.items():
                text = reply.replace(b"TOKEN", token.encode())
                answers[f"{name}, reply: {kind}"] = login(at[name], first_message("x"), text)
    return answers


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record", action="store_true", help="record Apache Kafka's answers")


if __name__ == "__main__":
    sys.exit(run_suite("security.tokens", body, doc=__doc__, more_arguments=_more))
