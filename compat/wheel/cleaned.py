"""Writes, cleans and reads a log with the Ottla of this Python: exit code 0 if each newest value exists.

It imports nothing else, so that it runs wherever Ottla is installed.
"""

import platform
import sys

import ottla
from ottla.storage import kernel

with ottla.Broker() as broker:
    broker.create_topic("t", configs={"cleanup.policy": "compact"})
    for number in range(1000):
        broker.produce("t", str(number), key=f"k{number % 10}")
    broker.compact("t", force=True)
    left = [int(record.value or b"-1") for record in broker.records("t")]

print(f"Python {platform.python_version()} on {platform.platform()} with {kernel.__file__}")
if left != list(range(990, 1000)):
    sys.exit(f"expected the numbers from 990 on, found {left}")
