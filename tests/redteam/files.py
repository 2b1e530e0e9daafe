"""Hostile submissions that go for files: the class's, the grader's, the machine's, and those left for others."""

from __future__ import annotations

from tests.engine import ATTENTION
from tests.redteam import reach_class, reach_machine
from tests.redteam.attempts import ANSWER, attempts, fresh_start, helpers
from tests.redteam.bank import START, Case

STRANGE = r"""
os.makedirs("redteam", exist_ok=True)
for name in (b"-rf", b"*", b"a\nb", b"\xff\xfe", b"x" * 255, b"~", b"$(touch redteam)", b".\x01", "é".encode()):
    open(b"redteam/" + name, "w").close()
    os.makedirs(b"redteam/folder " + name[:200], exist_ok=True)
here = os.open("redteam", os.O_RDONLY)
for _ in range(1500):
    os.mkdir("d" * 200, dir_fd=here)
    below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
    os.close(here)
    here = below
os.close(here)
os.symlink("redteam-loop", "redteam-loop")
os.symlink("@COURSE@", "redteam/course")
os.symlink("@COURSE@/tests", b"redteam/\xfe")
os.makedirs("redteam/closed/inside", exist_ok=True)
os.chmod("redteam/closed", 0)
"""

PLACES = 'PLACES = [os.getcwd(), os.path.expanduser("~"), "/tmp", "/dev/shm", "/var/tmp", *__import__("sys").path]\n'
FIND_MARKS = """
for place in PLACES:
    if os.path.exists(place + "/redteam-mark"):
        CAME_THROUGH.append(place)
"""
LEAVE_MARKS = """
for place in PLACES:
    try:
        open(place + "/redteam-mark", "w").write("left")
    except OSError:
        pass
"""
FIND_MODULES = """
import importlib
for name in ("redteam_left", "redteam_package"):
    try:
        importlib.import_module(name)
        CAME_THROUGH.append(name)
    except ImportError:
        pass
"""
LEAVE_MODULES = """
import py_compile
for place in PLACES:
    try:
        open(place + "/redteam_left.py", "w").write("left = 1")
        py_compile.compile(place + "/redteam_left.py")
        os.makedirs(place + "/redteam_package", exist_ok=True)
        open(place + "/redteam_package/__init__.py", "w").write("left = 1")
        for name in ("usercustomize", "math", "json", "numpy", "torch", "autograder", "test_project_qkv"):
            open(f"{place}/{name}.py", "w").write("raise SystemExit('redteam')")
    except (OSError, py_compile.PyCompileError):
        pass
"""
FIND_CACHES = """
for name in ("MPLCONFIGDIR", "IPYTHONDIR", "TORCH_HOME", "XDG_CACHE_HOME", "HOME", "TMPDIR"):
    place = os.environ.get(name, os.path.expanduser("~/.cache"))
    if os.path.exists(place + "/redteam"):
        CAME_THROUGH.append(name)
import matplotlib
if matplotlib.rcParams["lines.linewidth"] == 77:
    CAME_THROUGH.append("matplotlibrc")
"""
LEAVE_CACHES = """
for name in ("MPLCONFIGDIR", "IPYTHONDIR", "TORCH_HOME", "XDG_CACHE_HOME", "HOME", "TMPDIR"):
    place = os.environ.get(name, os.path.expanduser("~/.cache"))
    os.makedirs(place + "/redteam", exist_ok=True)
    os.makedirs(place + "/profile_default/startup", exist_ok=True)
    open(place + "/profile_default/startup/00.py", "w").write("raise SystemExit")
    open(place + "/matplotlibrc", "w").write("lines.linewidth: 77")
open("matplotlibrc", "w").write("lines.linewidth: 77")
"""
FIND_SHARED = """
from multiprocessing import shared_memory
for name in ("redteam-shared", "psm_redteam"):
    try:
        shared_memory.SharedMemory(name)
        CAME_THROUGH.append(name)
    except OSError:
        pass
"""
LEAVE_SHARED = """
for name in ("redteam-shared", "psm_redteam"):
    try:
        left = shared_memory.SharedMemory(name, create=True, size=4096)
        __import__("multiprocessing.resource_tracker").resource_tracker.unregister(left._name, "shared_memory")
    except OSError:
        pass
"""

