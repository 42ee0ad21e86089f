"""Requests of authenticated users, and their rights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.protocol.connection import encode_request, encode_response, parse_request, parse_response
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import api_of
from ottla.server.network.dispatcher import finished
from ottla.server.security.acls.acl import Acl
from ottla.server.security.acls.kinds import AclOperation, PatternType, Permission, ResourceType
from ottla.server.security.principal import Principal
from ottla.storage.disk.files import FileSlice
from support.authorization.rights import EVERY
from support.authorization.scene import Ask
from support.broker.contexts import Staying, context_of


class User(Staying):
    """A client that has authenticated."""

    def __init__(self, name: str) -> None:
        self.principal = Principal("User", name)


def asker(broker: Broker, user: str) -> Ask:
    """Return a function that sends requests as a user, through the codec both ways, at a listener that requires login."""
    plain = context_of(broker, User(user))
    context = replace(plain, listener=replace(plain.listener, security_protocol="SASL_PLAINTEXT"))

    async def ask(sent: Any, version: int) -> Any:
        api = api_of(sent)
        frame = bytearray(encode_request(api, version, 0, "client", sent))
        request = parse_request(memoryview(frame)[4:])
        answer = await finished((await broker.handlers.loaded(api.key))(context, request))
        told = b"".join(map(_bytes_of, encode_response(request, answer)))
        return parse_response(api, version, told[4:])[1]

    return ask


def _bytes_of(part: Any) -> bytes:
    return part.read() if isinstance(part, FileSlice) else bytes(part)


def grant(broker: Broker, user: str, resource_type: ResourceType, name: str, operation: AclOperation) -> Acl:
    acl = Acl(resource_type, name, PatternType.LITERAL, f"User:{user}", EVERY, operation, Permission.ALLOW)
    assert broker.services.authorizer is not None
    broker.services.authorizer.add(acl)
    return acl
