"""`ottla dev`: a broker for development, and the code to use it."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import tempfile
from functools import partial
from typing import TYPE_CHECKING

from .frame.errors import CommandError, wrong_call
from .frame.options import ADMIN, BOOTSTRAP, COMMAND_CONFIG, DEFAULT_ADMIN, number
from .frame.parser import Command, Parser
from .serve_command import beginning_options, loading, log_to_standard_error, users_given

if TYPE_CHECKING:
    from ..broker.supervisor import Supervisor
    from .dev_tls import Secured

LISTENER = "localhost:9092"
DEFAULT_REGISTRY = "localhost:8081"
IN_USE = f"no registry: another program has {DEFAULT_REGISTRY}; --schema-registry 0 picks a free port"
CLIENT_FILE = "client.properties"
LOGIN = """\
# log in as user {name}; put the password here
    login = {{"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "{mechanism}", "sasl_plain_username": {name!r},
             "sasl_plain_password": "…"}}
    """
OVER_TLS = """\
{whose}tls = {options!r}
    """
WHOSE_PASSWORD = "# log in as user {name}; replace … with the password\n    "
NOTES = """\
The same as `ottla serve --profile dev --listener localhost:9092 --admin 9099 --schema-registry 8081`, with a temporary data directory unless --data is
given. By default it listens on the loopback addresses 127.0.0.1 and ::1 only. Two lines of output are for programs: the first is
`ready HOST:PORT[,HOST:PORT...]`, and `control http://HOST:PORT` has the address of the admin API. Ctrl-C stops the broker.
"""

HELLO = """
Kafka clients   {bootstrap}
status page     http://{admin}/
schemas         {registry}
control         http://{admin}   (admin API: /v1/openapi.json, /metrics, /healthz)
data            {data}
{tls}
In Python, after `pip install kafka-python`:

    from kafka import KafkaConsumer, KafkaProducer
    {login}with KafkaProducer(bootstrap_servers="{address}"{more}) as producer:
        producer.send("greetings", key=b"me", value=b"hello").get()
    for record in KafkaConsumer("greetings", bootstrap_servers="{address}"{more}, auto_offset_reset="earliest", consumer_timeout_ms=1000):
        print(record.offset, record.key, record.value)

In another shell:

{exports}    ottla topics create orders --config cleanup.policy=compact
    ottla produce orders paid --key 17
    ottla consume orders --until-end
    ottla explain orders          # why it is or is not compacted, and how to get it compacted
    ottla clock advance 8d        # moves the broker's clock; timers fire
    ottla status

