"""The five codecs against streams of other implementations, damaged streams, and bombs."""

import random
import struct
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol import compression
from ottla.protocol.compression import (
    CODEC_NAMES,
    MAX_DECOMPRESSED_BATCH_BYTES,
    Codec,
    Packer,
    compress,
    decompress,
    unpack,
)
from ottla.protocol.errors import CorruptRecordError, ErrorCode
from ottla.storage.disk.health import is_disk_failure
from support.calls import calls_of
from support.noted import each_case
from support.oracles import kafka_python_codec
from support.sizes import size, some

PACKING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"".join(b'{"id":%d,"name":"user-%d"}' % (i, i * i) for i in range(3_000))
ZEROS_BYTES = 32 * 1024 * 1024


def zstd_without_size(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def zstd_skippable(content: bytes) -> bytes:
    return struct.pack("<II", 0x184D2A53, len(content)) + content


def xerial(*blocks: bytes) -> bytes:
    header = bytes.fromhex("82534e4150505900 00000001 00000001")
    packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return header + b"".join(struct.pack(">i", len(block)) + block for block in packed)


# Streams as clients send them, captured: librdkafka writes raw snappy and zstd without a size, the others xerial;
# several frames come from clients that flush their compressor between records.
FOREIGN_STREAMS: dict[str, tuple[Codec, bytes]] = {
    "gzip of kafka-python": (Codec.GZIP, kafka_python_codec.gzip_encode(TEXT)),
    "gzip in two members": (Codec.GZIP, zlib.compress(TEXT[:100], wbits=31) + zlib.compress(TEXT[100:], wbits=31)),
    "deflate with a zlib header": (Codec.GZIP, zlib.compress(TEXT)),
    "raw snappy": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))),
    "snappy of kafka-python": (Codec.SNAPPY, kafka_python_codec.snappy_encode(TEXT)),
    "xerial with odd blocks": (Codec.SNAPPY, xerial(TEXT[:1], b"", TEXT[1:70_000], TEXT[70_000:])),
    "lz4 of kafka-python": (Codec.LZ4, kafka_python_codec.lz4_encode(TEXT)),
    "lz4 with linked blocks": (Codec.LZ4, lz4.frame.compress(TEXT, block_linked=True, block_size=4)),
    "lz4 with checksums": (Codec.LZ4, lz4.frame.compress(TEXT, content_checksum=True, block_checksum=True)),
    "lz4 in two frames": (Codec.LZ4, lz4.frame.compress(TEXT[:100]) + lz4.frame.compress(TEXT[100:])),
    "zstd of kafka-python": (Codec.ZSTD, kafka_python_codec.zstd_encode(TEXT)),
    "zstd without size": (Codec.ZSTD, zstd_without_size(TEXT)),
    "zstd with checksum": (Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)),
    "zstd in two frames": (Codec.ZSTD, zstandard.compress(TEXT[:100]) + zstd_without_size(TEXT[100:])),
    "zstd with frames to skip": (Codec.ZSTD, zstd_skippable(b"ab") + zstandard.compress(TEXT) + zstd_skippable(b"")),
    "zstd with an empty frame": (
        Codec.ZSTD,
        zstandard.compress(b"") + zstd_without_size(b"") + zstandard.compress(TEXT),
    ),
}
EACH_FOREIGN_STREAM = pytest.mark.parametrize(
    ("codec", "packed"), FOREIGN_STREAMS.values(), ids=[name.replace(" ", "_") for name in FOREIGN_STREAMS]
)

FOREIGN_READERS: list[tuple[Codec, Callable[[bytes], bytes]]] = [
    (Codec.GZIP, kafka_python_codec.gzip_decode),
    (Codec.SNAPPY, kafka_python_codec.snappy_decode),
    (Codec.LZ4, kafka_python_codec.lz4_decode),
    (Codec.ZSTD, kafka_python_codec.zstd_decode),
]


@settings(deadline=None)
@given(codec=st.sampled_from(Codec), data=st.binary(max_size=300), copies=st.integers(1, 500))
def test_compressed_data_decompress_unchanged(codec: Codec, data: bytes, copies: int) -> None:
    assert decompress(codec, compress(codec, data * copies)) == data * copies


