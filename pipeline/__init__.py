"""PySpark jobs over segment stores. They depend on `protocol` and `storage` only.

    import ottla.pipeline
    ottla.pipeline.register(spark)
    spark.read.format("ottla").option("topic", "orders").load("/data")

Public names load on first use: PySpark, Arrow and NumPy are an extra (`pip install 'ottla[spark]'`), and plans and stores
work without them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import jobs as jobs
    from .run.session import builder as builder
    from .run.session import session as session
    from .snapshot.latest import latest as latest
    from .source.source import malformed as malformed
    from .source.source import read as read
    from .source.source import register as register

_MODULES = {
    "builder": "run.session",
    "jobs": "jobs",
    "latest": "snapshot.latest",
    "malformed": "source.source",
    "read": "source.source",
    "register": "source.source",
    "session": "run.session",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'ottla.pipeline' has no attribute {name!r}")
    from importlib import import_module

    from .errors import without_the_extra

    try:
        module = import_module(f".{_MODULES[name]}", __name__)
    except ModuleNotFoundError as error:
        if (missing := without_the_extra(error)) is None:
            raise
        raise ModuleNotFoundError(f"ottla.pipeline.{name}: {missing}", name=error.name) from None
    return module if name == "jobs" else getattr(module, name)
