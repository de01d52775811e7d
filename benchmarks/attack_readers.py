"""Which files does the package read, and by which call? Valid samples of each, and the reading of them."""

from __future__ import annotations

import importlib.util
import io
import json
import lzma
import shutil
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attack_studies as studies
import numpy as np
from attack_samples import ROOT, of_tests, sentences, table, tagged

TREES = "( (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)) )\n" * 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """
    A reader of files under attack.

    Parameters
    ----------
    name : str
    make : callable
        Writes valid files into a folder, from the folder of the samples.
    read : callable
        Reads everything there.
    files : tuple of str
        Patterns of the files that are changed.
    needs : tuple of str
        Packages without which it is left out.
    often : int
        How many cases it gets in a turn; those that are slow get one.
    """

    name: str
    make: Callable[[Path, Path], object]
    read: Callable[[Path], object]
    files: tuple[str, ...] = ("*",)
    needs: tuple[str, ...] = ()
    often: int = 8

    @property
    def missing(self) -> tuple[str, ...]:
        """Packages that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


def _copied(source: str, names: Iterable[str] = ()) -> Callable[[Path, Path], object]:
    def make(good: Path, place: Path) -> None:
        shutil.copytree(good / source, place, dirs_exist_ok=True)
        for path in place.rglob("*"):
            if path.is_file() and names and path.name not in names:
                path.unlink()
            elif path.is_file():
                path.chmod(0o644)

    return make


def _written(**files: str | bytes) -> Callable[[Path, Path], object]:
    """Files by name; a double underscore in a name is a dot."""

    def make(good: Path, place: Path) -> None:
        place.mkdir(parents=True)
        for name, content in files.items():
            target = place / name.replace("__", ".")
            target.write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def _layers(place: Path) -> None:
    from microtome.store.formats import open_layers

    for file in sorted(place.iterdir()):
        for layer in open_layers(file):
            layer.take([0, 1])
            layer.rows(0, 2)


def _make_layers(good: Path, place: Path) -> None:
    from safetensors.numpy import save_file

    place.mkdir(parents=True)
    shutil.copy(good / "a.npy", place / "a.npy")
    rows = np.load(good / "a.npy").astype(np.float32)
    save_file({f"layer{k}": rows[k] for k in range(3)}, place / "b.safetensors")


def _recorded(place: Path) -> None:
    import microtome as mt
    from microtome.extraction.recording import read_grouping

    read_grouping(place)
    mt.similarity_matrix(str(place))


def _make_recorded(good: Path, place: Path) -> None:
    import microtome as mt

    recorded: Any = mt.extract(mt.load(good / "bert"), str(good / "lines.txt"), store=place.parent / "shelf")
    shutil.copytree(recorded.folder, place)


def _store(place: Path) -> None:
    from microtome.store.shelf import Shelf

    shelf = Shelf(place)
    shelf.verify()
    list(shelf.entries())


def _make_store(good: Path, place: Path) -> None:
    from microtome.store.shelf import Shelf

    shelf = Shelf(place)
    for number in range(2):
        shelf.put(
            lambda folder: (folder / "a.json").write_text("{}"), kind="map", specification={"number": number}
        )


def _opened(place: Path) -> None:
    import microtome as mt

    opened: Any = mt.open(place)
    if hasattr(opened, "table"):
        opened.table()


def _reported(place: Path) -> None:
    import microtome as mt

    mt.report(place, place.parent / "page.html")


def _tuned(place: Path) -> None:
    import microtome as mt

    own: Any = mt.task(place.parent / "mine", text="words", label="mood")
    mt.open_tuned(place, own)


def _make_tuned(good: Path, place: Path) -> None:
    _copied("results/finetune/seed-1")(good, place)
    shutil.copytree(good / "mine", place.parent / "mine", dirs_exist_ok=True)


def _task(**own: Any) -> Callable[[Path], object]:
    def read(place: Path) -> None:
        import microtome as mt

        found: Any = mt.task(place, **own)
        for split in found.splits:
            found.split(split)

    return read


def _card(place: Path) -> None:
    import microtome as mt

    found: Any = mt.task(place / "sst2.toml", data=place / "data")
    for split in found.splits:
        found.split(split)


def _make_card(good: Path, place: Path) -> None:
    task_samples = of_tests("task_samples")
    task_samples.write_files("sst2", place / "data")
    shutil.copy(ROOT / "src" / "microtome" / "tasks" / "cards" / "sst2.toml", place)


def _known_tasks(place: Path) -> None:
    import microtome as mt

    for folder in sorted(place.iterdir()):
        if folder.name != CURRENT.get("folder", folder.name):
            continue
        found: Any = mt.task(folder.name, data=folder)
        for split in found.splits:
            found.split(split)


# The folder of the file that is changed, where a reader has many and need not read all.
CURRENT: dict[str, str] = {}


def _make_known(good: Path, place: Path) -> None:
    task_samples = of_tests("task_samples")
    for name in task_samples.SAMPLES:
        task_samples.write_files(name, place / name)


def _corpora(place: Path) -> None:
    import microtome as mt

    for path in sorted(place.iterdir()):
        if path.name == CURRENT.get("folder", path.name):
            for _ in mt.corpus(path):
                pass


def _make_corpora(good: Path, place: Path) -> None:
    place.mkdir(parents=True)
    lines = "\n".join(sentences(20, "readers")) + "\n"
    (place / "a.txt").write_text(lines)
    (place / "b.txt.xz").write_bytes(lzma.compress(lines.encode()))
    (place / "c.conllu").write_text(tagged(6))
    (place / "d.mrg").write_text(TREES)
    (place / "e.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines.splitlines()))
    (place / "f.csv").write_text("text,other\n" + "".join(f"{line},1\n" for line in lines.splitlines()))
    (place / "g.tsv").write_text("text\tother\n" + "".join(f"{line}\t1\n" for line in lines.splitlines()))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in ("a.txt", "h.txt"):
            member = tarfile.TarInfo(name)
            member.size = len(lines.encode())
            archive.addfile(member, io.BytesIO(lines.encode()))
    (place / "h.tgz").write_bytes(out.getvalue())


def _model(place: Path) -> None:
    import microtome as mt

    encoder: Any = mt.load(place)
    encoder.run(encoder.texts([("the cat sleeps", None), ("a short one", None)]), lambda layer, states: None)


def _make_sentence(good: Path, place: Path) -> None:
    shutil.copytree(good / "bert", place)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (place / "modules.json").write_text(json.dumps(modules))
    (place / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')


def _make_elmo(good: Path, place: Path) -> None:
    of_tests("encoders.elmo.written").write_lstm(place)


def _make_transformer_elmo(good: Path, place: Path) -> None:
    of_tests("encoders.elmo.written").write_transformer(place)


def _series(place: Path) -> None:
    import microtome as mt
    from microtome.experiments.change.checkpoints import find_checkpoints

    mt.series(place)
    find_checkpoints(place)


def _spans(place: Path) -> None:
    from microtome.probes.targets import read_target

    read_target(place, "entities")


def _make_spans(good: Path, place: Path) -> None:
    place.mkdir(parents=True)
    lines = [
        json.dumps({"text": "the cat sleeps", "targets": [{"span1": [0, 2], "label": "A" if k % 2 else "B"}]})
        for k in range(12)
    ]
    for name in ("train", "validation"):
        (place / f"{name}.jsonl").write_text("\n".join([*lines, ""]))


def _clusters(place: Path) -> None:
    import microtome as mt

    rows = np.arange(480.0).reshape(60, 8) % 7
    mt.similarity_matrix([rows, rows[:, :5]], clusters=str(place / "clusters.npy"))


def _make_clusters(good: Path, place: Path) -> None:
    place.mkdir(parents=True)
    np.save(place / "clusters.npy", np.arange(60) // 3)


_JSONL = "".join(
    json.dumps({"words": f"the cat {k}", "mood": "up" if k % 2 else "down"}) + "\n" for k in range(20)
)
_TSV = table(20).replace(",", "\t")
_OWN = {"text": "words", "label": "mood"}
READERS: tuple[Reader, ...] = (
    Reader(name="layers (.npy, .safetensors)", make=_make_layers, read=_layers),
    Reader(name="recorded layers (manifest, shards, rows)", make=_make_recorded, read=_recorded),
    Reader(name="clusters (.npy)", make=_make_clusters, read=_clusters),
    Reader(name="store (entry.json, format.json)", make=_make_store, read=_store, files=("**/*.json",)),
    Reader(
        name="maps (result.json, table.parquet)",
        make=_copied("results/compare", ("result.json", "table.parquet")),
        read=_opened,
    ),
    Reader(
        name="results (result.json, table.parquet)",
        make=_copied("results/skip", ("result.json", "table.parquet")),
        read=_opened,
    ),
    Reader(
        name="report of a folder",
        make=_copied("results", ("result.json", "table.parquet")),
        read=_reported,
        files=("*/result.json", "*/table.parquet"),
        often=1,
    ),
    Reader(name="fine-tuned model (run.json, ...)", make=_make_tuned, read=_tuned, often=1),
    Reader(name="task card (.toml)", make=_make_card, read=_card, files=("*.toml",)),
    Reader(
        name="own table (.csv)",
        make=_written(train__csv=table(20), validation__csv=table(9)),
        read=_task(**_OWN),
    ),
    Reader(name="own table (.tsv)", make=_written(train__tsv=_TSV, validation__tsv=_TSV), read=_task(**_OWN)),
    Reader(
        name="own table (.jsonl)",
        make=_written(train__jsonl=_JSONL, validation__jsonl=_JSONL),
        read=_task(**_OWN),
    ),
    Reader(name="files of known tasks", make=_make_known, read=_known_tasks, files=("**/*",)),
    Reader(name="corpora (text, CoNLL-U, trees, tables, packed)", make=_make_corpora, read=_corpora),
    Reader(name="targets of spans (.jsonl)", make=_make_spans, read=_spans),
    Reader(name="model folder", make=_copied("bert"), read=_model, often=2),
    Reader(name="decoder folder", make=_copied("gpt2"), read=_model, often=1),
    Reader(
        name="sentence encoder folder",
        make=_make_sentence,
        read=_model,
        files=("modules.json", "sentence_bert_config.json", "1_Pooling/*"),
        often=1,
    ),
    Reader(name="ELMo (options, hdf5)", make=_make_elmo, read=_model, needs=("h5py",), often=2),
    Reader(name="Transformer ELMo (config, weights)", make=_make_transformer_elmo, read=_model, often=2),
    Reader(
        name="study (.toml)",
        make=studies.make_paper,
        read=studies.read_study,
        files=("study.toml",),
        often=4,
    ),
    Reader(
        name="claims of a study (.toml)",
        make=studies.make_claims,
        read=studies.read_claims,
        files=("claims.toml",),
        often=2,
    ),
    Reader(
        name="report of a study (study.json, results, scoreboard)",
        make=studies.make_report,
        read=studies.read_report,
        files=("study.json", "scoreboard/scoreboard.json", "**/result.json", "**/table.parquet"),
        often=1,
    ),
    Reader(
        name="series of checkpoints", make=_copied("zoo"), read=_series, files=("*.json", "*/*.json"), often=2
    ),
)
