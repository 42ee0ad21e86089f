"""PySpark jobs over segment stores; stands on protocol and storage only.

    import ottla.pipeline
    ottla.pipeline.register(spark)
    spark.read.format("ottla").option("topic", "orders").load("/data")

Public names load on first use: PySpark, Arrow and NumPy are an extra (`pip install ottla[spark]`), and plans and stores
do without them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .source.source import malformed as malformed
    from .source.source import read as read
    from .source.source import register as register

_MODULES = {"malformed": "source.source", "read": "source.source", "register": "source.source"}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module 'ottla.pipeline' has no attribute {name!r}")
