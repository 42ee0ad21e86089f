"""Produces one record a request at a steady rate and prints what each took: one measured run of `bench.latency`.

    python -m compat.bench.latency.client PORT TOPIC REQUESTS_A_SECOND SECONDS

Open loop on one connection: a request that the one before it held up counts from when it was due. Prints the
microseconds of each, a line each, the first half second's left out.
"""

import random
import sys
import time

from ...support.clients.one_batch import one_record_batch
from ...support.clients.raw import RawConnection, produce_body, produce_result

WARM_UP_S = 0.5


def main(port: int, topic: str, rate: float, seconds: float) -> None:
    body = produce_body(topic, 0, one_record_batch(random.Random(1).randbytes(100), b"key-00001"))
    warm_up, measured = int(WARM_UP_S * rate), int(seconds * rate)
    micros = []
    with RawConnection("127.0.0.1", port) as connection:
        first_due_s = time.perf_counter()
        for number in range(warm_up + measured):
            begun_s = due_s = first_due_s + number / rate
            if (early_s := due_s - time.perf_counter()) > 0:
                time.sleep(early_s)
                begun_s = time.perf_counter()  # what the sleep took too long is not the broker's
            error_code, _ = produce_result(connection.request(0, 3, body), topic)
            micros.append((time.perf_counter() - begun_s) * 1e6)
            if error_code:
                raise RuntimeError(f"produce failed with error {error_code}")
    for each in micros[warm_up:]:
        print(f"{each:.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
