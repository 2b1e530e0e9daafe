"""Frames: ``u32 header length | u32 blob length | JSON header | blob``, big-endian, on a stream socket.

The other side may be hostile: lengths are checked before anything is read, reading ends at a deadline, and whatever
is no frame raises `ProtocolError`.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

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
    text = json.dumps(header, separators=(",", ":")).encode()
    size = sum(len(blob) for blob in blobs)
    if len(text) > max_header or size > MAX_BLOB:
        raise ProtocolError(f"a frame of {len(text)} + {size} bytes is too large to send")
    try:
        # What is small goes in one piece: each piece would wake the other side once more.
        head = PREFIX.pack(len(text), size) + text
        for piece in [b"".join([head, *blobs])] if size <= CHUNK else [head, *blobs]:
            if len(piece):
                _set_deadline(sock, deadline)
                sock.sendall(piece)
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
    try:
        header = json.loads(_exactly(sock, header_size, deadline).decode("ascii"))
    except (ValueError, RecursionError):
        raise ProtocolError("a frame's header is no JSON") from None
    if not isinstance(header, dict):
        raise ProtocolError("a frame's header is no JSON object")
    return header, _exactly(sock, blob_size, deadline)


def expect_silence(sock: socket.socket) -> None:
    """Nothing has come that nobody asked for.

    Raises:
        ProtocolError: something has.
        PeerGone: the other side is gone.
    """
    sock.settimeout(0)
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
            _set_deadline(sock, deadline)
            part = sock.recv(min(size - len(data), CHUNK))
        except TimeoutError:
            raise DeadlineExceeded("no answer in time") from None
        except OSError as error:
            raise PeerGone(str(error)) from None
        if not part:
            raise PeerGone("the channel was closed")
        data += part
    return data


def _set_deadline(sock: socket.socket, deadline: float | None) -> None:
    if deadline is None:
        sock.settimeout(None)
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)
