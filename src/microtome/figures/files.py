"""Files of figures: written reproducibly and atomically, in place of those of an earlier result only."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import WorkError, must
from ..store.files import write_whole
from .captions import root_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg", "pdf")
# Creator tag of each file format.
CREATOR = "microtome"
_MARKS = {
    ".png": f"Creator\0{CREATOR}".encode(),
    ".svg": f"<dc:title>{CREATOR}</dc:title>".encode(),
    ".pdf": f"/Creator ({CREATOR})".encode(),
}


def remove_earlier(folder: Path, new: Iterable[Path]) -> tuple[Path, ...]:
    """
    Remove the figures in a folder that microtome wrote earlier, and no other file.

    Parameters
    ----------
    folder : Path
        It need not exist.
    new : iterable of Path
        New figures, which are not removed.

    Returns
    -------
    tuple of Path
        The removed files.
    """
    paths = set(folder.iterdir()) if folder.is_dir() else set()
    old = [path for path in sorted(paths - set(new)) if is_ours(path)]
    for path in old:
        path.unlink()
    return tuple(old)


def is_foreign(path: Path) -> bool:
    """Whether a path holds a file that microtome did not write; warns that it is not replaced."""
    if not os.path.lexists(path) or is_ours(path):
        return False
    warnings.warn(f"{path} was not drawn by microtome and stays; no picture replaces it.", stacklevel=2)
    return True


def save_figure(axes: Axes, path: Path, *, dpi: float = 200, box: Any = "tight") -> None:
    """
    Write the figure of some axes in the format of the file suffix, without a timestamp, and atomically.

    A partial file of an interrupted run would lack the creator tag and count as foreign.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    path : Path
    dpi : float
        Of a PNG.
    box : "tight" or Bbox
        The part of the figure that is written, in inches.
    """
    import matplotlib as mpl

    if is_foreign(path):
        return
    dates: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    kind, content = path.suffix[1:], io.BytesIO()
    metadata = {"Creator": CREATOR, **dates.get(kind, {})}
    settings: Any = {"svg.hashsalt": "microtome", "pdf.fonttype": 42}
    with mpl.rc_context(settings), warnings.catch_warnings():
        # Names in a script that the font lacks are drawn as boxes; a warning would not help the user.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        root_figure(axes).savefig(
            content, format=kind, dpi=dpi, bbox_inches=box, pad_inches=0.06, metadata=metadata
        )
    write_whole(path, [content.getvalue()])


def save_all(
    folder: str | os.PathLike[str], formats: Sequence[str], drawings: Mapping[str, Callable[[], Axes]]
) -> tuple[Path, ...]:
    """
    Write figures into a folder, which is created if it does not exist.

    Parameters
    ----------
    folder : path
    formats : sequence of str
        Of "png", "svg" and "pdf".
    drawings : mapping of str to callable
        By the name of the file; each draws one figure.

    Returns
    -------
    tuple of Path
    """
    for kind in formats:
        if kind not in FORMATS:
            raise must("formats", f"among {', '.join(FORMATS)}", kind)
    target, written = Path(folder), []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for stem, draw in zip(file_stems(list(drawings)), drawings.values(), strict=True):
            axes = draw()
            for kind in formats:
                save_figure(axes, target / f"{stem}.{kind}")
                written.append(target / f"{stem}.{kind}")
    except OSError as error:
        raise WorkError(f"figures must be written to a writable folder, but got: {error}.") from error
    return tuple(written)


def file_stems(measures: Sequence[str]) -> list[str]:
    """
    Convert names of measures to distinct file names.

    Examples
    --------
    >>> file_stems(["svcca", "svcca:threshold=0.9"])
    ['svcca', 'svcca_threshold-0.9']
    """
    stems: list[str] = []
    for measure in measures:
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", measure.replace("=", "-")).strip(".") or "map"
        free = stem
        while free.lower() in (used.lower() for used in stems):
            free = f"{stem}_{len(stems)}"
        stems.append(free)
    return stems


def is_ours(path: Path) -> bool:
    """Whether a path holds a figure that microtome wrote."""
    mark = _MARKS.get(path.suffix)
    return mark is not None and path.is_file() and not path.is_symlink() and mark in path.read_bytes()
