"""The differences between two releases of Apache Kafka: `python -m compat.apache_kafka.release NEW [--from OLD]`.

Prints a table per section. Fetches the jars of both releases, which needs java and Maven, and starts brokers of both. The
histories of the cleaner take half an hour the first time, all other sections ten minutes.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from ...support.brokers.apache_kafka import VERSION
from ...support.suite import NOT_RUN, NotRunError
from .answers import answers, verdicts
from .classes import classes, names
from .histories import histories
from .messages import messages
from .tables import Table
from .tools import tools

Section = Callable[[str, str], Table]
SECTIONS: dict[str, Section] = {
    "messages": messages,
    "answers": answers,
    "names": names,
    "verdicts": verdicts,
    "histories": histories,
    "tools": tools,
    "classes": classes,
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m compat.apache_kafka.release",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("new", metavar="NEW", help="a release of Apache Kafka, e.g. 4.4.0")
    parser.add_argument("--from", dest="old", metavar="OLD", default=VERSION, help="the release before (%(default)s)")
    parser.add_argument("--only", action="append", choices=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--json", action="store_true", help="JSON, with every cell in full")
    parsed = parser.parse_args(argv)
    if not parsed.json:
        print(f"# Apache Kafka {parsed.old} → {parsed.new}\n", flush=True)
    code, found = 0, {}
    for name in parsed.only or SECTIONS:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # progress of the suites that record
                table = SECTIONS[name](parsed.old, parsed.new)
        except NotRunError as missing:
            table, code = Table(name.capitalize(), (), [], [f"not run: needs {missing}"]), NOT_RUN
        found[name] = asdict(table)
        if not parsed.json:
            print(table.markdown(), flush=True)
    if parsed.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    return code


if __name__ == "__main__":
    sys.exit(main())
