"""`ottla dev`: a broker to develop against, and what to paste to use it."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import tempfile
from functools import partial
from typing import TYPE_CHECKING

from .frame.errors import WrongCallError
from .frame.options import ADMIN, BOOTSTRAP, COMMAND_CONFIG, DEFAULT_ADMIN, number
from .frame.parser import Command, Parser
from .serve_command import beginning_options, loading, log_to_standard_error, users_given

if TYPE_CHECKING:
    from ..broker.lives import Lives
    from .throw_away_tls import Secured

LISTENER = "localhost:9092"
CLIENT_FILE = "client.properties"
LOGIN = """\
# as the user {name}, whose password goes here
    login = {{"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "{mechanism}", "sasl_plain_username": {name!r},
             "sasl_plain_password": "…"}}
    """
OVER_TLS = """\
{whose}tls = {options!r}
    """
WHOSE_PASSWORD = "# as the user {name}, whose password goes where … stands\n    "
NOTES = """\
The same as `ottla serve --profile dev --listener localhost:9092 --admin 9099` with a directory that is removed at the end. It
listens on this machine alone, at 127.0.0.1 and ::1. One line `ready HOST:PORT[,HOST:PORT...]` comes first, for programs; Ctrl-C stops it.
"""

HELLO = """
Kafka clients   {bootstrap}
status page     http://{admin}/
control         http://{admin}   (what there is: /v1/openapi.json; /metrics, /healthz)
data            {data}
{tls}
In Python, with `pip install kafka-python`:

    from kafka import KafkaConsumer, KafkaProducer
    {login}with KafkaProducer(bootstrap_servers="{address}"{more}) as producer:
        producer.send("greetings", key=b"me", value=b"hello").get()
    for record in KafkaConsumer("greetings", bootstrap_servers="{address}"{more}, auto_offset_reset="earliest", consumer_timeout_ms=1000):
        print(record.offset, record.key, record.value)

In another shell:

{exports}    ottla topics create orders --config cleanup.policy=compact
    ottla produce orders paid --key 17
    ottla consume orders --until-end
    ottla explain orders          # why it is compacted or not, and what would make it so
    ottla clock advance 8d        # the broker's time moves, and all that waits for it
    ottla status

Stop with Ctrl-C.
"""


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "--data", metavar="DIR", help="keep data here (default: a temporary directory, removed at the end)"
    )
    parser.add_argument(
        "--listener",
        metavar="[NAME://]HOST:PORT",
        action="append",
        help=f"for Kafka clients; port 0 takes a free one (default: {LISTENER})",
    )
    parser.add_argument(
        "--admin",
        metavar="[HOST:]PORT",
        default=DEFAULT_ADMIN,
        help=f"for control calls; port 0 takes a free one (default: {DEFAULT_ADMIN})",
    )
    parser.add_argument("--admin-token-file", metavar="FILE", help="what control calls have to know stands in FILE")
    parser.add_argument("--nodes", type=number(1), metavar="N", help="play N broker ids, each on its own port")
    parser.add_argument(
        "--override", metavar="NAME=VALUE", action="append", default=[], help="set any broker option; repeatable"
    )
    beginning_options(parser)
    parser.add_argument("--verbose", action="store_true", help="log to standard error what the broker does")


def run(options: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    log_to_standard_error(logging.INFO if options.verbose else logging.WARNING)
    with loading():
        from .serve import serve

    options.config, options.profile = None, "dev"
    options.listener = options.listener or [LISTENER]
    options.user = users_given(options)
    from ...storage.topics.options import ConfigError  # as late as the start
    from ..config.properties import refuse_comma

    try:
        if options.data is None:
            refuse_comma("TMPDIR", tempfile.gettempdir())
        temporary = (
            tempfile.mkdtemp(prefix="ottla-dev-") if options.data is None or options.user or options.tls else None
        )
    except ConfigError as error:
        raise WrongCallError(str(error)) from None
    except OSError as error:
        raise WrongCallError(f"no temporary directory: {error.strerror}; TMPDIR names another") from error
    data = options.data
    if data is None:
        options.data = os.path.join(str(temporary), "data")  # what is put beside it goes, too
        data = f"{options.data}, removed at the end"
    try:
        return serve(options, partial(hello, data, temporary))
    except WrongCallError as error:
        hint = "; --listener 127.0.0.1:0 and --admin 0 take free ports" if "in use" in str(error) else ""
        raise WrongCallError(f"{error}{hint}") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def hello(data: str, temporary: str | None, lives: Lives, secured: Secured | None) -> str:
    """What to paste. Passwords are not in it, but in a file that goes at the end."""
    address, admin = lives.nodes[0].listeners[0].address, str(lives.admin_address)
    exports = ""
    if address != LISTENER:
        exports += f"    export {BOOTSTRAP}={address}\n"
    if admin != DEFAULT_ADMIN:
        exports += f"    export {ADMIN}={admin}\n"
    login, more, tls = "", "", ""
    if temporary is not None and (lives.static.users or secured is not None):
        from ...storage.disk.own_files import make_file
        from ...storage.topics.properties import properties_text
        from ..embedded.sasl import sasl_for  # Most have neither users nor TLS.

        path = os.path.join(temporary, CLIENT_FILE)
        if secured is not None:
            properties, tls = secured.java(), secured.hello(address, path)
            whose = "" if secured.sasl is None else WHOSE_PASSWORD.format(name=secured.sasl.user.name)
            login, more = OVER_TLS.format(whose=whose, options=secured.kafka_python()), ", **tls"
        else:
            sasl = sasl_for(lives.static.users, None, None, None)
            properties = sasl.java()
            login, more = LOGIN.format(name=sasl.user.name, mechanism=sasl.mechanism), ", **login"
        with open(make_file(path), "w", encoding="utf-8") as file:
            file.writelines(f"{name}={properties_text(value)}\n" for name, value in properties.items())
        exports += f"    export {COMMAND_CONFIG}={path}\n"
    return HELLO.format(
        bootstrap=lives.bootstrap,
        address=address,
        admin=admin,
        data=data,
        exports=exports,
        login=login,
        more=more,
        tls=tls,
    )


COMMAND = Command(
    "dev",
    "run a broker for development: on loopback, in a temporary directory, with the admin listener",
    run,
    add_options,
    NOTES,
)
