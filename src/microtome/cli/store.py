"""The verbs `store ls|show|verify|rm|gc`: list, check and clear the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .parsing import Verb
from .show import JsonOption, QuietOption, Screen

if TYPE_CHECKING:
    from ..store.entry import StoreEntry
    from ..store.shelf import Shelf

StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="The store; else MICROTOME_STORE, else microtome in the cache folder.",
        show_default=False,
    ),
]
AddressArgument = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="Of an entry, or its beginning.", show_default=False)
]

DryRunOption = Annotated[bool, typer.Option("--dry-run", metavar="", help="Say what would go, and stop.")]

store = typer.Typer(name="store", help="Look after finished work: list, show, check, clear.")


@store.callback(no_args_is_help=True)
def _start() -> None:
    """Look after finished work: list, show, check, clear."""


@store.command(cls=Verb)
def ls(store: StoreOption = None, json: JsonOption = False) -> None:
    """List the entries, the newest last, and work that is not finished."""
    shelf, screen = _open(store), Screen(json=json)
    entries = sorted(shelf.entries(), key=lambda entry: (entry.created, entry.address))
    partial, broken = shelf.partial(), len(shelf.addresses()) - len(entries)
    if json:
        document = {
            "format": "microtome/store-ls/1",
            "store": str(shelf.root),
            "entries": [_summary(entry) for entry in entries],
            "unreadable": broken,
            "damaged": shelf.damaged(),
            "partial": [
                {
                    "address": work.address,
                    "bytes": work.bytes,
                    "running": work.running,
                    "resumable": work.resumable,
                }
                for work in partial
            ],
        }
        screen.result(document, "")
        return
    total = sum(entry.bytes for entry in entries)
    notes = [f"{shelf.root}: {_count(len(entries), 'entry', 'entries')}, {size(total)}."]
    if broken > 0:
        unreadable = _count(broken, "entry", "entries")
        notes.append(f"{unreadable} cannot be read; microtome store verify says why.")
    if damaged := len(shelf.damaged()):
        notes.append(
            f"{_count(damaged, 'damaged entry', 'damaged entries')} set aside; store gc removes them."
        )
    for work in partial:
        state = "running" if work.running else "interrupted" if work.resumable else "abandoned"
        notes.append(f"Not finished: {work.address}, {size(work.bytes)}, {state}.")
    if not entries:
        screen.sentences(notes)
        return
    screen.rows(
        ["address", "kind", "created", "files", "size"],
        [
            [
                entry.address,
                entry.kind,
                f"{entry.created:%Y-%m-%d %H:%M}",
                str(len(entry.files)),
                size(entry.bytes),
            ]
            for entry in entries
        ],
        notes,
    )


@store.command(cls=Verb, no_args_is_help=True)
def show(address: AddressArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    """Show what was asked for in an entry, how it was made, and its files."""
    from json import dumps

    shelf, screen = _open(store), Screen(json=json)
    entry = shelf.look(shelf.find(address))
    if entry is None:
        from ..errors import must

        raise must("address", "that of an entry that stays", address)
    if json:
        screen.result(_document(entry), "")
        return
    facts = {"address": entry.address, "kind": entry.kind, "folder": str(entry.folder), **entry.provenance}
    lines = [[name, value if isinstance(value, str) else dumps(value)] for name, value in facts.items()]
    lines += [[f"asked for {name}", dumps(value)] for name, value in sorted(entry.specification.items())]
    lines += [["made from", source] for source in entry.inputs]
    screen.rows(["fact", "value"], lines, [""])
    screen.rows(
        ["file", "size", "blake2b"],
        [[name, size(mark.bytes), mark.blake2b] for name, mark in sorted(entry.files.items())],
    )


@store.command(cls=Verb)
def verify(
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="ADDRESS", help="Of an entry, or its beginning; all when absent.", show_default=False
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare every file with its checksum; exit with 1 if something is wrong."""
    shelf, screen = _open(store), Screen(json=json, quiet=quiet)
    selected = None if address is None else shelf.find(address)
    checked = len(shelf.addresses()) if selected is None else 1
    with screen.working() as progress:
        problems = shelf.verify(selected, progress=progress)
    if json:
        document = {"format": "microtome/store-verify/1", "store": str(shelf.root), "address": selected}
        screen.result({**document, "checked": checked, "problems": problems}, "")
    else:
        summary = _count(len(problems), "problem", "problems") if problems else "all is as it was written"
        screen.sentences([*problems, f"{_count(checked, 'entry', 'entries')} checked: {summary}."])
    if problems:
        raise typer.Exit(1)


