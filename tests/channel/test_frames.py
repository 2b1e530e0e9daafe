"""Frames: what is no frame is refused at once, and nothing that a peer does makes us wait or reserve memory."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from autograder.channel import frames

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def soon(seconds: float = 2.0) -> float:
    return time.monotonic() + seconds


def raw(header: bytes, blob: bytes = b"") -> bytes:
    return struct.pack(">II", len(header), len(blob)) + header + blob


def test_a_frame_arrives_as_it_was_sent(pair: Pair) -> None:
    ours, theirs = pair
    frames.send(ours, {"op": "call", "text": "注意力 \ud800", "x": 1e300}, [b"ab", bytearray(b"c"), memoryview(b"de")])
    assert frames.receive(theirs, deadline=soon()) == (
        {"op": "call", "text": "注意力 \ud800", "x": 1e300},
        b"abcde",
    )


def test_an_empty_frame_arrives(pair: Pair) -> None:
    frames.send(pair[0], {})
    assert frames.receive(pair[1], deadline=soon()) == ({}, b"")


def test_a_blob_larger_than_the_socket_buffer_arrives_whole(pair: Pair) -> None:
    blob = bytes(range(256)) * 20_000
    sender = threading.Thread(target=frames.send, args=(pair[0], {"n": 1}, [blob]))
    sender.start()
    assert frames.receive(pair[1], deadline=soon(10)) == ({"n": 1}, blob)
    sender.join()


def test_frames_that_follow_one_another_are_kept_apart(pair: Pair) -> None:
    for number in range(3):
        frames.send(pair[0], {"n": number}, [bytes([number]) * number])
    for number in range(3):
        assert frames.receive(pair[1], deadline=soon()) == ({"n": number}, bytes([number]) * number)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"nonsense",
        b'{"a": 1',
        b"[1, 2]",
        b"7",
        b"null",
        b'"text"',
        b"\xff\xfe\x00\x01",
        b"\x80",
        b'{"a": ' + b"9" * 5000 + b"}",
        b"[" * 500_000,
        b'{"a":' * 200_000,
        b"{" + b" " * 1000,
        b'{"a": 1} trailing',
        b"\x00" * 64,
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-32"),
        '{"ä": 1}'.encode("latin-1"),
        b'{"a": 1}{"a": 1}',
        b'{"a": 0x1}',
        b"{'a': 1}",
    ],
    ids=lambda header: f"{bytes(header[:8])!r}_{len(header)}",
)
def test_a_header_that_is_no_json_object_is_refused(pair: Pair, header: bytes) -> None:
    writer = threading.Thread(target=pair[0].sendall, args=(raw(header),))
    writer.start()
    with pytest.raises(frames.ProtocolError):
        frames.receive(pair[1], deadline=soon(5))
    writer.join()


@pytest.mark.parametrize(
    "prefix",
    [(frames.MAX_HEADER + 1, 0), (2, frames.MAX_BLOB + 1), (0xFFFFFFFF, 0xFFFFFFFF)],
    ids=["header", "blob", "both"],
)
def test_a_length_beyond_the_limit_is_refused_before_anything_is_read(pair: Pair, prefix: tuple[int, int]) -> None:
    pair[0].sendall(struct.pack(">II", *prefix))
    with pytest.raises(frames.ProtocolError, match="too large"):
        frames.receive(pair[1], deadline=soon())


def test_the_limits_can_be_narrowed(pair: Pair) -> None:
    pair[0].sendall(raw(b"{}", b"12345"))
    with pytest.raises(frames.ProtocolError, match="too large"):
        frames.receive(pair[1], deadline=soon(), max_blob=4)


def test_a_length_alone_reserves_no_memory(pair: Pair) -> None:
    pair[0].sendall(struct.pack(">II", frames.MAX_HEADER, frames.MAX_BLOB) + b"{")
    tracemalloc.start()
    try:
        with pytest.raises(frames.DeadlineExceeded):
            frames.receive(pair[1], deadline=soon(0.1))
        assert tracemalloc.get_traced_memory()[1] < 4 * frames.CHUNK
    finally:
        tracemalloc.stop()


def test_our_own_oversized_frame_is_not_sent(pair: Pair) -> None:
    with pytest.raises(frames.ProtocolError, match="too large to send"):
        frames.send(pair[0], {"a": "x" * 100}, max_header=50)
    pair[0].sendall(raw(b"{}"))
    assert frames.receive(pair[1], deadline=soon()) == ({}, b"")  # nothing of it was left in the channel


def test_an_oversized_blob_is_not_sent(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_BLOB", 10)
    with pytest.raises(frames.ProtocolError, match="too large to send"):
        frames.send(pair[0], {}, [b"123456", b"789012"])


def test_the_last_of_equal_keys_counts_for_everybody(pair: Pair) -> None:
    pair[0].sendall(raw(b'{"re": 1, "re": 2}'))
    assert frames.receive(pair[1], deadline=soon()) == ({"re": 2}, b"")


def test_what_nobody_asked_for_is_noticed(pair: Pair) -> None:
    pair[1].settimeout(5)
    started = time.monotonic()
    frames.expect_silence(pair[1])
    assert time.monotonic() - started < 1
    pair[0].sendall(b"x")
    with pytest.raises(frames.ProtocolError, match="before it was asked"):
        frames.expect_silence(pair[1])
    pair[1].recv(1)
    frames.expect_silence(pair[1])
    pair[0].close()
    with pytest.raises(frames.PeerGone):
        frames.expect_silence(pair[1])


@pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="descriptors are sent over Unix sockets")
def test_a_descriptor_that_comes_with_a_frame_is_closed(pair: Pair) -> None:
    reader, writer = os.pipe()
    socket.send_fds(pair[0], [raw(b"{}", b"12")], [writer])
    os.close(writer)
    assert frames.receive(pair[1], deadline=soon()) == ({}, b"12")
    assert os.read(reader, 1) == b""  # the end of the pipe: nobody holds its other end
    os.close(reader)


@pytest.mark.parametrize("part", [0, 4, 9, 12], ids=["nothing", "half_a_prefix", "half_a_header", "half_a_blob"])
def test_a_truncated_frame_tells_that_the_peer_is_gone(pair: Pair, part: int) -> None:
    pair[0].sendall(raw(b"{}", b"1234")[:part])
    pair[0].close()
    with pytest.raises(frames.PeerGone):
        frames.receive(pair[1], deadline=soon())


def test_a_channel_that_another_thread_closes_meanwhile_is_gone(pair: Pair) -> None:
    class Closing(socket.socket):
        def recv(self, *arguments: int) -> bytes:
            try:
                return super().recv(*arguments)
            finally:
                self.close()

    with Closing(fileno=pair[1].detach()) as closing, pytest.raises(frames.PeerGone, match="closed the channel"):
        frames.receive(closing, deadline=soon())


def test_sending_to_a_closed_peer_tells_that_it_is_gone(pair: Pair) -> None:
    pair[1].close()
    with pytest.raises(frames.PeerGone):
        frames.send(pair[0], {}, [bytes(1 << 20)])


def test_a_silent_peer_meets_the_deadline(pair: Pair) -> None:
    started = time.monotonic()
    with pytest.raises(frames.DeadlineExceeded):
        frames.receive(pair[1], deadline=soon(0.15))
    assert 0.1 < time.monotonic() - started < 1


def test_a_slow_drip_meets_the_deadline(pair: Pair) -> None:
    stop = threading.Event()

    def drip() -> None:
        for byte in raw(json.dumps({"a": "x" * 1000}).encode()):
            if stop.wait(0.02):
                return
            pair[0].sendall(bytes([byte]))

    dripper = threading.Thread(target=drip)
    dripper.start()
    started = time.monotonic()
    try:
        with pytest.raises(frames.DeadlineExceeded):
            frames.receive(pair[1], deadline=soon(0.3))
        assert time.monotonic() - started < 1
    finally:
        stop.set()
        dripper.join()


def test_a_peer_that_does_not_read_meets_the_deadline(pair: Pair) -> None:
    started = time.monotonic()
    with pytest.raises(frames.DeadlineExceeded):
        frames.send(pair[0], {}, [bytes(16 << 20)], deadline=soon(0.2))
    assert time.monotonic() - started < 1


def test_a_deadline_in_the_past_is_exceeded_even_if_data_waits(pair: Pair) -> None:
    frames.send(pair[0], {})
    with pytest.raises(frames.DeadlineExceeded):
        frames.receive(pair[1], deadline=time.monotonic() - 1)


def test_a_call_without_deadline_forgets_that_of_the_call_before(pair: Pair) -> None:
    with pytest.raises(frames.DeadlineExceeded):
        frames.receive(pair[1], deadline=soon(0.05))
    threading.Timer(0.3, frames.send, (pair[0], {"late": True})).start()
    assert frames.receive(pair[1]) == ({"late": True}, b"")
