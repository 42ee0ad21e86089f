"""`kafka-storage.sh format`: formats nothing, and keeps the users of --add-scram for the start."""

import argparse
import re
from pathlib import Path

parser = argparse.ArgumentParser(prog="kafka-storage.sh", allow_abbrev=False)
parser.add_argument("command", choices=["format"])
parser.add_argument("--standalone", action="store_true")
parser.add_argument("-t", required=True)
parser.add_argument("-c", required=True)
parser.add_argument("--add-scram", action="append", default=[])
asked = parser.parse_args()
users = re.findall(r"(\S+?)=\[name=(.*?),password=(.*?)\]", "\n".join(asked.add_scram))
Path(f"{asked.c}.users").write_text("".join(f"{name}:{password}:{mechanism}\n" for mechanism, name, password in users))
