"""Prints as JSON which addresses reach a broker, for each way to write a listener. Runs on a machine of its own.

    {"LISTENER": {"ready": HOST, "told": HOST, "at": {ADDRESS: "the client's host, as the broker has it", or why not}}}

`told` is the host in the broker's Metadata response. Ports are left out everywhere.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
from typing import Any

import ottla
from ottla.protocol.messages.metadata import MetadataRequest
from support.broker.raw_client import RawClient

AT = ("127.0.0.1", "::1", "localhost")
"""Addresses that clients connect to. For the last one only the resolver's first answer is used, as old clients do."""


def first_answer(host: str) -> str:
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


def asked_at(broker: ottla.Broker, host: str, port: int) -> tuple[str, str]:
    """Return the client's host as the broker knows it, and the broker's host as its Metadata response has it."""
    with RawClient(host, port) as client:
        (told,) = client.ask(MetadataRequest(topics=()), 12).brokers

        own_port = str(client._socket.getsockname()[1])

        async def peers() -> list[str]:
            return [each.client_host for each in broker.inner.connections if each.client_port == own_port]

        (peer,) = broker.run(peers)
    return peer, str(told.host)


def healthz(host: str, port: int) -> int:
    connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


def reached(listener: str, **options: Any) -> dict[str, Any]:
    with ottla.Broker(listener=listener, **options) as broker:
        ready, _, port = broker.bootstrap.rpartition(":")
        found: dict[str, Any] = {"ready": ready, "told": "", "at": {}}
        for host in AT:
            try:
                found["at"][host], found["told"] = asked_at(broker, first_answer(host), int(port))
            except OSError as error:
                found["at"][host] = error.strerror
        return found


def reached_by_http(admin: str, token: str | None = None) -> dict[str, Any]:
    with ottla.Broker(admin=admin, admin_token=token) as broker:
        ready, _, port = str(broker.admin).rpartition(":")
        found: dict[str, Any] = {"ready": ready, "at": {}}
        for host in AT:
            try:
                found["at"][host] = healthz(first_answer(host), int(port))
            except OSError as error:
                found["at"][host] = error.strerror
        return found


def controller(host: str) -> dict[str, Any]:
    """Return which addresses reach the listener of a controller."""
    options = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{host}:0",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    with ottla.Broker(overrides=options) as broker:
        port = broker.inner.nodes[0].listeners[1].port
        found: dict[str, Any] = {"at": {}}
        for at in AT:
            try:
                with socket.create_connection((first_answer(at), port), 60):
                    found["at"][at] = "connected"
            except OSError as error:
                found["at"][at] = error.strerror
        return found


def main() -> None:
    names = sys.argv[1:]
    found: dict[str, Any] = {name: reached(f"{name}:0") for name in names}
    everywhere = {"advertised.listeners": "PLAINTEXT://broker.example:0"}
    found["0.0.0.0"] = reached("0.0.0.0:0", overrides=everywhere)
    found["controller"] = controller("localhost")
    found["http"] = reached_by_http("0")
    found["http everywhere"] = reached_by_http("0.0.0.0:0", "a-token")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
