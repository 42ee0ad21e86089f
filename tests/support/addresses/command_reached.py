"""Start `python -m WORDS…`, a command that serves at port 9092, and print as JSON which addresses reach it.

Runs on a machine of its own (see `own_machine`).
"""

from __future__ import annotations

import json
import subprocess
import sys

from ottla.protocol.messages.api_versions import ApiVersionsRequest
from support.addresses.reached import AT, first_answer, healthz
from support.broker.raw_client import RawClient
from support.commands.ended import ended

PORT, ADMIN_PORT = 9092, 9099


def main() -> None:
    process = subprocess.Popen([sys.executable, "-P", "-m", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
    with ended(process):
        assert process.stdout is not None
        found: dict[str, object] = {"ready": process.stdout.readline().split()[-1]}
        for host in AT:
            try:
                with RawClient(first_answer(host), PORT) as client:
                    client.ask(ApiVersionsRequest(), 0)
                found[host] = healthz(first_answer(host), ADMIN_PORT)
            except OSError as error:
                found[host] = error.strerror
        process.terminate()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
