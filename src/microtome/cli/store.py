"""The verbs `store ls|show|verify|rm|gc`: list, check and clear the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..errors import must
from ..options import option
from .show import Columns, JsonOption, QuietOption, Table, picked, table
from .tools import Tool

if TYPE_CHECKING:
    from ..store.entry import StoreEntry
    from ..store.shelf import Shelf

ADDRESS = "Of an entry, or its beginning"


@dataclass(frozen=True, kw_only=True)
class StoreTool(JsonOption, Tool):
    """A command on a store."""

    store: Path | None = option(
        "Folder of the store; MICROTOME_STORE or microtome in the cache folder when absent.",
        None,
        metavar="DIR",
        read=Path,
    )

    def opened(self) -> Shelf:
        """The store, which must exist where it is named: a misspelled one must not look like an empty one."""
        from ..store.shelf import Shelf

        if self.store is not None and not self.store.expanduser().is_dir():
            raise must("--store", "a folder that exists", str(self.store))
        return Shelf(self.store)

    def show(self, name: str, shelf: Shelf, content: Mapping[str, Any], *tables: Table) -> None:
        """Print what a command found or did in a store."""
        head = {"format": f"microtome/store-{name}/1", "store": str(shelf.root)}
        self.screen.listing({**head, **content}, *tables)


@dataclass(frozen=True, kw_only=True)
class DryRunOption:
    """The option to change nothing."""

    dry_run: bool = option("Print what would be removed, and stop.", False)


@dataclass(frozen=True, kw_only=True)
class StoreLs(StoreTool):
    """List the entries, the newest last, and work that is not finished."""

    def run(self, context: Context) -> None:
        """Print the entries."""
        shelf = self.opened()
        entries = sorted(shelf.entries(), key=lambda entry: (entry.created, entry.address))
        partial, broken, damaged = shelf.partial(), len(shelf.addresses()) - len(entries), shelf.damaged()
        content = {
            "entries": [_entry(entry) for entry in entries],
            "unreadable": broken,
            "damaged": damaged,
            "partial": [picked(work, "address", "bytes", "running", "resumable") for work in partial],
        }
        total = size(sum(entry.bytes for entry in entries))
        notes = [f"{shelf.root}: {_count(len(entries), 'entry', 'entries')}, {total}."]
        if broken > 0:
            unreadable = _count(broken, "entry", "entries")
            notes.append(f"{unreadable} cannot be read; microtome store verify says why.")
        if damaged:
            aside = _count(len(damaged), "damaged entry", "damaged entries")
            notes.append(f"{aside} set aside; store gc removes them.")
        for work in partial:
            state = "running" if work.running else "interrupted" if work.resumable else "abandoned"
            notes.append(f"Not finished: {work.address}, {size(work.bytes)}, {state}.")
        columns: Columns = {
            "address": lambda entry: entry.address,
            "kind": lambda entry: entry.kind,
            "created": lambda entry: f"{entry.created:%Y-%m-%d %H:%M}",
            "files": lambda entry: str(len(entry.files)),
            "size": lambda entry: size(entry.bytes),
        }
        self.show("ls", shelf, content, table(entries, columns, notes))


@dataclass(frozen=True, kw_only=True)
class StoreShow(StoreTool):
    """Show the specification of an entry, how it was made, and its files."""

    address: str = option(f"{ADDRESS}.", argument=True, metavar="ADDRESS")

    def run(self, context: Context) -> None:
        """Print the entry."""
        from json import dumps

        shelf = self.opened()
        entry = shelf.look(shelf.find(self.address))
        if entry is None:
            raise must("address", "that of an entry that stays", self.address)
        files = sorted(entry.files.items())
        document = {
            "format": "microtome/store-show/1",
            **picked(entry, "address", "kind", "inputs"),
            "specification": dict(entry.specification),
            "provenance": dict(entry.provenance),
            "files": {name: picked(mark, "bytes", "blake2b") for name, mark in files},
            "folder": str(entry.folder),
        }
        facts = {name: document[name] for name in ("address", "kind", "folder")}
        facts |= dict(entry.provenance)
        facts |= {
            f"specification: {name}": dumps(value) for name, value in sorted(entry.specification.items())
        }
        rows = [[name, fact if isinstance(fact, str) else dumps(fact)] for name, fact in facts.items()]
        rows += [["made from", source] for source in entry.inputs]
        marks = [[name, size(mark.bytes), mark.blake2b] for name, mark in files]
        self.screen.listing(document, (["fact", "value"], rows, []), (["file", "size", "blake2b"], marks, []))


@dataclass(frozen=True, kw_only=True)
class StoreVerify(QuietOption, StoreTool):
    """Compare every file with its checksum; exit with 1 if something is wrong."""

    address: str | None = option(f"{ADDRESS}; all when absent.", None, argument=True, metavar="ADDRESS")

    def run(self, context: Context) -> None:
        """Print the problems."""
        import typer

        shelf = self.opened()
        selected = None if self.address is None else shelf.find(self.address)
        checked = len(shelf.addresses()) if selected is None else 1
        with self.screen.working() as progress:
            problems = shelf.verify(selected, progress=progress)
        content = {"address": selected, "checked": checked, "problems": problems}
        summary = _count(len(problems), "problem", "problems") if problems else "all is as it was written"
        notes = [*problems, f"{_count(checked, 'entry', 'entries')} checked: {summary}."]
        self.show("verify", shelf, content, ([], [], notes))
        if problems:
            raise typer.Exit(1)


@dataclass(frozen=True, kw_only=True)
class StoreRm(DryRunOption, StoreTool):
    """Remove entries, also those whose record cannot be read; what needs one computes it again."""

    addresses: Sequence[str] = option(
        "Of entries, or their beginnings.", argument=True, repeated=True, metavar="ADDRESS..."
    )

    def run(self, context: Context) -> None:
        """Remove the entries, and print their addresses."""
        shelf = self.opened()
        selected = list(dict.fromkeys(shelf.find(address) for address in self.addresses))
        removed = [address for address in selected if self.dry_run or shelf.remove(address)]
        verb = "Would remove" if self.dry_run else "Removed"
        notes = [*removed, f"{verb} {_count(len(removed), 'entry', 'entries')}."]
        content = {"dry_run": self.dry_run, "removed": removed}
        self.show("rm", shelf, content, ([], [], notes))


@dataclass(frozen=True, kw_only=True)
class StoreGc(DryRunOption, StoreTool):
    """Remove what nobody can use any more, and on request what is old."""

    older_than: float | None = option(
        "Remove entries that were made longer ago.", None, least=0, metavar="DAYS"
    )
    keep: Sequence[str] = option(
        "Kind of entries to keep. May be repeated.", (), repeated=True, metavar="KIND"
    )
    partial: bool = option("Remove interrupted work that could be resumed, too.", False)
    grace: float = option(
        "What was made, changed or read within this many hours stays.", 24.0, least=0, metavar="HOURS"
    )

    def run(self, context: Context) -> None:
        """Remove, and print what."""
        shelf = self.opened()
        swept = shelf.gc(
            older_than_days=self.older_than,
            keep=self.keep,
            partial=self.partial,
            dry_run=self.dry_run,
            grace_hours=self.grace,
        )
        removed = [asdict(entry) for entry in swept.removed]
        content = {"dry_run": self.dry_run, "removed": removed, **picked(swept, "bytes", "young")}
        verb = "Would remove" if self.dry_run else "Removed"
        note = f"{verb} {_count(len(swept.removed), 'thing', 'things')}, {size(swept.bytes)}."
        if swept.young:
            young, stay = _count(swept.young, "thing", "things"), "stays" if swept.young == 1 else "stay"
            note += (
                f" {young} made, changed or read within {self.grace:g} hours {stay}; --grace 0 would remove "
                "them, too."
            )
        columns: Columns = {
            "what": "what",
            "address": "name",
            "kind": "kind",
            "size": lambda entry: size(entry["bytes"]),
        }
        self.show("gc", shelf, content, table(removed, columns, [note]))


STORE: Mapping[str, type[Tool]] = MappingProxyType(
    {"ls": StoreLs, "show": StoreShow, "verify": StoreVerify, "rm": StoreRm, "gc": StoreGc}
)


def size(count: int) -> str:
    """
    Write a number of bytes so that it can be read.

    Examples
    --------
    >>> size(12), size(1_234_567)
    ('12 B', '1.2 MB')
    """
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 999.5:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def _entry(entry: StoreEntry) -> dict[str, Any]:
    made = {name: entry.provenance.get(name) for name in ("created", "seconds")}
    return {**picked(entry, "address", "kind", "bytes"), "files": len(entry.files), **made}


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"
