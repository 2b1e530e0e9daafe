"""What the limits are counted against."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from autograder.worker import limits, pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def test_the_threads_of_a_user_are_counted() -> None:
    before = limits.threads_of(os.getuid())
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(50)]
    for thread in threads:
        thread.start()
    after = limits.threads_of(os.getuid())
    stop.set()
    for thread in threads:
        thread.join()
    assert before >= 1
    assert 30 <= after - before <= 70  # others come and go meanwhile


def test_gathering_memory_changes_nothing_in_it() -> None:
    data = [os.urandom(1 << 16) for _ in range(100)]
    copies = [bytes(bytearray(piece)) for piece in data]
    assert pages.gather() % (2 << 20) == 0
    assert data == copies
