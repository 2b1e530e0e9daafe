"""Hostile submissions that go for the network, other processes and the kernel."""

from __future__ import annotations

from tests.engine import ATTENTION
from tests.redteam import reach_kernel, reach_network, reach_processes
from tests.redteam.attempts import ANSWER, attempts, helpers
from tests.redteam.bank import START, Case

COMPATIBILITY = r"""
import mmap
import platform
CODE = {
    "getpid by the 32-bit door": b"\xb8\x14\x00\x00\x00\xcd\x80\xc3",  # mov eax, 20; int 0x80; ret
    "getpid by the x32 door": b"\xb8\x27\x00\x00\x40\x0f\x05\xc3",  # mov eax, 0x40000027; syscall; ret
}
if platform.machine() == "x86_64":
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE["@DOOR@"])
    got = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    CAME_THROUGH.append(f"@DOOR@: {got}")
"""


def door(name: str) -> str:
    """A cell that makes a system call in another ABI, whose numbers mean other calls: it must not survive it."""
    return helpers() + COMPATIBILITY.replace("@DOOR@", name)


SURVIVED = "CAME_THROUGH = globals().get('CAME_THROUGH', [])"

CASES = [
    attempts(
        "tcp",
        "kernel",
        "connects, listens and fetches by TCP",
        reach_network.connect_to_a_port,
        reach_network.connect_by_ipv6,
        reach_network.connect_without_waiting,
        reach_network.offer_a_port,
        reach_network.connect_by_sending,
        reach_network.fetch_a_page,
    ),
    attempts(
        "udp-and-others",
        "kernel",
        "sends datagrams, pings, asks netlink, makes sockets of every kind",
        reach_network.send_a_datagram,
        reach_network.send_a_ping,
        reach_network.make_sockets_of_other_kinds,
        reach_network.ask_the_kernel_about_interfaces,
        reach_network.make_pairs_of_other_kinds,
    ),
    attempts(
        "unix-sockets",
        "kernel",
        "connects to unix sockets, with a name and without, and makes some",
        reach_network.connect_to_a_unix_socket,
        reach_network.connect_to_an_abstract_socket,
        reach_network.connect_again_with_a_pair,
        reach_network.name_a_pair,
        reach_network.listen_on_the_channel,
    ),
    attempts(
        "unix-datagrams",
        "kernel",
        "sends datagrams and descriptors to named sockets, by a pair of its own",
        reach_network.send_by_a_pair,
        reach_network.send_a_descriptor_by_a_pair,
    ),
    attempts(
        "ptrace",
        "kernel",
        "traces its parent, has itself traced, takes descriptors",
        reach_processes.trace_another_process,
        reach_processes.be_traced,
        reach_processes.compare_with_another_process,
        reach_processes.take_a_descriptor_of_another_process,
    ),
    attempts(
        "memory-of-others",
        "kernel",
        "reads and writes the memory of its parent",
        reach_processes.read_the_memory_of_another_process,
        reach_processes.write_the_memory_of_another_process,
        reach_processes.see_memory_of_another_process,
        reach_processes.see_maps_of_another_process,
        reach_kernel.move_pages_of_another_process,
    ),
    attempts(
        "proc-of-others",
        "kernel",
        "looks who is running and what they hold",
        reach_processes.see_who_is_running,
        reach_processes.see_descriptors_of_another_process,
    ),
    attempts(
        "memory-files",
        "kernel",
        "makes files in memory, which no limit on files counts",
        reach_processes.make_a_file_in_memory,
        reach_processes.make_secret_memory,
    ),
    attempts(
        "shared-memory",
        "kernel",
        "makes shared memory, semaphores and queues that outlive it",
        reach_processes.share_memory_by_key,
        reach_processes.share_a_semaphore,
        reach_processes.share_a_queue,
        reach_processes.open_a_message_queue,
    ),
    attempts(
        "fork",
        "kernel",
        "forks, in every way that there is",
        reach_processes.fork,
        reach_processes.fork_a_terminal,
        reach_processes.clone_without_a_thread,
        reach_processes.clone_in_the_new_way,
        reach_processes.fork_a_pool,
    ),
    attempts(
        "programs",
        "kernel",
        "runs programs and shells, becomes one",
        reach_processes.spawn,
        reach_processes.run_a_program,
        reach_processes.run_by_a_shell,
        reach_processes.start_a_python_process,
        reach_processes.become_another_program,
        reach_processes.become_an_open_program,
    ),
    attempts(
        "namespaces",
        "kernel",
        "unshares, enters and clones into namespaces",
        reach_kernel.leave_the_namespaces,
        reach_kernel.enter_other_namespaces,
        reach_kernel.thread_in_a_namespace,
    ),
    attempts(
        "rings",
        "kernel",
        "hands system calls to io_uring and aio, past the filter",
        reach_kernel.set_up_a_ring,
        reach_kernel.use_the_ring_of_nobody,
        reach_kernel.set_up_asynchronous_files,
    ),
    attempts(
        "kernel-doors",
        "kernel",
        "opens the parts of the kernel that exploits like: bpf, perf, keys, userfaultfd",
        reach_kernel.handle_page_faults,
        reach_kernel.load_a_program_into_the_kernel,
        reach_kernel.count_events,
        reach_kernel.read_a_key,
        reach_kernel.add_a_key,
        reach_kernel.load_a_module,
        reach_kernel.load_another_filter,
    ),
    attempts(
        "signals",
        "kernel",
        "signals its parent, who asked, its group and everybody",
        reach_kernel.signal_another_process,
        reach_kernel.signal_everybody,
        reach_kernel.signal_a_group,
        reach_kernel.signal_who_asked,
        reach_kernel.signal_in_other_ways,
    ),
    attempts(
        "signal-by-owner",
        "kernel",
        "makes its parent the owner of a descriptor, so that the kernel signals it",
        reach_kernel.have_a_signal_sent_to_another_process,
    ),
    attempts(
        "limits",
        "kernel",
        "raises its own limits and binds its parent by new ones",
        reach_kernel.limit_another_process,
        reach_kernel.raise_own_limits,
        reach_kernel.be_without_a_memory_limit,
    ),
    attempts(
        "identity",
        "kernel",
        "becomes root, looks for capabilities",
        reach_kernel.become_root,
        reach_kernel.be_root_already,
        reach_kernel.change_identity_in_other_ways,
        reach_kernel.hold_capabilities,
        reach_kernel.take_off_no_new_privileges,
    ),
    attempts(
        "mounts",
        "kernel",
        "changes its root, mounts and unmounts, in the old way and the new",
        reach_kernel.change_the_root,
        reach_kernel.mount_something,
        reach_kernel.unmount_something,
        reach_kernel.mount_in_the_new_way,
    ),
    attempts(
        "terminals",
        "kernel",
        "types into the terminal of whoever grades",
        reach_kernel.push_into_a_terminal,
        reach_kernel.paste_into_a_console,
    ),
    attempts(
        "process-controls",
        "kernel",
        "outlives the grader, opens itself to tracers, switches its personality",
        reach_kernel.outlive_the_grader,
        reach_kernel.be_open_to_tracers,
        reach_kernel.hide_an_option_in_the_upper_half,
        reach_kernel.switch_the_personality,
    ),
    attempts(
        "scheduling",
        "kernel",
        "goes before others, slows and pins them",
        reach_kernel.slow_another_process,
        reach_kernel.be_scheduled_first,
        reach_kernel.pin_another_process,
        reach_kernel.read_before_others,
        reach_kernel.go_before_others,
    ),
    attempts(
        "watching",
        "kernel",
        "watches folders, opens files by their handles",
        reach_kernel.watch_folders,
        reach_kernel.watch_everything,
        reach_kernel.open_by_handle,
    ),
    attempts(
        "machine",
        "kernel",
        "changes the clock and the name, reads the log, turns the machine off",
        reach_kernel.change_the_clock,
        reach_kernel.read_the_kernels_log,
        reach_kernel.turn_the_machine_off,
        reach_kernel.rename_the_machine,
    ),
    attempts(
        "calls-of-tomorrow",
        "kernel",
        "makes system calls that are newer than the filter",
        reach_kernel.call_what_is_not_known_yet,
    ),
    Case(
        "32-bit-calls",
        "kernel",
        "makes a system call by the 32-bit door, whose numbers mean other calls",
        16,
        answers={ATTENTION: SURVIVED + ANSWER},
        cells=((START, door("getpid by the 32-bit door")),),
    ),
    Case(
        "x32-calls",
        "kernel",
        "makes a system call by the x32 door, whose numbers are others",
        16,
        answers={ATTENTION: SURVIVED + ANSWER},
        cells=((START, door("getpid by the x32 door")),),
    ),
]
