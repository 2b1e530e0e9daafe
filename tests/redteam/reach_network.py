"""Attempts on the network, by every kind of socket."""

from __future__ import annotations

import errno
from typing import Any

from tests.redteam.attempts import kernel, refuse
from tests.redteam.bank import COURSE


def connect_to_a_port() -> Any:
    import socket

    return socket.create_connection(("127.0.0.1", 9), 2)


def connect_by_ipv6() -> Any:
    import socket

    return socket.socket(socket.AF_INET6, socket.SOCK_STREAM).connect(("::1", 9))


def connect_without_waiting() -> Any:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as one:
        return one.connect_ex(("192.0.2.1", 80))


def offer_a_port() -> Any:
    import socket

    return socket.create_server(("127.0.0.1", 0))


def connect_by_sending() -> Any:
    import socket

    fast_open = 0x20000000
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM).sendto(b"x", fast_open, ("127.0.0.1", 9))


def fetch_a_page() -> Any:
    import urllib.error
    import urllib.request

    try:
        return urllib.request.urlopen("http://127.0.0.1:9/", timeout=2)
    except urllib.error.URLError as error:
        refuse(isinstance(error.reason, OSError) and error.reason.errno == errno.EPERM)
        raise


def send_a_datagram() -> Any:
    import socket

    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))


def send_a_ping() -> Any:
    import socket

    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)


def make_sockets_of_other_kinds() -> Any:
    import socket

    made = []
    for family in range(1, 46):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            try:
                made.append(socket.socket(family, kind))
            except PermissionError:
                continue
    refuse(not made)
    return made


def ask_the_kernel_about_interfaces() -> Any:
    import socket

    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)


def make_pairs_of_other_kinds() -> Any:
    import socket

    made = []
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, 30, 40):
        try:
            made.append(socket.socketpair(family))
        except PermissionError:
            continue
    refuse(not made)
    return made


def connect_to_a_unix_socket() -> Any:
    import socket

    return socket.socket(socket.AF_UNIX).connect(f"{COURSE}/gradebook.db")  # no socket, but there


def connect_to_an_abstract_socket() -> Any:
    import socket

    return socket.socket(socket.AF_UNIX).connect("\0redteam")


def connect_again_with_a_pair() -> Any:
    import socket

    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.connect("\0redteam")


def name_a_pair() -> Any:
    import socket

    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.bind("redteam-socket")


def send_by_a_pair() -> Any:
    # A pair needs no connect(2) to send elsewhere. This file is no socket, but who hears so was let through to it.
    import socket

    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.sendto(b"x", f"{COURSE}/gradebook.db")


def send_a_descriptor_by_a_pair() -> Any:
    import array
    import socket

    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno()]))]
    return one.sendmsg([b"x"], rights, 0, f"{COURSE}/gradebook.db")


def listen_on_the_channel() -> Any:
    for number in range(3, 64):
        try:
            kernel("listen", number, 1)
        except OSError as error:
            if error.errno == errno.EPERM:
                raise
    return "asked"
