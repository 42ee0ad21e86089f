"""Plays a recorded transactional history on Ottla, by transactional producers over the wire, and compares the resulting log.

The seed makes the same requests as on Apache Kafka, in the same order. The recording has the time of each marker and of each
pass, and Ottla's clock follows it. So everything that the brokers decide themselves is compared: offsets, producer epochs,
markers, segment boundaries, the last stable offset, and the result of a pass.

Other histories had already used producer ids and coordinator epochs, so both are advanced here too: by producers that only get
an id, and by restarts.

Histories with a full map are left out: a cleaner continues at once after a pass, so the second pass of a round cannot get a
time of its own.
"""

from ottla.storage.disk.paths import TopicPartition

from ...support.logs.segment_files import base_offset, cleaner_checkpoint, segments
from .batches import Batch, decode
from .compare import Findings, compare_logs
from .compare_rounds import aborted_in, compare_left, compare_producers
from .history import HELD_BACK, LET_GO, History, Step
from .replay_wire import OttlaAtKafkasTime, ottla_for
from .transactions import THEMES, TRANSACTION_VERSIONS, Player, configs_of, script_of
from .wire import TOPIC, Wire

LEADER_EPOCHS_OF_A_RESTART = 2


def coordinator_epoch(marker: Batch) -> int:
    value = marker.records[0].value
    assert value is not None
    return int.from_bytes(value[2:6], "big")


class LiveOttla:
    """Ottla as the player of a history sees it."""

    def __init__(self, ottla: OttlaAtKafkasTime) -> None:
        self.ottla = ottla
        self.wire = Wire(ottla.broker.bootstrap)

    def restart(self, topic: str = "") -> None:
        """Stop and start the node: as with Apache Kafka's, all leader epochs increase by two."""
        self.wire.close()
        self.ottla.broker.stop_node(0)
        self.ottla.broker.start_node(0)
        self.wire = Wire(self.ottla.broker.bootstrap)


class ComparingPlayer(Player):
    """Plays a history that Apache Kafka has played, and compares in each round."""

    def __init__(self, live: LiveOttla, recorded: History, findings: Findings) -> None:
        self.ottla, self.recorded, self.findings = live.ottla, recorded, findings
        self.round = 0
        self.compared_end = 0
        appended = [
            (number, batch)
            for number, step in enumerate(recorded.steps)
            for batch in decode(bytes.fromhex(step["appended"]))
        ]
        markers = [(number, batch) for number, batch in appended if batch.is_control]
        self.marker_times_ms = [batch.max_timestamp for _, batch in markers]
        style, theme_name = recorded.theme.split(", ")
        topic, theme = recorded.name, THEMES[theme_name]
        number, first = markers[0]
        restarts_before = (number + 1) // 2 if theme.restarts else 0
        live.wire.find_transaction_coordinator("first")
        for _ in range(coordinator_epoch(first) // LEADER_EPOCHS_OF_A_RESTART - restarts_before):
            live.restart()
        live.wire.create_topic(topic, configs_of(theme))
        last_id = max(batch.producer_id for _, batch in appended)
        while live.wire.new_producer_id() < last_id - theme.producers:
            pass
        super().__init__(live, topic, live.ottla.data / f"{topic}-0", script_of(recorded), style, theme)

    def marker_comes(self) -> None:
        self.ottla.at(self.marker_times_ms.pop(0))

    def clean(self, retention_ms: int) -> None:
        step: Step = self.recorded.steps[self.round]
        self.findings.at(f"{self.recorded.name} {self.recorded.theme}, over the wire, round {self.round}")
        self.round += 1
        self.compare_before(step)
        # Wait for a full round: what the cleaner saw while the clock moved is then done, and it takes the log at the pass's own
        # time.
        self.ottla.rounds()
        self.live.wire.set_configs(TOPIC, self.topic, LET_GO | {"delete.retention.ms": str(retention_ms)})
        for _, end, pass_ms in step["passes"]:
            self.ottla.at(pass_ms)
            self.ottla.wait_for_checkpoint(self.topic, end)
            self.findings.equal("end of the pass", end, cleaner_checkpoint(self.ottla.data, self.topic))
            self.findings.passes += 1
        self.ottla.rounds()
        self.live.wire.set_configs(TOPIC, self.topic, HELD_BACK)
        compare_left(self.findings, step, self.folder, self.aborted())

    def compare_before(self, step: Step) -> None:
        findings, end = self.findings, self.log_end()
        found = [batch for batch in decode(self.all_segments()) if batch.base_offset >= self.compared_end]
        self.compared_end = end
        compare_logs(findings, bytes.fromhex(step["appended"]), b"".join(batch.raw for batch in found))
        findings.equal("segments before the pass", step["bases"], [base_offset(path) for path in segments(self.folder)])
        findings.equal("last stable offset", step["last_stable"], self.live.wire.fetch(self.topic, end)[1].last_stable)
        findings.equal("aborted transactions before the pass", step["aborted_before"], self.aborted())
        compare_producers(findings, step, self.folder)

    def all_segments(self) -> bytes:
        return b"".join(path.read_bytes() for path in segments(self.folder))

    def aborted(self) -> list[list[list[int]]]:
        """Return the transaction indexes, which may be in memory yet."""
        return self.ottla.broker.run(self._aborted)

    async def _aborted(self) -> list[list[list[int]]]:
        return aborted_in(self.ottla.broker.inner.services.logs.logs[TopicPartition(self.topic, 0)])


def replay(recorded: History, findings: Findings) -> None:
    """Play and compare one history."""
    style = recorded.theme.split(", ")[0]
    with ottla_for(recorded, {"transaction.version": TRANSACTION_VERSIONS[style]}) as ottla:
        live = LiveOttla(ottla)
        try:
            ComparingPlayer(live, recorded, findings).play()
        finally:
            live.wire.close()