@EACH_FOREIGN_STREAM
def test_streams_of_other_writers_are_read(codec: Codec, packed: bytes) -> None:
    assert decompress(codec, packed) == TEXT
    assert decompress(codec, memoryview(bytearray(packed)), max_bytes=len(TEXT)) == TEXT


@each_case("codec, read", FOREIGN_READERS)
@each_case("data", [b"x", TEXT, TEXT * 5], ids=["one byte", "several blocks", "many blocks"])
def test_kafka_python_reads_our_streams(codec: Codec, read: Callable[[bytes], bytes], data: bytes) -> None:
    assert read(compress(codec, data)) == data


def test_lz4_blocks_are_independent_and_64_kib_as_the_java_reader_wants() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))

    assert (info["block_linked"], info["block_size"]) == (False, 64 * 1024)


def test_the_uncompressed_form_is_a_view_of_the_input() -> None:
    data = bytearray(b"abc")
    view = decompress(Codec.NONE, data)
    data[0] = ord("x")

    assert bytes(view) == b"xbc"


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, range(1, 10)), (Codec.LZ4, range(1, 18)), (Codec.ZSTD, [-131072, -5, 1, 3, 22])]
)
def test_every_level_that_a_topic_may_ask_for_works(codec: Codec, levels: list[int]) -> None:
    data = TEXT[:5_000]
    sizes_bytes = [len(compress(codec, data, level)) for level in levels]

    assert {bytes(decompress(codec, compress(codec, data, level))) for level in levels} == {data}
    assert sizes_bytes[-1] <= sizes_bytes[0]


@pytest.mark.parametrize("level", some([-131072, -5, *range(1, 23)], 3))
def test_a_zstd_readers_memory_is_bounded_at_each_level(level: int) -> None:
    """The bound holds for input of one piece and of several; the writer's memory follows the same parameters."""
    for piece_count in (1, 2):
        packer = Packer(Codec.ZSTD, level, MAX_DECOMPRESSED_BATCH_BYTES)
        for _ in range(piece_count):
            packer.add(TEXT)
        packed = packer.finish()
        assert zstandard.get_frame_parameters(bytes(packed)).window_size <= 8 << 20
        assert decompress(Codec.ZSTD, packed) == TEXT * piece_count


def test_lz4_level_9_is_kafkas_default_and_means_fast() -> None:
    assert compress(Codec.LZ4, TEXT, 9) == compress(Codec.LZ4, TEXT)
    assert len(compress(Codec.LZ4, TEXT, 8)) < len(compress(Codec.LZ4, TEXT, 9))


def test_gzip_level_minus_1_is_the_default() -> None:
    assert compress(Codec.GZIP, TEXT, -1) == compress(Codec.GZIP, TEXT)


def test_names_are_kafkas() -> None:
    assert CODEC_NAMES == {
        "none": 0,
        "uncompressed": 0,
        "gzip": 1,
        "snappy": 2,
        "lz4": 3,
        "zstd": 4,
    }


@EACH_FOREIGN_STREAM
def test_a_stream_one_byte_over_the_limit_is_refused(codec: Codec, packed: bytes) -> None:
    with pytest.raises(CorruptRecordError, check=lambda error: error.is_over_limit) as refusal:
        decompress(codec, packed, max_bytes=len(TEXT) - 1)

    assert refusal.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", Codec)
def test_every_limit_is_exact_to_the_byte(codec: Codec) -> None:
    for size_bytes in (0, 1, 100):
        packed = compress(codec, TEXT[:size_bytes])
        assert decompress(codec, packed, max_bytes=size_bytes) == TEXT[:size_bytes]
        if size_bytes:
            with pytest.raises(CorruptRecordError, check=lambda error: error.is_over_limit):
                decompress(codec, packed, max_bytes=size_bytes - 1)


