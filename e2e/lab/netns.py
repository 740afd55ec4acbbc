"""Network namespaces, by system calls alone: neither root's tools nor a compiler are needed.

A lab's namespace is held by one small process that does nothing else: `python -I netns.py hold`. While it lives, others
enter by its pid; when it and everything in the namespace are gone, the kernel removes the namespace, so nothing stale
can stay behind.

Every address of 10.244.0.0/16 is local inside: any of them can be bound, and none leads out. The API server refuses
loopback addresses in an EndpointSlice, so model servers listen on these.

This file imports nothing but the standard library, since it also runs on its own.
"""

import ctypes
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWNET = 0x40000000
CLONE_NEWUSER = 0x10000000
NETWORK = "10.244.0.0"
PREFIX_LENGTH = 16

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_NETLINK_ROUTE, _RTM_NEWROUTE, _NLMSG_ERROR = 0, 24, 2
_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_CREATE, _NLM_F_REPLACE = 0x1, 0x4, 0x400, 0x100
_RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL = 255, 3, 254, 2
_RTA_DST, _RTA_OIF = 1, 4
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move the calling thread into new namespaces; `flags` are of clone(2)."""
    _checked(_libc.unshare(flags), "unshare")


def set_namespace(descriptor: int, kind: int) -> None:
    """Move the calling thread into the namespace that `descriptor` is open on; later threads and children follow it."""
    _checked(_libc.setns(descriptor, kind), "setns")


def enter(pid: int) -> None:
    """Move the calling thread into the network namespace of `pid`, and into its user namespace where that differs.

    Raises
    ------
    OSError
        Entering another user namespace needs a process of one thread only.
    """
    proc = Path("/proc") / str(pid) / "ns"
    network = os.open(proc / "net", os.O_RDONLY)
    try:
        if (proc / "user").stat().st_ino != Path("/proc/self/ns/user").stat().st_ino:
            user = os.open(proc / "user", os.O_RDONLY)
            try:
                set_namespace(user, CLONE_NEWUSER)
            finally:
                os.close(user)
        set_namespace(network, CLONE_NEWNET)
    finally:
        os.close(network)


def become_root_of_user_namespace(flags: int = 0) -> None:
    """Move this process of one thread into a user namespace where it is root, and into the namespaces of `flags`."""
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER | flags)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")


def make_network() -> bool:
    """Give this process a network namespace of its own; say whether that took a user namespace.

    Raises
    ------
    OSError
        The kernel allows neither.
    """
    try:
        unshare(CLONE_NEWNET)
    except PermissionError:
        become_root_of_user_namespace(CLONE_NEWNET)
        in_user_namespace = True
    else:
        in_user_namespace = False
    _bring_loopback_up()
    _make_local(NETWORK, PREFIX_LENGTH)
    return in_user_namespace


def _bring_loopback_up() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _make_local(network: str, prefix_length: int) -> None:
    """Do what `ip route add local NETWORK/LENGTH dev lo` does, see rtnetlink(7)."""
    route = struct.pack(
        "BBBBBBBBI", socket.AF_INET, prefix_length, 0, 0, _RT_TABLE_LOCAL, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL, 0
    )
    route += struct.pack("HH4s", 8, _RTA_DST, socket.inet_aton(network))
    route += struct.pack("HHI", 8, _RTA_OIF, socket.if_nametoindex("lo"))
    flags = _NLM_F_REQUEST | _NLM_F_ACK | _NLM_F_CREATE | _NLM_F_REPLACE
    message = struct.pack("IHHII", 16 + len(route), _RTM_NEWROUTE, flags, 1, 0) + route
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE) as netlink:
        netlink.bind((0, 0))
        netlink.send(message)
        answer = netlink.recv(4096)
    kind = struct.unpack_from("IHHII", answer)[1]
    error = struct.unpack_from("i", answer, 16)[0] if kind == _NLMSG_ERROR else 0
    if error:
        raise OSError(-error, f"no local route to {network}/{prefix_length}: {os.strerror(-error)}")


def _hold() -> None:
    """Make the namespace, say so on stdout in one line of JSON, and live until SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        answer: dict[str, object] = {"user_namespace": make_network()}
    except OSError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    os.close(1)
    while "error" not in answer:
        signal.pause()


def _main(arguments: list[str]) -> None:
    match arguments:
        case ["hold"]:
            _hold()
        case ["enter", pid, "--", *command] if command:
            enter(int(pid))
            os.execvp(command[0], command)  # noqa: S606 - no shell is wanted: the words are passed as they are
        case _:
            sys.exit("usage: netns.py hold | netns.py enter PID -- COMMAND ...")


if __name__ == "__main__":
    _main(sys.argv[1:])
