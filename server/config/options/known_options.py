"""Every broker option of Apache Kafka 4.4.0 by name, and which of them Ottla does not act on.

The latter are accepted, checked as Kafka checks them, kept and shown; setting one at start gives a warning line. A row
is

    NAME TYPE UPDATE DEFAULT [BOUND]

where UPDATE is read-only, per-broker or cluster-wide (`,hidden` where listings leave it out), DEFAULT is `-` for none
and `""` for the empty text, and BOUND is `LOW..`, `LOW..HIGH`, `A|B` or, for each item of a list, `items:A|B`.
"""

from functools import lru_cache

from ....storage.topics.options import Check, Option, OptionType, UpdateMode, at_least, between, items_of, one_of
from .broker_options import ACTED_ON, topic_default_options
from .quota_options import PER_LISTENER as QUOTAS_PER_LISTENER
from .security_options import PER_LISTENER as SECURITY_PER_LISTENER

REASONS = (
    (
        ("group.share.initialize.",),
        "the group coordinator retries the initialization of share states by itself",
    ),
    (("group.share.dlq.",), "dead letters of share groups are written by the broker itself"),
    (("group.share.persister.",), "states of share groups are stored by the broker's own coordinators"),
    (("share.coordinator.state.topic.compression.",), "coordinators write their records uncompressed"),
    (("remote.", "follower.fetch.last.tiered."), "tiered storage is not supported"),
    (
        (
            "broker.heartbeat.",
            "broker.session.",
            "controlled.shutdown.",
            "controller.performance.",
            "controller.quorum.",
            "controller.socket.",
            "early.start.listeners",
            "initial.broker.",
            "internal.metadata.",
            "metadata.",
            "server.max.startup.",
        ),
        "the catalog is a single file, not the metadata log of a KRaft quorum",
    ),
    (
        (
            "auto.leader.rebalance.",
            "follower.replication.",
            "leader.imbalance.",
            "leader.replication.",
            "num.replica.fetchers",
            "replica.",
            "replication.quota.",
            "unclean.leader.election.interval.",
        ),
        "all replicas share one log: nothing is fetched from a leader, and no election is delayed",
    ),
    (
        ("alter.log.dirs.", "num.replica.alter."),
        "a move between directories needs no separate threads or quota windows",
    ),
    (
        (
            "background.threads",
            "group.consumer.assignor.offload.",
            "group.coordinator.",
            "group.share.assignor.offload.",
            "group.streams.assignor.offload.",
            "num.io.",
            "num.network.",
            "queued.max.requests",
            "share.coordinator.append.",
            "share.coordinator.cached.",
            "share.coordinator.threads",
            "share.coordinator.write.",
        ),
        "one thread serves all requests, and coordinators write at once",
    ),
    (("num.recovery.",), "logs are recovered one after the other"),
    (
        ("offsets.load.", "share.coordinator.load.", "transaction.state.log.load."),
        "coordinators read their partitions in chunks of a fixed size",
    ),
    (
        (
            "delete.records.purgatory.",
            "fetch.purgatory.",
            "producer.purgatory.",
            "share.fetch.purgatory.",
        ),
        "completed requests leave the purgatory at once, so no purge is needed",
    ),
    (
        ("kafka.metrics.", "metric.reporters", "metrics."),
        "metrics are served by the admin listener, and not sent to reporters",
    ),
    (
        (
            "alter.config.policy.",
            "client.quota.callback.",
            "config.providers",
            "create.topic.policy.",
            "principal.builder.",
            "sasl.client.callback.",
            "sasl.login.callback.",
            "sasl.login.class",
            "sasl.oauthbearer.jwt.",
            "sasl.server.callback.",
            "security.providers",
        ),
        "it names a Java class or algorithm",
    ),
    (("sasl.kerberos.",), "GSSAPI is not supported"),
    (
        ("sasl.login.", "sasl.oauthbearer.assertion.", "sasl.oauthbearer.client.", "sasl.oauthbearer.token."),
        "it is for SASL clients, and this broker does not connect to other servers",
    ),
    (("sasl.oauthbearer.scope",), "it is for clients that request a token"),
    (("sasl.oauthbearer.",), "OAUTHBEARER is not supported"),
    (
        ("inter.broker.", "request.timeout.", "sasl.mechanism.", "socket.connection."),
        "nodes share one process and open no connections to each other",
    ),
    (("socket.receive.", "socket.send."), "the operating system chooses the socket buffer sizes"),
    (("offsets.commit.timeout.",), "a commit is written before it is answered"),
    (("offsets.topic.compression.",), "offsets are written uncompressed, which is the default"),
    (("cordoned.",), "log directories are not cordoned by this option"),
)
"""Reasons why options have no effect here, by prefixes of their names; the first match wins."""


