"""What a worker finds around it: its environment, the files that it can read, the layers that hold it.

Both sides use this, on any system.
"""

from __future__ import annotations

import os
import sys

_SYSTEM_FILES = (
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "/usr/share/zoneinfo",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/fonts",
)


def layers(tier: str) -> list[str]:
    """The names of what holds a worker of that tier."""
    return {"A": ["namespaces", "landlock", "seccomp"], "B": ["landlock", "seccomp"], "C": []}[tier]


def clean_environment(home: str, temporary: str) -> dict[str, str]:
    """All that a worker finds in its environment."""
    threads = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": temporary,
        "USER": "worker",
        "LOGNAME": "worker",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": f"{home}/.matplotlib",
        "IPYTHONDIR": f"{home}/.ipython",
        "CUDA_VISIBLE_DEVICES": "",
        **{f"{name}_NUM_THREADS": "1" for name in threads},
    }


def readable() -> tuple[str, ...]:
    """The files and folders that Python, its packages and the C library need; nothing else can be read.

    They are libraries, fonts and time zones: not the folder of the course, even if its virtual environment
    lies in it.
    """
    found = list(_SYSTEM_FILES)
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)):
        for name in ("lib", "lib64"):
            # By both names: packages are found by the one, and links inside lead to the other.
            found += dict.fromkeys((f"{prefix}/{name}", os.path.realpath(f"{prefix}/{name}")))
    return tuple(path for path in dict.fromkeys(found) if os.path.lexists(path))