Stop with Ctrl-C.
"""


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "--data", metavar="DIR", help="data directory (default: a temporary directory, removed at exit)"
    )
    parser.add_argument(
        "--listener",
        metavar="[NAME://]HOST:PORT",
        action="append",
        help=f"address for Kafka clients; port 0 picks a free one (default: {LISTENER})",
    )
    parser.add_argument(
        "--admin",
        metavar="[HOST:]PORT",
        default=DEFAULT_ADMIN,
        help=f"address of the admin API; port 0 picks a free one (default: {DEFAULT_ADMIN})",
    )
    parser.add_argument("--admin-token-file", metavar="FILE", help="file with the bearer token for the admin API")
    parser.add_argument(
        "--schema-registry",
        metavar="[HOST:]PORT",
        help="address of the schema registry; port 0 picks a free one, off starts none (default: "
        f"{DEFAULT_REGISTRY}, or none if another program has that port)",
    )
    parser.add_argument(
        "--nodes",
        type=number(1),
        metavar="N",
        help="number of brokers in this process, each with its own id and port (default: 1)",
    )
    parser.add_argument(
        "--override", metavar="NAME=VALUE", action="append", default=[], help="broker option to set; repeatable"
    )
    beginning_options(parser)
    parser.add_argument("--verbose", action="store_true", help="log at level INFO to standard error (default: WARNING)")


def run(options: argparse.Namespace) -> int:
    """Serve until a signal is received."""
    log_to_standard_error(logging.INFO if options.verbose else logging.WARNING)
    with loading():
        from .serve import serve

    options.config, options.profile = None, "dev"
    options.registry_may_fail = options.schema_registry is None
    options.schema_registry = None if options.schema_registry == "off" else options.schema_registry or DEFAULT_REGISTRY
    options.listener = options.listener or [LISTENER]
    options.user = users_given(options)
    from ...storage.topics.options import ConfigError  # imported as late as the start
    from ..config.properties import refuse_comma

    try:
        if options.data is None:
            refuse_comma("TMPDIR", tempfile.gettempdir())
        temporary = (
            tempfile.mkdtemp(prefix="ottla-dev-") if options.data is None or options.user or options.tls else None
        )
    except ConfigError as error:
        raise wrong_call(str(error)) from None
    except OSError as error:
        raise wrong_call(
            f"cannot create a temporary directory: {error.strerror}; set TMPDIR to another location"
        ) from error
    data = options.data
    if data is None:
        options.data = os.path.join(str(temporary), "data")  # files next to it are deleted with it
        data = f"{options.data}, removed at exit"
    try:
        return serve(options, partial(hello, data, temporary, "off" if options.schema_registry is None else IN_USE))
    except CommandError as error:
        hint = (
            "; use --listener 127.0.0.1:0, --admin 0 and --schema-registry 0 for free ports"
            if "in use" in str(error)
            else ""
        )
        raise CommandError(f"{error}{hint}", error.exit_code) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def hello(
    data: str, temporary: str | None, without_registry: str, supervisor: Supervisor, secured: Secured | None
) -> str:
    """Return the text to paste. It contains no passwords: they are in a file that is deleted at exit.

    Args:
        without_registry: The line on the schema registry if there is none.
    """
    address, admin = supervisor.nodes[0].listeners[0].client_address, str(supervisor.admin_address)
    registry = without_registry
    if supervisor.registry_address is not None:
        registry = f"http://{supervisor.registry_address}   (the API of Confluent's Schema Registry)"
    exports = ""
    if address != LISTENER:
        exports += f"    export {BOOTSTRAP}={address}\n"
    if admin != DEFAULT_ADMIN:
        exports += f"    export {ADMIN}={admin}\n"
    login, more, tls = "", "", ""
    if temporary is not None and (supervisor.static.users or secured is not None):
        from ...storage.disk.own_files import make_file
        from ...storage.topics.properties import properties_text
        from ..embedded.sasl import sasl_for  # Most starts have neither users nor TLS.

        path = os.path.join(temporary, CLIENT_FILE)
        if secured is not None:
            properties, tls = secured.java(), secured.hello(address, path)
            whose = "" if secured.sasl is None else WHOSE_PASSWORD.format(name=secured.sasl.user.name)
            login, more = OVER_TLS.format(whose=whose, options=secured.kafka_python()), ", **tls"
        else:
            sasl = sasl_for(supervisor.static.users, None, None, None)
            properties = sasl.java()
            login, more = LOGIN.format(name=sasl.user.name, mechanism=sasl.mechanism), ", **login"
        with open(make_file(path), "w", encoding="utf-8") as file:
            file.writelines(f"{name}={properties_text(value)}\n" for name, value in properties.items())
        exports += f"    export {COMMAND_CONFIG}={path}\n"
    return HELLO.format(
        bootstrap=",".join(node.listeners[0].client_address for node in supervisor.nodes),
        address=address,
        admin=admin,
        registry=registry,
        data=data,
        exports=exports,
        login=login,
        more=more,
        tls=tls,
    )


COMMAND = Command(
    "dev",
    "run a broker for development: on loopback, with a temporary data directory and the admin listener",
    run,
    add_options,
    NOTES,
)