def reason_of(name: str) -> str:
    """Return why an option of the table has no effect here. KeyError if no reason is declared."""
    for prefixes, reason in REASONS:
        if name.startswith(prefixes):
            return reason
    raise KeyError(name)


_UPDATE = {
    "read-only": UpdateMode.READ_ONLY,
    "per-broker": UpdateMode.PER_BROKER,
    "cluster-wide": UpdateMode.CLUSTER_WIDE,
}


def known_options() -> dict[str, Option]:
    """Return the options of the table below, by name."""
    return {row.name: row for row in map(_option, _TABLE.split("\n"))}


def _option(row: str) -> Option:
    name, type_name, update, default, *bound = row.split()
    mode, _, hidden = update.partition(",")
    plain = Option(name, OptionType[type_name], None)
    value = None if default == "-" else plain.parse("" if default == '""' else default)
    check = _check(bound[0]) if bound else None
    doc = f"Known to Kafka. No effect in Ottla: {reason_of(name)}."
    return Option(name, plain.type, value, check, doc, _UPDATE[mode], acts=False, hidden=bool(hidden))


def _check(bound: str) -> Check:
    if bound.startswith("items:"):
        return items_of(*bound.removeprefix("items:").split("|"))
    if ".." not in bound:
        return one_of(*bound.split("|"))
    low, _, high = bound.partition("..")
    return between(int(low), float(high) if "." in high else int(high)) if high else at_least(int(low))


