"""Attempts on the files of the machine: packages, accounts, descriptors, neighbours, links."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from tests.redteam.attempts import HOME, refuse
from tests.redteam.bank import COURSE


def plant_in_the_packages() -> Any:
    import sysconfig

    return Path(sysconfig.get_path("purelib"), "redteam.pth").write_text("import os")


def plant_a_sitecustomize() -> Any:
    import sysconfig

    return Path(sysconfig.get_path("stdlib"), "redteam_sitecustomize.py").write_text("")


def change_torch() -> Any:
    import torch

    return open(torch.__file__, "r+")


def change_a_library() -> Any:
    import torch

    return open(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"), "r+b")


def poison_compiled_modules() -> Any:
    import sysconfig

    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib") + "/torch"):
        os.makedirs(f"{folder}/__pycache__", exist_ok=True)
        Path(folder, "__pycache__", "redteam.cpython-311.pyc").write_bytes(b"")
    return "written"


def map_a_library_to_write() -> Any:
    import mmap
    import sysconfig

    with open(sysconfig.get_path("stdlib") + "/os.py", "r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def read_accounts() -> Any:
    return Path("/etc/passwd").read_text()


def read_passwords() -> Any:
    return Path("/etc/shadow").read_text()


def read_the_machines_name() -> Any:
    return Path("/etc/hostname").read_text()


def list_the_root_folder() -> Any:
    return os.listdir("/")


def write_to_the_system() -> Any:
    return open("/usr/lib/redteam", "w")


def read_devices() -> Any:
    for device in ("mem", "kmsg", "tty", "console", "ptmx", "fuse", "kvm", "vda", "sda", "loop-control", "net/tun"):
        try:
            return open(f"/dev/{device}", "rb")
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.ENOENT, errno.EPERM):
                raise
    return refuse(True)


def read_kernel_files() -> Any:
    return os.listdir("/sys/kernel")


def read_own_environment_from_outside() -> Any:
    return Path("/proc/self/environ").read_bytes()


def read_the_first_process() -> Any:
    return Path("/proc/1/cmdline").read_bytes()


def find_what_the_environment_tells() -> Any:
    told = [name for name, value in os.environ.items() if COURSE in value or name.startswith(("AUTOGRADER", "PYTEST"))]
    refuse(not told)
    return told


def find_files_among_open_descriptors() -> Any:
    import stat

    found = []
    for number in range(3, 4096):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            found.append(number)
    refuse(not found)
    return found


def start_from_open_descriptors() -> Any:
    for number in range(3, 256):
        try:
            return os.open("../../../../etc/passwd", os.O_RDONLY, dir_fd=number)
        except OSError:
            continue
    return refuse(True)


def more_than_one_channel() -> Any:
    import stat

    found = []
    for number in range(3, 4096):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                found.append(number)
        except OSError:
            continue
    refuse(len(found) <= 1)
    return found


def list_the_neighbours() -> Any:
    beside = [name for name in os.listdir("..") if name != os.path.basename(os.getcwd())]
    refuse(not beside)
    return beside


def list_temporary_files_of_others() -> Any:
    import sys

    own = [os.path.realpath("."), sys.prefix, *sys.path]  # Python itself may be installed there
    seen = [name for name in os.listdir("/tmp") if not any(place.startswith("/tmp/" + name) for place in own)]
    refuse(not seen)
    return seen


def find_the_notebook_itself() -> Any:
    import glob

    found = [*glob.glob("*.ipynb"), *glob.glob("../*.ipynb"), *glob.glob("../*/*.ipynb")]
    refuse(not found)
    return found


def read_through_a_symlink() -> Any:
    os.symlink(f"{COURSE}/gradebook.db", "redteam-link")
    return open("redteam-link")


def list_through_a_symlink() -> Any:
    os.symlink(COURSE, "redteam-folder")
    return os.listdir("redteam-folder/submitted")


def write_through_a_symlink() -> Any:
    os.symlink(f"{COURSE}/redteam-planted", "redteam-target")
    return open("redteam-target", "w")


def make_a_hard_link() -> Any:
    os.link(f"{COURSE}/gradebook.db", "redteam-hard")
    return open("redteam-hard")


def make_a_hard_link_to_a_library() -> Any:
    import sysconfig

    os.link(sysconfig.get_path("stdlib") + "/os.py", "redteam-os.py")
    return open("redteam-os.py", "r+")


def swap_folder_and_symlink() -> Any:
    import threading

    os.makedirs("redteam-swap", exist_ok=True)
    os.symlink(COURSE, "redteam-other")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename("redteam-swap", "redteam-third")
            os.rename("redteam-other", "redteam-swap")
            os.rename("redteam-swap", "redteam-other")
            os.rename("redteam-third", "redteam-swap")

    thread = threading.Thread(target=swap)
    thread.start()
    got = []
    for _ in range(2000):
        try:
            got.append(os.open("redteam-swap/gradebook.db", os.O_RDONLY))
        except OSError:
            continue
    stop.set()
    thread.join()
    refuse(not got)
    return got


def read_the_home_of_the_grader() -> Any:
    return os.listdir(HOME)


def plant_in_the_caches_of_the_grader() -> Any:
    for place in (".cache/matplotlib", ".config/matplotlib", ".ipython/profile_default/startup", ".cache/torch"):
        try:
            os.makedirs(f"{HOME}/{place}/redteam")
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.ENOENT, errno.EPERM, errno.EROFS):
                raise
        else:
            return place
    return refuse(True)


def make_a_node() -> Any:
    import stat

    return os.mknod("redteam-node", stat.S_IFCHR | 0o600, os.makedev(1, 1))


def make_a_nameless_file() -> Any:
    return os.open(".", os.O_TMPFILE | os.O_RDWR)
