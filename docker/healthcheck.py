"""Health check: exit code 0 if the broker answers an ApiVersions request within two seconds.

    healthcheck.py [HOST:PORT [PROTOCOL]]

The default is the address of this container's broker. A port that accepts connections is not enough. Logins are not tried, and
certificates are not checked. Only the standard library is needed.
"""

import os
import socket
import ssl
import struct
import sys
import tempfile

LISTENER_FILE = "ottla-listener"
"""Name of the temporary file to which the entrypoint writes the broker's security protocol and address."""

API_VERSIONS, VERSION, CORRELATION_ID = 18, 0, 4711
TIMEOUT_S = 2.0


def is_healthy(address: str, protocol: str = "PLAINTEXT") -> bool:
    """Return whether the broker at HOST:PORT answers ApiVersions v0 with error code 0 and at least one API.

    A broker that requires client certificates counts as healthy if it says so.
    """
    host, _, port = address.rpartition(":")
    body = struct.pack(">hhih", API_VERSIONS, VERSION, CORRELATION_ID, -1)
    try:
        with _connected(host.strip("[]"), int(port), protocol) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            reader = connection.makefile("rb")
            size, correlation_id, error_code, apis = struct.unpack(">iihi", reader.read(14))
            rest = reader.read(size - 10)
    except ssl.SSLError as error:
        return "CERTIFICATE_REQUIRED" in str(error.reason) or "HANDSHAKE_FAILURE" in str(error.reason)
    except (OSError, struct.error, ValueError):
        return False
    return correlation_id == CORRELATION_ID and error_code == 0 and apis > 0 and len(rest) == apis * 6


def _connected(host: str, port: int, protocol: str) -> socket.socket:
    connection = socket.create_connection((host, port), TIMEOUT_S)
    if not protocol.endswith("SSL"):
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connection, server_hostname="localhost")


def where() -> tuple[str, str]:
    """Return address and security protocol of this container's broker."""
    try:
        with open(os.path.join(tempfile.gettempdir(), LISTENER_FILE), encoding="utf-8") as file:
            protocol, address = file.read().split()
    except (OSError, ValueError):
        return "127.0.0.1:9092", "PLAINTEXT"
    return address, protocol


if __name__ == "__main__":
    sys.exit(0 if is_healthy(*(sys.argv[1:] or where())) else 1)
