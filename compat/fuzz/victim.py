"""The connection that sends damaged frames to a broker."""

import socket

# A damaged JoinGroup or Fetch may rightly wait for minutes; the next connection does not.
PATIENCE_S = 0.02


class Victim:
    """A connection that reconnects whenever the broker has closed it, or does not answer in time."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._connection: socket.socket | None = None

    def take(self, frame: bytes) -> str:
        """Send one frame; `answered`, `closed` or `left waiting`."""
        try:
            if self._connection is None:
                self._connection = socket.create_connection(self._address, timeout=10)
                self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connection.settimeout(PATIENCE_S)
            self._connection.sendall(frame)
            if self._answer(self._connection):
                return "answered"
            outcome = "closed"
        except TimeoutError:
            outcome = "left waiting"
        except ConnectionError:
            outcome = "closed"
        self.close()
        return outcome

    @staticmethod
    def _answer(connection: socket.socket) -> bool:
        """Read one whole answer; False if the connection ends before."""
        left, head = 4, b""
        while left:
            data = connection.recv(left)
            if not data:
                return False
            left -= len(data)
            if len(head) < 4:
                head += data
                if len(head) == 4:
                    left = int.from_bytes(head, "big")
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
