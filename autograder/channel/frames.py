"""Frames: ``u32 header length | u32 blob length | JSON header | blob``, big-endian, on a stream socket.

The other side may be hostile: lengths are checked before anything is read, reading ends at a deadline, and whatever
is no frame raises `ProtocolError`.
"""

from __future__ import annotations

import errno
import json
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import msgspec

PREFIX = struct.Struct(">II")
MAX_HEADER = 8 << 20
MAX_BLOB = 64 << 20
MAX_TRUSTED_HEADER = 128 << 20
"""Between our own processes: a submission's sources, and its outputs with figures."""
CHUNK = 1 << 20

Buffer = bytes | bytearray | memoryview


class ChannelError(Exception):
    """The exchange did not come to its end."""


class ProtocolError(ChannelError):
    """The other side sent something that is no answer to what was asked."""


class PeerGone(ChannelError):
    """The other side closed the channel or died."""


class DeadlineExceeded(ChannelError):
    """The other side did not answer in time."""


def send(
    sock: socket.socket,
    header: dict[str, Any],
    blobs: Sequence[Buffer] = (),
    *,
    deadline: float | None = None,
    max_header: int = MAX_HEADER,
) -> None:
    """Send one frame; `deadline` is a `time.monotonic` value.

    Raises:
        ProtocolError: the frame is larger than the other side would accept.
        PeerGone, DeadlineExceeded: it could not be sent.
    """
    text = _encode(header)
    size = sum(len(blob) for blob in blobs)
    if len(text) > max_header or size > MAX_BLOB:
        raise ProtocolError(f"a frame of {len(text)} + {size} bytes is too large to send")
    try:
        # What is small goes in one piece: each piece would wake the other side once more.
        head = PREFIX.pack(len(text), size) + text
        for piece in [b"".join([head, *blobs])] if size <= CHUNK else [head, *blobs]:
            if len(piece):
                _send_all(sock, piece, deadline)
    except TimeoutError:
        raise DeadlineExceeded("the other side does not read") from None
    except OSError as error:
        raise PeerGone(str(error)) from None


def receive(
    sock: socket.socket,
    *,
    deadline: float | None = None,
    max_header: int = MAX_HEADER,
    max_blob: int = MAX_BLOB,
) -> tuple[dict[str, Any], bytearray]:
    """Receive one frame.

    Only its bytes are taken: the kernel closes descriptors that come with them.

    Returns:
        Its header, a dict, and its blob.

    Raises:
        ProtocolError: the lengths exceed the limits, or the header is no JSON object.
        PeerGone, DeadlineExceeded: it did not arrive whole, or not in time.
    """
    header_size, blob_size = PREFIX.unpack(_exactly(sock, PREFIX.size, deadline))
    if header_size > max_header or blob_size > max_blob:
        raise ProtocolError(f"a frame of {header_size} + {blob_size} bytes is too large")
    if header_size + blob_size <= CHUNK:  # what is small comes in one piece
        body = _exactly(sock, header_size + blob_size, deadline)
        text, blob = body[:header_size], body[header_size:]
    else:
        text, blob = _exactly(sock, header_size, deadline), None
    try:
        header = _decode(text)
    except (ValueError, RecursionError):
        raise ProtocolError("a frame's header is no JSON") from None
    if not isinstance(header, dict):
        raise ProtocolError("a frame's header is no JSON object")
    return header, _exactly(sock, blob_size, deadline) if blob is None else blob


def _encode(header: dict[str, Any]) -> bytes:
    """A header of JSON's own types; numbers that are not finite become null.

    The standard library would take a fifth of all the time of a call for headers.
    """
    try:
        return msgspec.json.encode(header)
    except UnicodeEncodeError:  # half of a surrogate pair, which UTF-8 has no bytes for, and JSON has
        return json.dumps(header).encode()


def _decode(text: bytearray) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:  # half of a surrogate pair is one of the things that only the standard library reads
        return json.loads(text.decode())


def expect_silence(sock: socket.socket) -> None:
    """Nothing has come that nobody asked for.

    Raises:
        ProtocolError: something has.
        PeerGone: the other side is gone.
    """
    _set_blocking(sock, blocking=False)
    try:
        waiting = sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return
    except OSError as error:
        raise PeerGone(str(error)) from None
    if not waiting:
        raise PeerGone("the channel was closed")
    raise ProtocolError("it answered before it was asked")


def _exactly(sock: socket.socket, size: int, deadline: float | None) -> bytearray:
    # Grown as the bytes come: a length alone must not make us reserve memory.
    data = bytearray()
    while len(data) < size:
        try:
            part = _receive_some(sock, min(size - len(data), CHUNK), deadline)
        except TimeoutError:
            raise DeadlineExceeded("no answer in time") from None
        except OSError as error:
            raise PeerGone(str(error)) from None
        if not part:
            raise PeerGone("the channel was closed")
        data += part
    return data


def _receive_some(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    # A socket's own timeout costs two more system calls for each piece, and most pieces are there already.
    _set_blocking(sock, blocking=deadline is None)
    while True:
        left = _left(deadline)
        try:
            return sock.recv(size)
        except BlockingIOError:
            _wait(sock, writing=False, seconds=left)


def _send_all(sock: socket.socket, data: Buffer, deadline: float | None) -> None:
    _set_blocking(sock, blocking=deadline is None)
    rest = memoryview(data)
    while len(rest):
        left = _left(deadline)
        try:
            rest = rest[sock.send(rest) :]
        except BlockingIOError:
            _wait(sock, writing=True, seconds=left)


def _set_blocking(sock: socket.socket, *, blocking: bool) -> None:
    timeout = None if blocking else 0.0
    if sock.gettimeout() != timeout:
        sock.settimeout(timeout)


def _left(deadline: float | None) -> float:
    """Seconds until the deadline; `TimeoutError` where it is over."""
    if deadline is None:
        return 0.0  # nobody waits in a blocking call
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _wait(sock: socket.socket, *, writing: bool, seconds: float) -> None:
    """Wait until there is something to read, or room to write; `TimeoutError` if there is none."""
    if sock.fileno() < 0:
        raise OSError(errno.EBADF, "another thread has closed the channel")
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLOUT if writing else select.POLLIN)
        ready = bool(poll.poll(seconds * 1000))
    else:  # Windows
        ready = any(select.select([] if writing else [sock], [sock] if writing else [], [], seconds))
    if not ready:
        raise TimeoutError