_TABLE = """\
alter.config.policy.class.name CLASS read-only -
alter.log.dirs.replication.quota.window.num INT read-only 11 1..
alter.log.dirs.replication.quota.window.size.seconds INT read-only 1 1..
auto.leader.rebalance.enable BOOLEAN read-only true
background.threads INT cluster-wide 10 1..
broker.heartbeat.interval.ms INT read-only 2000
broker.session.timeout.ms INT read-only 9000
client.quota.callback.class CLASS read-only -
config.providers LIST cluster-wide ""
controlled.shutdown.enable BOOLEAN read-only true
controller.performance.always.log.threshold.ms LONG read-only,hidden 2000 0..
controller.performance.sample.period.ms LONG read-only,hidden 60000 100..
controller.quorum.append.linger.ms INT read-only 25 0..
controller.quorum.auto.join.enable BOOLEAN read-only false
controller.quorum.bootstrap.servers LIST read-only ""
controller.quorum.election.backoff.max.ms INT read-only 1000 0..
controller.quorum.election.timeout.ms INT read-only 1000 0..
controller.quorum.fetch.max.bytes INT read-only 1048576 1..
controller.quorum.fetch.snapshot.max.bytes INT read-only 1048576 1..
controller.quorum.fetch.timeout.ms INT read-only 2000 0..
controller.quorum.request.timeout.ms INT read-only 2000 0..
controller.quorum.retry.backoff.ms INT read-only 20 0..
controller.quorum.voters LIST read-only ""
controller.socket.timeout.ms INT read-only 30000
create.topic.policy.class.name CLASS read-only -
delete.records.purgatory.purge.interval.requests INT read-only 1
early.start.listeners LIST read-only -
fetch.purgatory.purge.interval.requests INT read-only 1000
follower.fetch.last.tiered.offset.enable BOOLEAN cluster-wide false
group.consumer.assignor.offload.enable BOOLEAN cluster-wide,hidden true
group.coordinator.append.linger.ms INT read-only -1 -1..
group.coordinator.background.threads INT read-only 2 1..
group.coordinator.cached.buffer.max.bytes INT cluster-wide 1048588 524288..
group.coordinator.threads INT read-only 4 1..
group.share.assignor.offload.enable BOOLEAN cluster-wide,hidden true
group.share.dlq.manager.class.name STRING read-only,hidden org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager
group.share.initialize.retry.interval.ms INT read-only,hidden 30000 1..
group.share.persister.class.name STRING read-only,hidden org.apache.kafka.server.share.persister.DefaultStatePersister
group.streams.assignor.offload.enable BOOLEAN cluster-wide,hidden true
initial.broker.registration.timeout.ms INT read-only 60000
internal.metadata.delete.delay.millis LONG read-only,hidden 60000
internal.metadata.log.segment.bytes INT read-only,hidden -
internal.metadata.max.batch.size.in.bytes INT read-only,hidden 8388608
kafka.metrics.polling.interval.secs INT read-only 10 1..
kafka.metrics.reporters LIST read-only ""
leader.imbalance.check.interval.seconds LONG read-only 300 1..
metadata.log.dir STRING read-only -
metadata.log.max.record.bytes.between.snapshots LONG read-only 20971520 1..
metadata.log.max.snapshot.interval.ms LONG read-only 3600000 0..
metadata.log.segment.bytes INT read-only 1073741824 8388608..
metadata.log.segment.ms LONG read-only 604800000
metadata.max.idle.interval.ms INT read-only 500 0..
metadata.max.retention.bytes LONG read-only 104857600
metadata.max.retention.ms LONG read-only 604800000
metric.reporters LIST cluster-wide org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples INT read-only 2 1..
metrics.recording.level STRING read-only INFO
metrics.sample.window.ms LONG read-only 30000 1..
num.io.threads INT cluster-wide 8 1..
num.network.threads INT cluster-wide 3 1..
num.recovery.threads.per.data.dir INT cluster-wide 2 1..
num.replica.alter.log.dirs.threads INT read-only -
num.replica.fetchers INT cluster-wide 1 1..
offsets.commit.timeout.ms INT read-only 5000 1..
offsets.load.buffer.size INT read-only 5242880 1..
offsets.topic.compression.codec INT read-only 0
producer.purgatory.purge.interval.requests INT read-only 1000
queued.max.requests INT read-only 500 1..
remote.fetch.max.wait.ms INT cluster-wide 500 1..
remote.list.offsets.request.timeout.ms LONG cluster-wide 30000 1..
remote.log.index.file.cache.total.size.bytes LONG cluster-wide 1073741824 1..
remote.log.index.file.cache.ttl.ms LONG read-only,hidden 900000 -1..
remote.log.manager.copier.thread.pool.size INT cluster-wide 10 1..
remote.log.manager.copy.max.bytes.per.second LONG cluster-wide 9223372036854775807 1..
remote.log.manager.copy.quota.window.num INT read-only 11 1..
remote.log.manager.copy.quota.window.size.seconds INT read-only 1 1..
remote.log.manager.expiration.thread.pool.size INT cluster-wide 10 1..
remote.log.manager.fetch.max.bytes.per.second LONG cluster-wide 9223372036854775807 1..
remote.log.manager.fetch.quota.window.num INT read-only 11 1..
remote.log.manager.fetch.quota.window.size.seconds INT read-only 1 1..
remote.log.manager.follower.thread.pool.size INT cluster-wide 2 1..
remote.log.manager.task.interval.ms LONG read-only 30000 1..
remote.log.manager.task.retry.backoff.max.ms LONG read-only,hidden 30000 1..
remote.log.manager.task.retry.backoff.ms LONG read-only,hidden 500 1..
remote.log.manager.task.retry.jitter DOUBLE read-only,hidden 0.2 0..0.5
remote.log.manager.thread.pool.size INT read-only 2 1..
remote.log.metadata.custom.metadata.max.bytes INT read-only 128 0..
remote.log.metadata.manager.class.name STRING read-only org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path STRING read-only -
remote.log.metadata.manager.impl.prefix STRING read-only rlmm.config.
remote.log.metadata.manager.listener.name STRING read-only -
remote.log.reader.max.pending.tasks INT read-only 100 1..
remote.log.reader.threads INT cluster-wide 10 1..
remote.log.storage.manager.class.name STRING read-only -
remote.log.storage.manager.class.path STRING read-only -
remote.log.storage.manager.impl.prefix STRING read-only rsm.config.
remote.log.storage.system.enable BOOLEAN read-only false
replica.fetch.backoff.ms INT read-only 1000 0..
replica.fetch.max.bytes INT read-only 1048576 0..
replica.fetch.min.bytes INT read-only 1
replica.fetch.response.max.bytes INT read-only 10485760 0..
replica.fetch.wait.max.ms INT read-only 500
replica.high.watermark.checkpoint.interval.ms LONG read-only 5000
replica.lag.time.max.ms LONG read-only 30000
replica.selector.class STRING read-only -
replica.socket.receive.buffer.bytes INT read-only 65536
replica.socket.timeout.ms INT read-only 30000
replication.quota.window.num INT read-only 11 1..
replication.quota.window.size.seconds INT read-only 1 1..
request.timeout.ms INT read-only 30000
sasl.client.callback.handler.class CLASS read-only -
sasl.kerberos.kinit.cmd STRING per-broker /usr/bin/kinit
sasl.kerberos.min.time.before.relogin LONG per-broker 60000
sasl.kerberos.principal.to.local.rules LIST per-broker DEFAULT
sasl.kerberos.service.name STRING per-broker -
sasl.kerberos.ticket.renew.jitter DOUBLE per-broker 0.05
sasl.kerberos.ticket.renew.window.factor DOUBLE per-broker 0.8
sasl.login.callback.handler.class CLASS read-only -
sasl.login.class CLASS read-only -
sasl.login.connect.timeout.ms INT read-only -
sasl.login.read.timeout.ms INT read-only -
sasl.login.refresh.buffer.seconds SHORT per-broker 300
sasl.login.refresh.min.period.seconds SHORT per-broker 60
sasl.login.refresh.window.factor DOUBLE per-broker 0.8
sasl.login.refresh.window.jitter DOUBLE per-broker 0.05
sasl.login.retry.backoff.max.ms LONG read-only 10000
sasl.login.retry.backoff.ms LONG read-only 100
sasl.mechanism.controller.protocol STRING read-only GSSAPI
sasl.mechanism.inter.broker.protocol STRING per-broker GSSAPI
sasl.oauthbearer.assertion.algorithm STRING read-only RS256
sasl.oauthbearer.assertion.claim.aud STRING read-only -
sasl.oauthbearer.assertion.claim.exp.seconds INT read-only 300 0..86400
sasl.oauthbearer.assertion.claim.iss STRING read-only -
sasl.oauthbearer.assertion.claim.jti.include BOOLEAN read-only false
sasl.oauthbearer.assertion.claim.nbf.seconds INT read-only 60 0..3600
sasl.oauthbearer.assertion.claim.sub STRING read-only -
sasl.oauthbearer.assertion.file STRING read-only -
sasl.oauthbearer.assertion.private.key.file STRING read-only -
sasl.oauthbearer.assertion.private.key.passphrase PASSWORD read-only -
sasl.oauthbearer.assertion.template.file STRING read-only -
sasl.oauthbearer.client.credentials.client.id STRING read-only -
sasl.oauthbearer.client.credentials.client.secret PASSWORD read-only -
sasl.oauthbearer.jwt.retriever.class CLASS read-only org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.scope STRING read-only -
sasl.oauthbearer.token.endpoint.url STRING read-only -
security.providers STRING read-only -
server.max.startup.time.ms LONG read-only,hidden 9223372036854775807 0..
share.coordinator.append.linger.ms INT read-only -1 -1..
share.coordinator.cached.buffer.max.bytes INT cluster-wide 1048588 524288..
share.coordinator.load.buffer.size INT read-only 5242880 1..
share.coordinator.state.topic.compression.codec INT read-only 0
share.coordinator.threads INT read-only 1 1..
share.coordinator.write.timeout.ms INT read-only 5000 1..
share.fetch.purgatory.purge.interval.requests INT read-only 1000
socket.connection.setup.timeout.max.ms LONG read-only 30000
socket.connection.setup.timeout.ms LONG read-only 10000
socket.receive.buffer.bytes INT read-only 102400
socket.send.buffer.bytes INT read-only 102400
transaction.state.log.load.buffer.size INT read-only 5242880 1..
unclean.leader.election.interval.ms LONG read-only,hidden 300000 1.."""

