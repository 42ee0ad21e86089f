"""An advisory database on the lowest versions that pyproject.toml lets in: none of them has a known hole.

A package that the database cannot judge fails the suite. Without a database the suite is not run. `make release` asks the same.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ..support.suite import Options, Suite, run_suite
from .bounds import audited, lowest, tools


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--osv-url", metavar="URL", help="a mirror of OSV's query call, instead of the public databases"
    )


def body(suite: Suite, options: Options) -> None:
    with TemporaryDirectory(prefix="compat-advisories-") as name:
        commands = tools(Path(name) / "tools")
        pins = lowest(commands)
        audit = audited(commands, pins, options.rest.osv_url)
    for package, version in pins.items():
        detail = "; ".join(audit.holes.get(package, ())) or audit.unknown.get(package, "")
        suite.check(f"{package} {version} has no known hole", not detail, detail)


if __name__ == "__main__":
    sys.exit(run_suite("lower_bounds.advisories", body, doc=__doc__, more_arguments=arguments))