@store.command(cls=Verb, no_args_is_help=True)
def rm(
    addresses: Annotated[
        list[str],
        typer.Argument(metavar="ADDRESS...", help="Of entries, or their beginnings.", show_default=False),
    ],
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Remove entries, also those whose record cannot be read; what needs one computes it again."""
    shelf, screen = _open(store), Screen(json=json)
    selected = list(dict.fromkeys(shelf.find(address) for address in addresses))
    removed = [address for address in selected if dry_run or shelf.remove(address)]
    if json:
        document = {"format": "microtome/store-rm/1", "store": str(shelf.root), "dry_run": dry_run}
        screen.result({**document, "removed": removed}, "")
        return
    verb = "Would remove" if dry_run else "Removed"
    screen.sentences([*removed, f"{verb} {_count(len(removed), 'entry', 'entries')}."])


@store.command(cls=Verb)
def gc(
    older_than: Annotated[
        float | None,
        typer.Option(metavar="DAYS", help="Remove entries that were made longer ago.", show_default=False),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="A kind of entries that stays; may be given again."),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", metavar="", help="Remove interrupted work that could be taken up, too."),
    ] = False,
    grace: Annotated[
        float,
        typer.Option(metavar="HOURS", help="What was made, changed or read within this many hours stays."),
    ] = 24,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Remove what nobody can use any more, and on request what is old."""
    from ..errors import must

    if older_than is not None and not 0 <= older_than < float("inf"):
        raise must("--older-than", "a number of days, at least 0", older_than)
    if not 0 <= grace < float("inf"):
        raise must("--grace", "a number of hours, at least 0", grace)
    shelf, screen = _open(store), Screen(json=json)
    swept = shelf.gc(
        older_than_days=older_than, keep=keep or (), partial=partial, dry_run=dry_run, grace_hours=grace
    )
    if json:
        document: dict[str, Any] = {
            "format": "microtome/store-gc/1",
            "store": str(shelf.root),
            "dry_run": dry_run,
            "removed": [
                {
                    "what": removed_entry.what,
                    "name": removed_entry.name,
                    "kind": removed_entry.kind,
                    "bytes": removed_entry.bytes,
                }
                for removed_entry in swept.removed
            ],
            "bytes": swept.bytes,
            "young": swept.young,
        }
        screen.result(document, "")
        return
    verb = "Would remove" if dry_run else "Removed"
    note = f"{verb} {_count(len(swept.removed), 'thing', 'things')}, {size(swept.bytes)}."
    if swept.young:
        stay = "stays" if swept.young == 1 else "stay"
        note += (
            f" {_count(swept.young, 'thing', 'things')} made, changed or read within {grace:g} hours "
            f"{stay}; --grace 0 would remove them, too."
        )
    if not swept.removed:
        screen.sentences([note])
        return
    screen.rows(
        ["what", "address", "kind", "size"],
        [
            [removed_entry.what, removed_entry.name, removed_entry.kind, size(removed_entry.bytes)]
            for removed_entry in swept.removed
        ],
        [note],
    )


def _open(folder: Path | None) -> Shelf:
    from ..errors import must
    from ..store.shelf import Shelf

    if folder is not None and not folder.expanduser().is_dir():
        # A misspelled store must not look like an empty one.
        raise must("--store", "a folder that exists", str(folder))
    return Shelf(folder)


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


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"


def _summary(entry: StoreEntry) -> dict[str, Any]:
    return {
        "address": entry.address,
        "kind": entry.kind,
        "created": entry.provenance["created"],
        "seconds": entry.provenance.get("seconds"),
        "files": len(entry.files),
        "bytes": entry.bytes,
    }


def _document(entry: StoreEntry) -> dict[str, Any]:
    return {
        "format": "microtome/store-show/1",
        "address": entry.address,
        "kind": entry.kind,
        "specification": dict(entry.specification),
        "inputs": list(entry.inputs),
        "provenance": dict(entry.provenance),
        "files": {name: {"bytes": mark.bytes, "blake2b": mark.blake2b} for name, mark in entry.files.items()},
        "folder": str(entry.folder),
    }
