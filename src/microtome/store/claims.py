"""
Claims on names, with a heartbeat: at most one live process at a time holds a name.

Locks of files may be absent on network file systems, or hold on one host alone. A claim is a file of that
name instead, with a token that no other claim ever has. It appears at once and whole, as a hard link, and
only where no such file stands. To take over from a silent holder, a process links its own claim as
`NAME.TOKEN`, with the holder's token: the successor of each claim has one name, so that one process
succeeds, and the holder is the last of this chain. Who was about to do the same links nothing, or finds
that its link is in no chain any more. The last holder removes the first file of the chain, which frees the
name, and then the others.

A thread touches the claims of its process every `BEAT` seconds. A waiting process measures with its own
monotonic clock for how long it sees no touch, so the clocks of hosts need not agree; after `STALE` seconds
it takes over. A holder on the same machine whose process has ended is replaced at once.

A silent holder may be alive all the same: stopped, or cut off from the file system. What it writes later
must not mix with the files of its successor, so each works in a folder of its own (`resuming.py`).
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from . import heartbeat
from .files import refresh
from .heartbeat import HEARTBEAT
from .tokens import is_dead, make_token

STALE = 40.0
# No clock is wrong by as much: such a claim is stale at first sight.
_LONG = 86_400.0
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_NO_LINKS = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
)
# When this process first saw the present sign of a claim, by its token.
_SIGNS: dict[str, tuple[int, float]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreClaim:
    """
    A live claim.

    Parameters
    ----------
    host : str
        Name of the holder's host.
    pid : int
        Its process there.
    started : float
        Time of the claim, in seconds since 1970 by the holder's clock.
    silent : float
        Seconds since its last sign, by the clock of the file system.
    """

    host: str
    pid: int
    started: float
    silent: float


class _Link(NamedTuple):
    """One file of a chain: its path, what it says, and the time of the last touch in nanoseconds."""

    path: str
    facts: dict[str, Any]
    sign: int

    @property
    def token(self) -> str:
        return str(self.facts.get("token", ""))


@contextmanager
def hold(path: Path, *, wait: bool = True, waiting: Callable[[], None] | None = None) -> Iterator[str | None]:
    """
    Hold a claim while the block runs.

    Parameters
    ----------
    path : Path
        The file of the claim, in a folder that exists.
    wait : bool
        Whether to wait for another holder.
    waiting : callable, optional
        Called once before waiting.

    Yields
    ------
    str or None
        The token of the claim; None without waiting where another process holds it.
    """
    name = os.fspath(path)
    claim = _take(name, wait, waiting)
    try:
        yield None if claim is None else claim.token
    finally:
        # A forked child that leaves the block does not release what its parent holds.
        if claim is not None and claim.facts["pid"] == os.getpid():
            HEARTBEAT.drop(claim.path)
            with suppress(OSError):
                chain = _chain(name)
                if chain and chain[-1].token == claim.token:
                    _remove(link.path for link in chain)


def is_claimed(path: Path, token: str) -> bool:
    """Whether a token still has the claim: it has not if another process has taken over."""
    chain = _chain(os.fspath(path))
    return bool(chain) and chain[-1].token == token


def read_claims(place: Path) -> dict[str, StoreClaim]:
    """
    Read the live claims in a folder.

    Parameters
    ----------
    place : Path

    Returns
    -------
    dict of str to StoreClaim
        By name, in order of their names.
    """
    claims: dict[str, StoreClaim] = {}
    names = _names(place)
    now = _file_time(place)
    dead = cache(is_dead)  # once per process
    for name in sorted(names):
        chain = _chain(f"{place}/{name}", names) if not is_part(name) else []
        if not chain or dead(chain[-1].token.rpartition("-")[0]):
            continue
        silent = max(0.0, now - chain[-1].sign / 1e9)
        facts = chain[-1].facts
        if silent <= STALE and {"host", "pid", "started"} <= facts.keys():
            claims[name] = StoreClaim(
                host=facts["host"], pid=facts["pid"], started=facts["started"], silent=silent
            )
    return claims


def is_part(name: str) -> bool:
    """Whether a name in a folder of claims is that of a successor, or of the beginning of a claim."""
    return name.startswith(".") or name.rpartition(".")[2].count("-") == 3


def drop_part(path: Path) -> None:
    """Remove a successor whose chain is gone, or what a process has left that was killed while it claimed."""
    gate, _, token = os.fspath(path).rpartition(".")
    with suppress(FileNotFoundError):
        if path.name.startswith("."):
            if is_dead(token) or time.time() - os.lstat(path).st_mtime > _LONG:
                _remove([os.fspath(path)])
        elif os.fspath(path) not in (link.path for link in _chain(gate)):
            _remove([os.fspath(path)])


def _take(name: str, wait: bool, waiting: Callable[[], None] | None) -> _Link | None:
    begun = time.monotonic()
    surveyed = False
    while True:
        chain = _chain(name)
        if not chain or _is_stale(chain[-1]):
            claim = _create(name, chain)
            if claim is not None:
                return claim
        if not wait:
            return None
        if waiting is not None:
            waiting()
            waiting = None
        looked = time.monotonic()
        if looked - begun > heartbeat.BEAT and not surveyed:
            # Claims of other dead hosts grow stale meanwhile, so that this process waits only once.
            _survey(Path(name).parent)
            surveyed = True
        # The longer the wait, the rarer a look.
        pause = min(1.0, max(0.001, (looked - begun) / 10))
        time.sleep(pause)
        if time.monotonic() - looked > pause + heartbeat.BEAT / 2:
            _SIGNS.clear()  # this process was stopped, and perhaps the others with it


def _create(name: str, chain: Sequence[_Link]) -> _Link | None:
    """Claim a free name, or become the successor of the last of a chain; None if another was faster."""
    token = make_token()
    facts = {"token": token, "host": socket.gethostname(), "pid": os.getpid(), "started": time.time()}
    content = json.dumps(facts).encode()
    target = f"{name}.{chain[-1].token}" if chain else name
    beginning = f"{os.path.dirname(name)}/.{token}"
    try:
        _write(beginning, content)
        try:
            os.link(beginning, target)
        except FileExistsError:
            # A network may lose the answer to what was done.
            if os.stat(beginning).st_nlink < 2:
                return None
        except OSError as problem:
            if problem.errno not in _NO_LINKS:
                raise
            try:
                _write(target, content)
            except FileExistsError:
                return None
    finally:
        _remove([beginning])
    # The holder may have gone on and released the chain, or this process was stopped meanwhile.
    if chain and not is_claimed(Path(name), token):
        _remove([target])
        return None
    HEARTBEAT.add(target)
    return _Link(target, facts, 0)


def _chain(name: str, names: Container[str] | None = None) -> list[_Link]:
    """Read a claim and its successors, the holder last; empty if the name is free."""
    if names is None:
        refresh(Path(name).parent)
    chain: list[_Link] = []
    path = name
    while True:
        link = _read(path) if not chain or names is None or os.path.basename(path) in names else None
        if link is None or link.path in (earlier.path for earlier in chain):
            return chain
        chain.append(link)
        path = f"{name}.{link.token}"


def _read(path: str) -> _Link | None:
    try:
        # Opened, since network file systems answer a mere question for attributes from a cache.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as problem:
        if problem.errno in _GONE:
            return None
        raise
    try:
        content, sign = os.read(handle, 4096), os.fstat(handle).st_mtime_ns
    finally:
        os.close(handle)
    try:
        facts = json.loads(content)
    except ValueError:  # a lock file of an earlier version, or a claim that is just being written
        facts = None
    return _Link(path, facts if isinstance(facts, dict) else {}, sign)


def _write(path: str, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.write(handle, content)
    finally:
        os.close(handle)


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


def _names(place: Path) -> set[str]:
    try:
        return set(os.listdir(place))
    except FileNotFoundError:
        return set()


def _is_stale(link: _Link) -> bool:
    if is_dead(link.token):
        return True
    now = time.monotonic()
    key = link.token or link.path
    if key not in _SIGNS or _SIGNS[key][0] != link.sign:
        _SIGNS[key] = link.sign, now
    return now - _SIGNS[key][1] > STALE or time.time() - link.sign / 1e9 > _LONG


def _survey(place: Path) -> None:
    names = _names(place)
    chains = [_chain(f"{place}/{name}", names) for name in names if not is_part(name)]
    earlier = dict(_SIGNS)
    _SIGNS.clear()
    for chain in filter(None, chains):
        key = chain[-1].token or chain[-1].path
        if key in earlier:
            _SIGNS[key] = earlier[key]
        _is_stale(chain[-1])


def _file_time(place: Path) -> float:
    """The present time by the clock that stamps files in a folder."""
    try:
        os.utime(place)
        return os.stat(place).st_mtime
    except OSError:  # a store that may only be read
        return time.time()
