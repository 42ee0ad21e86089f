"""Starts the S3 server: moto in an environment of its own, kept for the next time."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..support.environments import empty_environment, pip
from ..support.suite import NotRunError

MOTO = "moto[s3,iam,server]==5.2.5"
"""An S3 server from the package index: ranges, multipart uploads, ETags, pages of 1 000 names, signatures that are checked."""
BUCKET, REGION = "logs", "eu-west-1"


@dataclass
class S3Server:
    """One that runs."""

    address: tuple[str, int]
    key: str
    secret: str

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of a client of this server; the client sends no request to Amazon."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }


@contextmanager
def s3_server(directories: Mapping[str, Path], log: Path) -> Iterator[S3Server]:
    """Run an S3 server with these directories under their prefixes in BUCKET. NotRunError without the package index."""
    python = _environment()
    command = [str(python), str(Path(__file__).with_name("s3_server.py")), BUCKET, REGION]
    command += [f"{prefix}={directory}" for prefix, directory in directories.items()]
    with log.open("w") as err:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the S3 server did not start: {log.read_text()[-500:]}")
            said = json.loads(line)
            yield S3Server((said["host"], said["port"]), said["key"], said["secret"])
        finally:
            process.kill()
            process.wait()


def _environment() -> Path:
    cache = Path(os.environ.get("OTTLA_COMPAT_CACHE", Path.home() / ".cache" / "ottla-compat"))
    folder = cache / f"moto-5.2.5-py{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        empty_environment(folder)
        if pip(python, "install", MOTO, cwd=folder).returncode:
            raise NotRunError("the package index (moto)")
        (folder / "installed").touch()
    return python
