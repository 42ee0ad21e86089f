"""The logs that both cleaners clean, and the design's targets for Ottla on each."""

from dataclasses import dataclass

from ottla.protocol.compression import Codec


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of log. Keys are about 20 bytes, of varying length; timestamps differ inside each batch.

    name: The value for `--shape`.
    key_space: Different keys to draw from, as a share of the records; 1.0: every record has a key of its own. Drawn at
        random from half as many keys as records, 43 % of the records are the newest of their key.
    clean_part: Share of the records, at the front, that an earlier pass has cleaned: no key is repeated there.
    tombstones: Share of the records without a value. A pass gives their batches a delete horizon.
    transactional: Four producers at once, a marker every five batches of each; one transaction in ten was aborted.
    idempotent: From four producers with sequences; otherwise without producer ids, so that a batch may be sent again.
    size: Bytes before compression, relative to the base log's.
    floor, aim: CPU time of Apache Kafka's pass over ours.
    """

    name: str
    value_bytes: int = 100
    codec: int = Codec.NONE
    records_per_batch: int = 100
    key_space: float = 0.5
    clean_part: float = 0.0
    tombstones: float = 0.0
    transactional: bool = False
    idempotent: bool = True
    size: float = 0.25
    floor: float | None = None
    aim: float | None = None


BASE = Shape("100 B values", size=1.0, floor=4.5, aim=7.0)
SHAPES = (
    BASE,
    Shape("1 KB values", value_bytes=1_000, size=1.0, floor=2.0, aim=2.5),
    Shape("lz4", codec=Codec.LZ4, size=0.5, floor=3.0, aim=3.9),
    Shape("zstd", codec=Codec.ZSTD, size=0.5, floor=3.0, aim=3.5),
    Shape("gzip", codec=Codec.GZIP),
    Shape("snappy", codec=Codec.SNAPPY),
    Shape("half dirty", clean_part=0.5),
    Shape("cardinality 10 %", key_space=0.1),
    Shape("cardinality 100 %", key_space=1.0),
    Shape("5 000 records a batch", records_per_batch=5_000),
    Shape("10 % tombstones", tombstones=0.1),
    Shape("transactional", transactional=True),
)
