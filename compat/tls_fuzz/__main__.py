"""50 000 damaged TLS handshakes and records, slow handshakes, renegotiation and wrong certificates: the broker stays up.

None of them leaks resources: connections, descriptors and memory are the same afterwards. The log has no internal error, and
clients on a plain listener of the same broker are not delayed.
"""

import argparse
import random
import socket
import ssl
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from ottla.server.client.kafka import Kafka
from ottla.server.client.security import Security

from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import free_port
from ..support.certificates import Certificates
from ..support.clients.holds import Pinger
from ..support.suite import NotRunError, Options, Suite, run_suite
from .attacker import Attacker

CONNECTIONS, QUICK_CONNECTIONS = 50_000, 800
CHECK_EVERY = 5_000
MAX_HOLD_MS = 20.0
MAX_RESIDENT_BYTES = 300 << 20
SLOW_CLIENTS = 100
HANDSHAKE_S = 10.0
AT_ONCE = 200


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="repeat a run; without it a new seed is drawn and printed")
    parser.add_argument("--connections", type=int, help=f"how many; default {CONNECTIONS}, quick {QUICK_CONNECTIONS}")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("its own Ottla, since it judges the process")
    seed = options.rest.seed if options.rest.seed is not None else random.SystemRandom().randrange(2**32)
    count = options.rest.connections or (QUICK_CONNECTIONS if options.quick else CONNECTIONS)
    suite.note(f"seed {seed}")
    plain, secured = free_port(), free_port()
    with OttlaProcess(profile="dev", keep=options.keep) as broker:
        broker.stop()
        certificates = Certificates(broker.work / "certificates")
        broker.overrides |= certificates.broker_options("required") | {
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{secured}",
            "connection.failed.authentication.delay.ms": "1",
        }
        broker.start()
        look = Look(suite, broker, ("127.0.0.1", secured), certificates)
        look.certificates_are_judged()
        look.nobody_renegotiates()
        before = look.held()
        look.is_damaged(random.Random(seed), count, is_alone=not options.quick)
        look.handshakes_are_slow()
        look.many_come_at_once()
        after = look.settled(before)
        suite.check("no connection and no descriptor is left", after <= before, f"before {before}, after {after}")
        resident = broker.resident_bytes()
        suite.check("memory is bounded", resident < MAX_RESIDENT_BYTES, f"{resident >> 20} MiB")
        output = broker.output_path.read_text(errors="replace")
        suite.equal("errors of our own in its log", 0, output.count("Traceback"))
        suite.equal("it stops cleanly", 0, broker.stop())


