"""The built wheel in an empty environment: what is in it, what it brings along, and that it serves. The same from source
without a compiler, where the cleaner's kernel runs interpreted.

Builds from a copy of the source tree, so the checkout stays clean, and installs with nothing but pip and the package
index. The clients run in our own environment, the broker in the empty one.
"""

import sys
import tomllib
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Producer

from ..support.brokers.ottla_process import OttlaProcess
from ..support.clients.steps import CODECS, create_topic, read_partitions
from ..support.environments import ROOT, copy_of_source, empty_environment, need_package_index, pip, run
from ..support.suite import Options, Suite, run_suite

KERNEL = "ottla/storage/kernel.abi3.so"
NO_COMPILER = {"CC": "false"}
KERNEL_BYTES_MAX = 600_000
IN_A_THREAD = "import ottla\nwith ottla.Broker() as broker: print(broker.bootstrap)"


class InstalledOttla(OttlaProcess):
    """The console command of another environment."""

    def __init__(self, ottla: Path) -> None:
        super().__init__()
        self.ottla = ottla

    def command(self) -> list[str]:
        return [str(self.ottla), *super().command()[1:]]


def body(suite: Suite, options: Options) -> None:
    with TemporaryDirectory(prefix="compat-wheel-") as name:
        folder = Path(name)
        python = empty_environment(folder / "venv")
        wheel = build(suite, python, folder)
        if wheel is None:
            return
        contents(suite, wheel)
        if not install(suite, python, wheel):
            return
        done = run([python, "-c", IN_A_THREAD], cwd=folder)
        suite.check("a broker in a thread", done.returncode == 0 and ":" in done.stdout, done.stderr[-300:])
        with InstalledOttla(python.with_name("ottla")) as broker:
            produce_and_consume(suite, broker.bootstrap)
            done = run([python.with_name("ottla"), "topics", "--bootstrap", broker.bootstrap, "list"], cwd=folder)
            rows = [line.split()[:2] for line in done.stdout.splitlines()]
            suite.check("ottla topics list", ["t", "5"] in rows, done.stdout + done.stderr)
            suite.equal("SIGTERM stops it cleanly", 0, broker.stop())
        kernel(suite, python, "compiled", folder)
        if not options.quick:
            without_compiler(suite, folder)


def without_compiler(suite: Suite, folder: Path) -> None:
    """From source, as on a machine where no wheel fits and no compiler is."""
    python = empty_environment(folder / "venv-slow")
    done = pip(python, "install", "--no-cache-dir", folder / "source", cwd=folder, env=NO_COMPILER)
    suite.check("pip installs it from source without a compiler", done.returncode == 0, done.stderr[-300:])
    kernel(suite, python, "interpreted", folder)
    with InstalledOttla(python.with_name("ottla")) as broker:
        produce_and_consume(suite, broker.bootstrap)
        said = [line for line in broker.output_path.read_text().splitlines() if "kernel" in line]
        suite.equal("it says once that its kernel is slow", 1, len(said))


def kernel(suite: Suite, python: Path, kind: str, folder: Path) -> None:
    version = run([python.with_name("ottla"), "--version"], folder).stdout
    suite.check(f"its kernel is {kind}", f"({kind} " in version, version)


def build(suite: Suite, python: Path, folder: Path) -> Path | None:
    """The wheel, built by pip in an environment of its own. NotRunError without the package index."""
    need_package_index(python, folder)
    source = copy_of_source(folder / "source")
    done = pip(python, "wheel", "--no-deps", "-w", folder, source, cwd=folder)
    suite.check("pip builds a wheel", done.returncode == 0, done.stderr[-300:])
    return next(folder.glob("ottla-*-cp311-abi3-*.whl"), None)


def contents(suite: Suite, wheel: Path) -> None:
    """Every module of every package, nothing else."""
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    expected = {"ottla/py.typed", "ottla/storage/kernel.pyi", KERNEL}
    for package in packages:
        folder = ROOT.joinpath(*package.split(".")[1:])
        expected |= {f"{package.replace('.', '/')}/{path.name}" for path in folder.glob("*.py")}
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
        kernel_bytes = archive.getinfo(KERNEL).file_size if KERNEL in found else 0
    suite.check("the compiled kernel is small", kernel_bytes <= KERNEL_BYTES_MAX, f"{kernel_bytes} bytes")
    suite.equal("modules that are missing in the wheel", set(), expected - found)
    suite.equal("files that are too much in the wheel", set(), found - expected)


def install(suite: Suite, python: Path, wheel: Path) -> bool:
    before = installed(python)
    done = pip(python, "install", wheel, cwd=wheel.parent)
    suite.check("pip installs it", done.returncode == 0, done.stderr[-300:])
    suite.note(f"brings along: {', '.join(sorted(installed(python) - before - {'ottla'}))}")
    return done.returncode == 0


def installed(python: Path) -> set[str]:
    listed = run([python, "-m", "pip", "--disable-pip-version-check", "freeze", "--all"], cwd=python.parent).stdout
    return {line.partition(" ")[0].partition("==")[0] for line in listed.splitlines()}


def produce_and_consume(suite: Suite, bootstrap: str) -> None:
    create_topic(bootstrap, "t", partitions=len(CODECS))
    for partition, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "log_level": 4})
        for number in range(100):
            producer.produce("t", key=f"k{number}", value=b"v" * 100, partition=partition)
        producer.flush(30)
    found = read_partitions(bootstrap, [("t", partition) for partition in range(len(CODECS))])
    for partition, codec in enumerate(CODECS):
        keys = [record.key for record in found["t", partition]]
        suite.equal(f"100 records in {codec} come back", [f"k{number}".encode() for number in range(100)], keys)


if __name__ == "__main__":
    sys.exit(run_suite("wheel", body, doc=__doc__))
