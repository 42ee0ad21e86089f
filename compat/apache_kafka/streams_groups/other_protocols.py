"""Members of other protocols that join a streams group, or use its name."""

from __future__ import annotations

from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.server.client.connection import Client

from .answers import Answer, code_name
from .steps import Classic, OtherBeat

TIMEOUT_MS = 60_000


class OtherProtocols:
    """
    One classic member a group; its name is the broker's, and differs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._names: dict[str, str] = {}
        self._generations: dict[str, int] = {}

    def beat(self, step: OtherBeat) -> Answer:
        if step.kind == "share":
            asked = ShareGroupHeartbeatRequest(
                group_id=step.group, member_id=step.member, member_epoch=0, subscribed_topic_names=("alpha",)
            )
            share = self._client.ask(asked)
            return code_name(share.error_code), share.error_message, share.member_epoch
        request = ConsumerGroupHeartbeatRequest(
            group_id=step.group,
            member_id=step.member,
            member_epoch=0,
            rebalance_timeout_ms=TIMEOUT_MS,
            subscribed_topic_names=("alpha",),
            topic_partitions=(),
        )
        answer = self._client.ask(request, 1)
        return code_name(answer.error_code), answer.error_message, answer.member_epoch

    def classic(self, step: Classic) -> Answer:
        how = {"join": self._join, "sync": self._sync, "beat": self._alive, "leave": self._leave}
        return how[step.what](step)

    def _join(self, step: Classic) -> Answer:
        """Join, and again with the returned member id if required."""
        answers = []
        for _ in range(2):
            request = JoinGroupRequest(
                group_id=step.group,
                session_timeout_ms=TIMEOUT_MS,
                rebalance_timeout_ms=TIMEOUT_MS,
                member_id=self._names.get(step.group, ""),
                protocol_type=step.protocol_type,
                protocols=(JoinGroupRequestProtocol(name=step.protocol, metadata=b""),),
            )
            answer = self._client.ask(request, 9)
            code = code_name(answer.error_code)
            answers.append(
                (code, answer.generation_id, answer.protocol_type, answer.protocol_name, len(answer.members))
            )
            if code == "NONE":
                self._generations[step.group] = answer.generation_id
            if code in ("NONE", "MEMBER_ID_REQUIRED"):
                self._names[step.group] = answer.member_id
            else:
                self._names.pop(step.group, None)
            if code not in ("MEMBER_ID_REQUIRED", "UNKNOWN_MEMBER_ID"):
                break
        return tuple(answers)

    def _sync(self, step: Classic) -> Answer:
        member = self._names.get(step.group, "nobody")
        request = SyncGroupRequest(
            group_id=step.group,
            generation_id=self._generations.get(step.group, -1),
            member_id=member,
            protocol_type=step.protocol_type,
            protocol_name=step.protocol,
            assignments=(SyncGroupRequestAssignment(member_id=member, assignment=b"a"),),
        )
        answer = self._client.ask(request, 5)
        return code_name(answer.error_code), answer.protocol_type, answer.protocol_name, bytes(answer.assignment)

    def _alive(self, step: Classic) -> Answer:
        request = HeartbeatRequest(
            group_id=step.group,
            member_id=self._names.get(step.group, "nobody"),
            generation_id=self._generations.get(step.group, -1),
        )
        return (code_name(self._client.ask(request, 4).error_code),)

    def _leave(self, step: Classic) -> Answer:
        member = MemberIdentity(member_id=self._names.pop(step.group, "nobody"))
        answer = self._client.ask(LeaveGroupRequest(group_id=step.group, members=(member,)), 5)
        return code_name(answer.error_code), [code_name(one.error_code) for one in answer.members]
