"""Runs every attack in a worker and prints what came of it, as one JSON object.

A program of its own, so that tests which run as root can have it run by an ordinary user:
`python driver.py PACKAGE TIER`, the standard library and `PACKAGE/autograder` being all that it needs.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

CALLS = """
    ptrace process_vm_readv unshare clone clone3 io_uring_setup shmget mq_open mount keyctl seccomp prctl
    fallocate msgctl msgrcv semctl mq_unlink splice landlock_create_ruleset
"""

# These would stand in the way of the others, or the others in theirs.
ALONE = """
    see_ fill_ start_many_ take_all_ write_a_large_ take_the_disk_ become_ outlive_ raise_ kill_ dispatch_
"""


def main(package: str, tier: Any) -> None:
    sys.path.insert(0, package)
    sys.path.insert(1, str(Path(__file__).parent))
    import attacks  # type: ignore[import-not-found]  # beside this file

    from autograder.errors import ConfinementUnavailable
    from autograder.examiner.zygotes import Zygote
    from autograder.worker.limits import Limits

    os.environ["GRADER_SECRET"] = "hush"
    limits = Limits(memory_bytes=1 << 30, scratch_bytes=8 << 20, file_bytes=4 << 20)
    with tempfile.TemporaryDirectory() as folder:
        try:
            zygote = Zygote.start((tier,), module="autograder.worker.standin", package=Path(package))
        except ConfinementUnavailable as reason:
            print(json.dumps({"unavailable": str(reason)}))
            return
        with zygote, zygote.spawn(limits) as sibling, zygote.spawn(limits) as common:
            about, kept = _victims(Path(folder))
            about |= {"client": os.getpid(), "zygote": zygote.pid, "sibling": sibling.pid}
            outcomes: dict[str, Any] = {}
            for name, attack in inspect.getmembers(attacks, inspect.isfunction):
                source = inspect.getsource(attack) + "\n" + inspect.getsource(attacks.call)
                if name.startswith(tuple(ALONE.split())):
                    roomy = dataclasses.replace(limits, memory_bytes=3 << 30)
                    with zygote.spawn(roomy if name == "start_many_threads" else limits) as worker:
                        outcomes[name] = ask(worker, source, name, about)
                elif name != "call":
                    outcomes[name] = ask(common, source, name, about)
            outcomes["course"] = _look(Path(about["course"]), Path(about["common"]))
            outcomes |= {"confinement": sibling.confinement, "landlock": sibling.landlock_abi}
            for one in kept:
                one.close()
        print(json.dumps(outcomes))


def ask(worker: Any, source: str, name: str, about: dict[str, Any]) -> dict[str, Any]:
    """Have the function `name` of `source` run in `worker`: its value, its error, or how the worker ended."""
    preamble = "from __future__ import annotations\nfrom typing import Any\nAbout = dict[str, Any]\n"
    request = {"source": preamble + source, "name": name, "about": about}
    worker.sock.settimeout(20)
    try:
        worker.sock.sendall(json.dumps(request).encode() + b"\n")
        with worker.sock.makefile("rb") as answers:
            line = answers.readline()
    except OSError:
        line = b""
    if line:
        answer: dict[str, Any] = json.loads(line)
        return answer
    return {"died": worker.wait(5), "overflowed": worker.overflowed}


def _victims(folder: Path) -> tuple[dict[str, Any], list[socket.socket]]:
    """Everything there is to attack, all of it within reach of an unconfined process of this user."""
    from autograder.worker import seccomp

    course = folder / "course"
    course.mkdir()
    (course / "secret").write_text("the hidden suite")
    (folder / "submission").write_text("somebody else's work")
    common = folder / "common"
    common.mkdir()
    folder.chmod(0o755)
    common.chmod(0o777)
    tcp = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    unix.bind(str(folder / "socket"))
    unix.listen()
    name = f"autograder-test-{os.getpid()}"
    abstract.bind("\0" + name)
    abstract.listen()
    by_file, by_name = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    by_file.bind(str(folder / "datagrams"))
    (folder / "datagrams").chmod(0o777)
    by_name.bind(f"\0{name}-datagrams")
    library = seccomp.Library()
    about = {
        "course": str(course),
        "secret": str(course / "secret"),
        "submission": str(folder / "submission"),
        "common": str(common),
        "tcp": tcp.getsockname()[1],
        "udp": udp.getsockname()[1],
        "unix": str(folder / "socket"),
        "datagrams": str(folder / "datagrams"),
        "abstract": name,
        "numbers": {call: library.number(call) for call in CALLS.split()},
    }
    return about, [tcp, udp, unix, abstract, by_file, by_name]


def _look(course: Path, common: Path) -> dict[str, Any]:
    """What is left of the course after all attacks."""
    state = (course / "secret").stat()
    return {
        "secret": (course / "secret").read_text(),
        "mode": oct(state.st_mode & 0o777),
        "aged": state.st_mtime == 0,
        "files": sorted(path.name for folder in (course, common) for path in folder.iterdir()),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
