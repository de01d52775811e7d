"""Modules of microtome that one command passes through: how far its code is spread.

    PYTHONPATH=src python benchmarks/walks.py compare zoo:masked zoo:replaced --on corpus.txt --rows word

Runs the command line that follows and counts the modules of microtome in which a function was called, and how
often the calls of the main thread went from one package to another. What is only imported does not count, nor
what a module calls while it is imported. Run it with another PYTHONPATH to measure another version in the
same way.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

# Functions of these are called from everywhere and say nothing of where a command leads.
HELPERS = {"errors", "checks", "arguments", "randomness", "rounding", "runtime", "version", "__init__"}


def main(words: list[str]) -> int:
    import microtome
    from microtome.cli import main as run

    root = Path(microtome.__file__).parent
    calls: Counter[str] = Counter()
    state = {"package": "", "changes": 0, "imports": 0}
    names: dict[str, str | None] = {}

    def name_of(file: str) -> str | None:
        path = Path(file)
        if not path.is_relative_to(root):
            return None
        parts = path.relative_to(root).with_suffix("").parts
        return None if parts[-1] in HELPERS else ".".join(parts)

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == "<module>" and event in ("call", "return"):
            state["imports"] += 1 if event == "call" else -1
        if event != "call" or state["imports"] or code.co_name in ("<module>", "<lambda>", "__getattr__"):
            return
        if code.co_filename not in names:
            names[code.co_filename] = name_of(code.co_filename)
        module = names[code.co_filename]
        # The body of a class is a call too, made while its module is imported.
        if module is None or not code.co_flags & 0x1:
            return
        calls[module] += 1
        package = module.split(".")[0]
        if threading.current_thread() is threading.main_thread() and package != state["package"]:
            state["package"], state["changes"] = package, state["changes"] + 1

    sys.argv = ["microtome", *words]
    sys.setprofile(profile)
    threading.setprofile(profile)
    try:
        code = run()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.setprofile(None)
    packages = Counter(module.split(".")[0] for module in calls)
    print(f"exit code {code or 0}; {len(calls)} modules of {len(packages)} packages", file=sys.stderr)
    print(", ".join(f"{name} {count}" for name, count in packages.most_common()), file=sys.stderr)
    return int(bool(code))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