class Look:
    """The checks of one broker, whose TLS listener is at `address`."""

    def __init__(
        self, suite: Suite, broker: OttlaProcess, address: tuple[str, int], certificates: Certificates
    ) -> None:
        self.suite = suite
        self.broker = broker
        self.address = address
        self.certificates = certificates
        assert broker.process is not None
        self.process = psutil.Process(broker.process.pid)

    def is_served(self, client: Path | None) -> bool:
        """Return whether an ordinary producer with this certificate gets a record through."""
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        if client is not None:
            context.load_cert_chain(client)
        address = "{}:{}".format(*self.address)
        try:
            with Kafka(address, security=Security(context), timeout_s=3) as kafka:
                kafka.produce("fuzz", "v")
        except OSError:
            return False
        return True

    def certificates_are_judged(self) -> None:
        known = self.certificates
        for name, client, expected in (
            ("good", known.client, True),
            ("none", None, False),
            ("expired", known.expired, False),
            ("of somebody whom nobody trusts", known.stranger, False),
        ):
            served = "served" if expected else "sent away"
            self.suite.equal(f"a client is {served}: certificate {name}", expected, self.is_served(client))

    def nobody_renegotiates(self) -> None:
        """OpenSSL's own client asks for it in TLS 1.2, where a line begins with R."""
        host, port = self.address
        client, ca = str(self.certificates.client), str(self.certificates.ca)
        command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_2", "-cert", client, "-CAfile", ca]
        try:
            done = subprocess.run(command, input=b"R\n", capture_output=True, timeout=20, check=False)
        except FileNotFoundError:
            self.suite.skip("renegotiation", "there is no openssl here")
            return
        told = (done.stdout + done.stderr).decode(errors="replace")
        self.suite.check("renegotiation is refused", "no renegotiation" in told.lower(), told[-200:].strip())

    def held(self) -> int:
        """Return the number of the broker's descriptors."""
        return int(self.process.num_fds())

    def settled(self, before: int) -> int:
        """Return the broker's descriptors after it has closed the connections that the client has closed."""
        until_s = time.monotonic() + 15
        while (held := self.held()) > before and time.monotonic() < until_s:
            time.sleep(0.2)
        return held

    def is_damaged(self, rng: random.Random, count: int, *, is_alone: bool) -> None:
        attacker = Attacker(rng, self.address, self.certificates.ca, self.certificates.client)
        outcomes: Counter[str] = Counter()
        longest_ms, most, started_s = 0.0, 0, time.monotonic()
        with Pinger(self.broker.bootstrap, self.process.pid) as pinger:
            for number in range(0, count, CHECK_EVERY):
                with pinger.watch() as hold:
                    for _ in range(min(CHECK_EVERY, count - number)):
                        outcomes[attacker.attack()] += 1
                longest_ms = max(longest_ms, hold.longest_ms)
                most = max(most, self.broker.resident_bytes())
                if not self.is_served(self.certificates.client):
                    self.suite.check(f"an ordinary client is served after {number}", False, self.broker.output_tail(30))
                    return
        what = ", ".join(f"{times} {outcome}" for outcome, times in sorted(outcomes.items()))
        self.suite.check(
            f"an ordinary client was served after each {CHECK_EVERY} of {count} damaged connections",
            True,
            f"{what}; {time.monotonic() - started_s:.0f} s, at most {most >> 20} MiB resident",
        )
        told = f"{longest_ms:.0f} ms"
        if is_alone:
            self.suite.check(f"no other client waits longer than {MAX_HOLD_MS:.0f} ms", longest_ms <= MAX_HOLD_MS, told)
        else:
            self.suite.note(f"the longest wait of somebody else: {told}")

    def handshakes_are_slow(self) -> None:
        """Check that clients that send little or nothing are closed after ten seconds and delay no other client."""
        hello = _hello()
        with ExitStack() as open_ones:
            started_s = time.monotonic()
            clients = [open_ones.enter_context(socket.create_connection(self.address)) for _ in range(SLOW_CLIENTS)]
            served = self.is_served(self.certificates.client)
            self.suite.check(f"an ordinary client is served next to {SLOW_CLIENTS} slow ones", served)
            gone = set[socket.socket]()
            for at in range(int(2 * HANDSHAKE_S) + 4):
                for client in clients[::2]:
                    try:
                        client.send(hello[at : at + 1])
                    except OSError:
                        gone.add(client)
                time.sleep(0.5)
            for client in clients:
                client.settimeout(1)
                try:
                    if client.recv(1_000) == b"":
                        gone.add(client)
                except ConnectionError:
                    gone.add(client)
                except TimeoutError:
                    pass
            seconds = time.monotonic() - started_s
            self.suite.equal(f"slow ones disconnected after {seconds:.0f} s", SLOW_CLIENTS, len(gone))

    def many_come_at_once(self) -> None:
        """Whole handshakes, all at the same moment: others are let in between."""
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        context.load_cert_chain(self.certificates.client)
        with Pinger(self.broker.bootstrap, self.process.pid) as pinger, ExitStack() as open_ones:
            pairs = []
            for _ in range(AT_ONCE):
                sock = open_ones.enter_context(socket.create_connection(self.address))
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
                try:
                    tls.do_handshake()
                except ssl.SSLWantReadError:
                    pairs.append((sock, outgoing.read()))
            with pinger.watch() as hold:
                for sock, hello in pairs:
                    sock.sendall(hello)
                for sock, _ in pairs:
                    sock.settimeout(10)
                    sock.recv(1)
        self.suite.note(f"{AT_ONCE} handshakes at once: somebody else waits {hold.longest_ms:.0f} ms at most")


def _hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


if __name__ == "__main__":
    sys.exit(run_suite("tls_fuzz", body, doc=__doc__, more_arguments=arguments))
