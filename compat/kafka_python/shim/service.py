# Becomes test/service.py, which kafka-python's source distribution leaves out. With KAFKA_URI set its fixtures
# only name the external broker; they start nothing.


class ExternalService:
    """A broker that runs already."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def dump_logs(self) -> None:
        """Its output is elsewhere."""


class SpawnedService:
    """A broker that the fixtures would start: not here."""

    def __init__(self, *_: object) -> None:
        raise RuntimeError("only an external broker (KAFKA_URI) is tested here")
