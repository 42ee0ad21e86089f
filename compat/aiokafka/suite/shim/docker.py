# A replacement of the `docker` package, which aiokafka's conftest.py names in an annotation.
from types import SimpleNamespace

models = SimpleNamespace(containers=SimpleNamespace(Container=object))