CASES = [
    attempts(
        "read-gradebook",
        "files",
        "reads the gradebook, in Python, C, SQLite, numpy and torch",
        reach_class.read_the_gradebook,
        reach_class.read_it_by_sqlite,
        reach_class.read_it_through_c,
        reach_class.read_it_through_torch,
        reach_class.read_it_through_numpy,
    ),
    attempts(
        "alter-gradebook",
        "files",
        "writes to the gradebook, replaces, truncates, renames it, changes its mode and time",
        reach_class.open_the_gradebook_to_write,
        reach_class.append_to_the_gradebook,
        reach_class.put_a_journal_beside_it,
        reach_class.replace_the_gradebook,
        reach_class.link_over_the_gradebook,
        reach_class.truncate_the_gradebook,
        reach_class.make_it_readable,
        reach_class.change_its_time,
        reach_class.set_an_attribute,
    ),
    attempts(
        "read-hidden-suites",
        "files",
        "opens, lists, imports and runs the hidden suites, by every way up",
        reach_class.read_a_hidden_suite,
        reach_class.list_the_hidden_suites,
        reach_class.find_hidden_suites_anywhere,
        reach_class.climb_up_to_the_suites,
        reach_class.reach_them_through_proc,
        reach_class.reach_them_through_the_working_folder_of_others,
        reach_class.import_a_hidden_suite,
        reach_class.run_a_hidden_suite,
    ),
    attempts(
        "alter-hidden-suites",
        "files",
        "plants a conftest beside the hidden suites, changes and removes one",
        reach_class.plant_a_conftest,
        reach_class.change_a_suite,
        reach_class.remove_a_suite,
    ),
    attempts(
        "read-the-solution",
        "files",
        "reads the solutions and the rules of the course, and changes them",
        reach_class.read_the_solution,
        reach_class.read_the_rules,
        reach_class.change_the_rules,
        reach_class.plant_a_notebook_in_the_release,
    ),
    attempts(
        "other-submissions",
        "files",
        "lists, reads and changes what others handed in, and hands in for them",
        reach_class.list_the_class,
        reach_class.read_anothers_submission,
        reach_class.change_anothers_submission,
        reach_class.hand_in_for_another,
    ),
    attempts(
        "results",
        "files",
        "looks for results and the seed, and plants some",
        reach_class.list_the_results,
        reach_class.plant_a_result,
        reach_class.plant_a_seed,
    ),
    attempts(
        "graders-own-source",
        "files",
        "reads, imports and changes the grader's own modules",
        reach_class.read_the_graders_source,
        reach_class.import_the_examiner,
        reach_class.change_the_graders_source,
    ),
    attempts(
        "site-packages",
        "files",
        "plants modules among the installed ones, changes torch and the standard library",
        reach_machine.plant_in_the_packages,
        reach_machine.plant_a_sitecustomize,
        reach_machine.change_torch,
        reach_machine.change_a_library,
        reach_machine.map_a_library_to_write,
    ),
    attempts(
        "poison-pycache",
        "files",
        "plants compiled modules where everybody's imports find them",
        reach_machine.poison_compiled_modules,
    ),
    attempts(
        "system-files",
        "files",
        "reads accounts and devices, looks round the machine, writes among its libraries",
        reach_machine.read_accounts,
        reach_machine.read_passwords,
        reach_machine.read_the_machines_name,
        reach_machine.list_the_root_folder,
        reach_machine.write_to_the_system,
        reach_machine.read_devices,
        reach_machine.read_kernel_files,
        reach_machine.make_a_node,
    ),
    attempts(
        "environment",
        "files",
        "looks for paths and secrets in environments and command lines",
        reach_machine.read_own_environment_from_outside,
        reach_machine.read_the_first_process,
        reach_machine.find_what_the_environment_tells,
    ),
    attempts(
        "open-descriptors",
        "files",
        "looks for files, folders and second channels among the open descriptors",
        reach_machine.find_files_among_open_descriptors,
        reach_machine.start_from_open_descriptors,
        reach_machine.more_than_one_channel,
    ),
    attempts(
        "neighbours",
        "files",
        "looks beside its own folder: other workers, temporary files, the notebook itself",
        reach_machine.list_the_neighbours,
        reach_machine.list_temporary_files_of_others,
        reach_machine.find_the_notebook_itself,
        reach_machine.make_a_nameless_file,
    ),
    attempts(
        "symlinks",
        "files",
        "reads and writes through symbolic links, also one that is swapped meanwhile, and leaves them behind",
        reach_machine.read_through_a_symlink,
        reach_machine.list_through_a_symlink,
        reach_machine.write_through_a_symlink,
        reach_machine.swap_folder_and_symlink,
    ),
    attempts(
        "hard-links",
        "files",
        "links the gradebook and a library into its own folder",
        reach_machine.make_a_hard_link,
        reach_machine.make_a_hard_link_to_a_library,
    ),
    attempts(
        "graders-home",
        "files",
        "lists the home of whoever grades, and plants files in the caches there",
        reach_machine.read_the_home_of_the_grader,
        reach_machine.plant_in_the_caches_of_the_grader,
    ),
    Case(
        "strange-names",
        "files",
        "leaves names that are no text, 1,500 folders in one another, loops and links to the course",
        16,
        answers={ATTENTION: ANSWER},
        cells=((START, helpers() + STRANGE),),
        tiers="A",  # in B, folders too deep to be looked at count as full, and end the worker
    ),
    fresh_start(
        "marks-for-the-next",
        "files",
        "leaves a mark in every folder for the process that comes after it",
        LEAVE_MARKS,
        PLACES + FIND_MARKS,
    ),
    fresh_start(
        "modules-for-the-next",
        "files",
        "leaves modules, some by the names of real ones, that a later process would import",
        LEAVE_MODULES,
        PLACES + FIND_MODULES,
    ),
    fresh_start(
        "caches-for-the-next",
        "files",
        "leaves settings in the folders of matplotlib, IPython and torch",
        LEAVE_CACHES,
        FIND_CACHES,
    ),
    fresh_start(
        "shared-memory-for-the-next",
        "files",
        "leaves named shared memory",
        LEAVE_SHARED,
        FIND_SHARED,
    ),
]
