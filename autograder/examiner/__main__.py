"""The examiner's process.

``python -m autograder.examiner <control fd> <folder of hidden suites> <tiers> <worker module> [<assignment> ...]``, all
assignments where none is named.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from autograder.channel import frames
from autograder.course import Tier
from autograder.errors import AutograderError, CourseError

OPTIONS = (
    # Nothing that formats, captures, caches or patches: checks are run by the thousand, and nobody reads pytest here.
    "-s", "--assert=plain", "-p", "no:terminal", "-p", "no:logging", "-p", "no:cacheprovider", "-p", "no:faulthandler",
    "-p", "no:warnings", "-p", "no:unraisableexception", "-p", "no:threadexception", "--import-mode=importlib",
    "--noconftest", "-o", "python_files=test_*.py", "-c", os.devnull,
)  # fmt: skip


def main(
    control: socket.socket, hidden: Path, tiers: tuple[Tier, ...], module: str, assignments: Sequence[str]
) -> None:
    """Prepare everything once, then serve until the door closes `control`."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.dont_write_bytecode = True
    try:
        _serve(control, hidden, tiers, module, assignments)
    except AutograderError as error:
        frames.send(control, {"refused": str(error), "exit_code": error.exit_code})
    except Exception as error:
        frames.send(
            control,
            {"refused": f"the examiner could not start: {type(error).__name__}: {error}", "exit_code": 3},
        )
        raise


def _serve(
    control: socket.socket, hidden: Path, tiers: tuple[Tier, ...], module: str, assignments: Sequence[str]
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from autograder.examiner.zygotes import Zygote

    # The zygote imports torch in its process while we do in ours. The thread is gone before anything is forked.
    with ThreadPoolExecutor(1) as waiting:
        starting = waiting.submit(Zygote.start, tiers, module=module, hidden=(hidden,))
        import pytest
        import torch

        from autograder.examiner.lanes import Lanes
        from autograder.examiner.plugin import SuitePlugin
        from autograder.examiner.rehearsal import rehearse

        def serve(plugin: SuitePlugin) -> None:
            rehearse(plugin)
            zygote = starting.result()
            waiting.shutdown()
            Lanes(control, zygote).serve(plugin)

        torch.set_num_threads(1)
        plugin = SuitePlugin(serve)
        try:
            folders = [str(hidden / name) for name in assignments] or [str(hidden)]
            code = pytest.main([*OPTIONS, f"--rootdir={hidden}", *folders], plugins=[plugin])
        finally:
            if starting.exception() is None:
                starting.result().close()
        if plugin.problem is not None:
            raise plugin.problem
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise CourseError(f"the hidden suites in {hidden} could not be collected (pytest ended with {code})")


if __name__ == "__main__":
    descriptor, folder, wanted, serves, *names = sys.argv[1:]
    main(socket.socket(fileno=int(descriptor)), Path(folder), cast("tuple[Tier, ...]", tuple(wanted)), serves, names)
