"""Exit code 0 when a broker answers an ApiVersions request within two seconds: `healthcheck.py HOST:PORT`.

A port that accepts connections is not enough; nothing but the standard library is needed.
"""

import socket
import struct
import sys

API_VERSIONS, VERSION, CORRELATION_ID = 18, 0, 4711
TIMEOUT_S = 2.0


def is_healthy(address: str) -> bool:
    """Whether the broker at HOST:PORT answers ApiVersions v0 with error code 0 and at least one API."""
    host, _, port = address.rpartition(":")
    body = struct.pack(">hhih", API_VERSIONS, VERSION, CORRELATION_ID, -1)
    try:
        with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            reader = connection.makefile("rb")
            size, correlation_id, error_code, apis = struct.unpack(">iihi", reader.read(14))
            rest = reader.read(size - 10)
    except (OSError, struct.error):
        return False
    return correlation_id == CORRELATION_ID and error_code == 0 and apis > 0 and len(rest) == apis * 6


if __name__ == "__main__":
    sys.exit(0 if is_healthy(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092") else 1)