BROKER_OPTIONS: dict[str, Option] = dict(
    sorted((ACTED_ON | {option.name: option for option in topic_default_options()} | known_options()).items())
)
"""Every broker option of Apache Kafka 4.4.0, by name."""

PER_LISTENER = SECURITY_PER_LISTENER | QUOTAS_PER_LISTENER
"""Options that may have another value for one listener."""

LISTENER_PREFIX = "listener.name."
"""Prefix of an option for one listener; the listener's name in lower case follows."""


def find_option(name: str) -> Option | None:
    """Return the broker option of this name; `listener.name.NAME.OPTION` is OPTION for one listener. None if unknown."""
    found = BROKER_OPTIONS.get(name)
    if found is None and name.startswith(LISTENER_PREFIX):
        return _listener_option(name)
    return found


def is_secret(name: str) -> bool:
    """Return whether the value must not be shown. Values of unknown names are secret too: one may be a plug-in's password."""
    option = find_option(name)
    return option is None or option.is_sensitive


# A broker may have a thousand of them, and each is looked up with every change.
@lru_cache(maxsize=1_024)
def _listener_option(name: str) -> Option | None:
    _, _, base = name.removeprefix(LISTENER_PREFIX).partition(".")
    for candidate in (base, base.partition(".")[2]):  # some are prefixed with a SASL mechanism as well
        if candidate in BROKER_OPTIONS:
            option = BROKER_OPTIONS[candidate]
            return option._replace(name=name, acts=option.acts and candidate in PER_LISTENER)
    return None
