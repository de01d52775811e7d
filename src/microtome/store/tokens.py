"""Tokens of claims: each names the process that holds it, which others on its machine can look for."""

from __future__ import annotations

import json
import os
import secrets
import socket
from functools import cache
from pathlib import Path

from .address import digest


def make_token() -> str:
    """Make a token of this process that no other claim has: machine, process, its start, and chance."""
    _, begun = _status(os.getpid())
    return "-".join((_machine(), str(os.getpid()), begun, secrets.token_hex(6)))


@cache
def _machine() -> str:
    """A name for what numbers processes: a boot of a host, and a container there."""
    facts = [socket.gethostname()]
    try:
        facts += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    except OSError:
        from uuid import getnode

        facts.append(str(getnode()))
    return digest(json.dumps(facts).encode())[:12]


def _status(pid: int) -> tuple[str, str]:
    """State and time of the start of a process; empty where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), fields[19].decode()
    except (OSError, IndexError):
        return "", ""


def is_dead(token: str) -> bool:
    """Whether the process of a token is known to have ended; False for processes of other machines."""
    machine, pid, birth, *_ = (*token.split("-"), "", "", "")
    if machine != _machine() or not pid.isdigit() or os.name != "posix":
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    state, begun = _status(int(pid))
    # Ended and not yet waited for, or another process with the same number.
    return state in ("Z", "X") or begun not in ("", birth)