BOMBS = {
    "gzip": (Codec.GZIP, zlib.compress(bytes(ZEROS_BYTES), wbits=31)),
    "snappy": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(ZEROS_BYTES)))),
    "snappy that lies": (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00a"),
    "xerial": (Codec.SNAPPY, xerial(*[bytes(1024 * 1024)] * 32)),
    "lz4": (Codec.LZ4, lz4.frame.compress(bytes(ZEROS_BYTES), store_size=False)),
    "lz4 with size": (Codec.LZ4, lz4.frame.compress(bytes(ZEROS_BYTES))),
    "zstd": (Codec.ZSTD, zstd_without_size(bytes(ZEROS_BYTES))),
    "zstd with size": (Codec.ZSTD, zstandard.compress(bytes(ZEROS_BYTES))),
    "zstd frames": (Codec.ZSTD, zstandard.compress(bytes(1024 * 1024)) * 32),
}


@pytest.mark.parametrize(("codec", "packed"), BOMBS.values(), ids=list(BOMBS))
def test_a_bomb_is_refused_before_its_memory_is_used(codec: Codec, packed: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError, check=lambda error: error.is_over_limit):
            decompress(codec, packed, max_bytes=2 * 1024 * 1024)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 12 * 1024 * 1024


MEMBER = zlib.compress(b"a", wbits=31)
EMPTY_BLOCK_OF_ZSTD = b"\x00\x00\x00"
IN_FOUR_FRAMES = {
    "gzip": (Codec.GZIP, MEMBER * 4),
    "snappy": (Codec.SNAPPY, xerial(b"a", b"", b"", b"a")),
    "lz4": (Codec.LZ4, lz4.frame.compress(b"a") * 4),
    "zstd": (Codec.ZSTD, zstandard.compress(b"a") * 4),
    "zstd to be skipped": (Codec.ZSTD, zstd_skippable(b"") * 3 + zstandard.compress(b"a")),
    "zstd blocks": (Codec.ZSTD, zstd_without_size(b"a")[:6] + EMPTY_BLOCK_OF_ZSTD * 3 + zstd_without_size(b"a")[6:]),
}


@pytest.mark.parametrize(("codec", "packed"), IN_FOUR_FRAMES.values(), ids=list(IN_FOUR_FRAMES))
def test_frames_are_counted_for_any_content(codec: Codec, packed: bytes) -> None:
    assert set(decompress(codec, packed, max_frames=4).tobytes()) == set(b"a")
    with pytest.raises(CorruptRecordError, check=lambda error: error.is_over_limit) as refusal:
        decompress(codec, packed, max_frames=3)
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE


def test_later_gzip_members_are_not_copied_once_per_member() -> None:
    def cpu_s(members: int) -> float:
        packed, taken = MEMBER * members, []
        for _ in range(3):
            started = time.thread_time()
            assert len(decompress(Codec.GZIP, packed)) == members
            taken.append(time.thread_time() - started)
        return min(taken)

    assert cpu_s(20_000) < 8 * cpu_s(5_000)  # four times as many; with a copy each it is more than tenfold


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("data", [TEXT[:40], TEXT[:300]])
def test_a_stream_cut_short_anywhere_is_corrupt(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    for length in range(len(packed)):
        if codec is Codec.SNAPPY and length == 16:
            continue  # the xerial header without blocks: a complete, empty stream
        with pytest.raises(CorruptRecordError):
            decompress(codec, packed[:length])


@pytest.mark.parametrize("codec", PACKING)
def test_bytes_after_the_stream_are_corrupt(codec: Codec) -> None:
    for rest in (b"\x00", b"\xff" * 3, b"garbage of some length"):
        with pytest.raises(CorruptRecordError):
            decompress(codec, compress(codec, TEXT) + rest)


@EACH_FOREIGN_STREAM
@settings(max_examples=size(10, 30), deadline=None)
@given(data=st.data())
def test_a_damaged_stream_is_unpacked_or_corrupt_and_nothing_else(
    codec: Codec, packed: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(packed[:600])
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, min(len(damaged), 60) - 1))] = data.draw(st.integers(0, 255))
    try:
        unpacked = decompress(codec, damaged, max_bytes=1_000_000)
    except CorruptRecordError:
        return
    assert len(unpacked) <= 1_000_000


@settings(deadline=None)
@given(codec=st.sampled_from(PACKING), data=st.binary(max_size=40))
def test_any_bytes_are_unpacked_or_corrupt_and_nothing_else(codec: Codec, data: bytes) -> None:
    try:
        decompress(codec, data, max_bytes=1_000)
    except CorruptRecordError as error:
        assert error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_corrupt(codec: int) -> None:
    with pytest.raises(CorruptRecordError):
        decompress(codec, b"abc")


def test_gzip_is_unpacked_in_pieces_so_other_threads_can_run() -> None:
    packed = zlib.compress(bytes(16 << 20), wbits=31)
    assert calls_of(lambda: decompress(Codec.GZIP, packed)) > 16


@pytest.mark.parametrize("size_bytes", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
@pytest.mark.parametrize("is_random", [True, False])
def test_gzip_of_any_length_is_unpacked_completely(size_bytes: int, is_random: bool) -> None:
    text = random.Random(1).randbytes(size_bytes) if is_random else bytes(size_bytes)
    packed = zlib.compress(text, wbits=31)
    for members in (1, 2):
        assert decompress(Codec.GZIP, packed * members) == text * members
    assert decompress(Codec.GZIP, packed, max_bytes=size_bytes) == text
    with pytest.raises(CorruptRecordError, check=lambda error: error.is_over_limit):
        decompress(Codec.GZIP, packed, max_bytes=size_bytes - 1)
    for damaged in (packed[:-1], packed + b"x"):
        with pytest.raises(CorruptRecordError):
            decompress(Codec.GZIP, damaged)


# Compressed in pieces


@each_case("codec", range(5))
@each_case("seed", range(6))
def test_pieces_compressed_together_decompress_to_all_of_them(codec: int, seed: int) -> None:
    rng = random.Random(seed)
    for level in (None, 1 if codec else None):
        pieces = [
            rng.choice([bytes(size), rng.randbytes(size)]) for size in rng.choices([0, 1, 9, 40_000, 200_000], k=5)
        ]
        packer = Packer(codec, level, 1 << 30)
        for piece in pieces:
            packer.add(piece)
        packed, whole = packer.finish(), b"".join(pieces)
        assert not packer.is_too_large and packer.size_bytes == len(whole)
        assert decompress(codec, packed) == whole
        assert b"".join(map(bytes, unpack(codec, packed))) == whole


@each_case("codec", range(5))
@each_case("data", [b"", b"some bytes", bytes(100_000)])
def test_one_piece_is_packed_as_all_at_once(codec: int, data: bytes) -> None:
    packer = Packer(codec, None, 1 << 30)
    if data:
        packer.add(data)
    assert packer.finish() == compress(codec, data)


@pytest.mark.parametrize("codec", range(5))
def test_a_packer_keeps_at_most_its_limit(codec: int) -> None:
    rng = random.Random(1)
    packer = Packer(codec, None, 200_000)
    for _ in range(20):
        packer.add(rng.randbytes(50_000))
    assert len(packer.finish()) == 0 and packer.is_too_large


def test_a_packer_stops_at_the_limit_and_not_below_it() -> None:
    data = random.Random(2).randbytes(1_000)
    for limit, too_large in ((1_000, False), (999, True)):
        packer = Packer(Codec.NONE, None, limit)
        packer.add(data[:500])
        packer.add(data[500:])
        packer.finish()
        assert packer.is_too_large == too_large


@pytest.mark.parametrize("codec", PACKING)
def test_a_library_that_cannot_be_loaded_is_tried_again(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = compress(codec, TEXT)
    with monkeypatch.context() as short:
        short.delitem(compression._LOADED, codec)
        short.setitem(sys.modules, f"ottla.protocol.codec_{codec.name.lower()}", None)
        for _ in range(2):
            with pytest.raises(OSError, match=f"cannot load the codec {codec.name.lower()}: ") as refused:
                decompress(codec, packed)
            assert not is_disk_failure(refused.value)
        short.undo()
        short.delitem(compression._LOADED, codec)
        assert decompress(codec, packed) == TEXT
