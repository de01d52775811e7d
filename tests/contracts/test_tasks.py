from __future__ import annotations

import gzip
import lzma
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from microtome.tasks.loading import task
from microtome.tasks.table import TASKS
from microtome.tasks.task import Item
from task_samples import SAMPLES, write_files, write_hub

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shared() -> Path:
    folder = Path(os.environ.get("MICROTOME_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"there is no real data at {folder}; MICROTOME_SHARED says where it is")
    return folder


def test_every_card_has_a_sample() -> None:
    assert set(SAMPLES) == set(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_what_a_card_says(name: str) -> None:
    from microtome.scores.table import SCORES

    card = TASKS[name]
    assert card.name == name
    assert len(set(card.labels)) == len(card.labels)
    for score in card.scores:
        assert card.kind in SCORES[score].kinds
    assert set(card.main) <= set(card.scores)
    assert card.validation in card.local.files
    assert set(card.sizes) <= set(card.local.files)
    assert set(card.hidden) <= set(card.local.files)
    assert card.hub is not None
    assert set(card.hub.splits) == set(card.local.files)
    # A commit is cited with the source of the columns, and none is made up.
    assert card.hub.source.startswith("https://github.com/huggingface/datasets/blob/")
    assert not card.pinned or card.hub.revision in card.hub.source


def fits(item: Item, kind: str, labels: int) -> bool:
    target = item.target
    if target is None:
        return True
    checks: dict[str, Any] = {
        "classification": lambda: 0 <= target < labels and len(item.texts) in (1, 2),
        "regression": lambda: isinstance(target, float),
        "multiple_choice": lambda: 0 <= target < len(item.choices),
        "span": lambda: all(item.texts[1][s : s + len(t)] == t for s, t in target),
        "tagging": lambda: len(target) == len(item.words) and all(0 <= t < labels for t in target),
        "parsing": lambda: (
            len(target) == len(item.words)
            and all(0 <= h <= len(item.words) and 0 <= r < labels for h, r in target)
        ),
    }
    return checks[kind]()


@pytest.mark.parametrize("name", TASKS)
def test_files_and_hub_are_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    local = task(name, data=write_files(name, tmp_path / "files"))
    hub = task(name, data=f"hub:{write_hub(name, tmp_path / 'hub')}")
    sample = SAMPLES[name]()
    assert set(local.splits) == set(hub.splits) == set(sample.targets)
    assert local.labels == hub.labels
    for split, targets in sample.targets.items():
        ours, theirs = local.split(split), hub.split(split)
        assert [item.target for item in ours] == targets
        assert ours.items == theirs.items
        assert ours.digest == theirs.digest
        assert all(fits(item, local.kind, len(local.labels)) for item in ours)
    assert local.digest(*sample.targets) == hub.digest(*sample.targets)


@pytest.mark.parametrize("name", TASKS)
def test_packed_files_and_the_folder_itself(name: str, tmp_path: Path) -> None:
    plain = task(name, data=write_files(name, tmp_path / "files"))
    folder = tmp_path / "packed"
    folder.mkdir()
    for number, (file, content) in enumerate(SAMPLES[name]().files.items()):
        pack, ending = ((lzma.compress, ".xz"), (gzip.compress, ".gz"))[number % 2]
        (folder / f"{file}{ending}").write_bytes(pack(content.encode()))
    packed = task(name, data=folder)
    assert packed.splits == plain.splits
    for split in plain.splits:
        assert packed.split(split).items == plain.split(split).items


# Counts of the real files: examples, and labels by name or right choices by place, of each split.
REAL: dict[str, dict[str, tuple[int, dict[Any, int] | None]]] = {
    "cola": {
        "train": (8551, {"acceptable": 6023, "unacceptable": 2528}),
        "validation": (1043, {"acceptable": 721, "unacceptable": 322}),
        "test": (1063, {None: 1063}),
    },
    "sst2": {
        "train": (67349, {"positive": 37569, "negative": 29780}),
        "validation": (872, {"positive": 444, "negative": 428}),
        "test": (1821, {None: 1821}),
    },
    "mrpc": {
        "train": (3668, {"equivalent": 2474, "not_equivalent": 1194}),
        "validation": (408, {"equivalent": 279, "not_equivalent": 129}),
        "test": (1725, {"equivalent": 1147, "not_equivalent": 578}),
    },
    "stsb": {"train": (5749, None), "validation": (1500, None), "test": (1379, {None: 1379})},
    "rte": {
        "train": (2490, {"entailment": 1249, "not_entailment": 1241}),
        "validation": (277, {"entailment": 146, "not_entailment": 131}),
        "test": (3000, {None: 3000}),
    },
    "wnli": {
        "train": (635, {"entailment": 312, "not_entailment": 323}),
        "validation": (71, {"entailment": 31, "not_entailment": 40}),
        "test": (146, {None: 146}),
    },
    "qnli": {
        "validation": (5463, {"entailment": 2702, "not_entailment": 2761}),
        "test": (5463, {None: 5463}),
    },
    "qqp": {
        "train": (23497, {"not_duplicate": 14750, "duplicate": 8747}),
        "validation": (4962, {"not_duplicate": 3461, "duplicate": 1501}),
    },
    "mnli": {
        "train": (23828, {"contradiction": 8648, "neutral": 8613, "entailment": 6567}),
        "validation": (1000, {"entailment": 373, "contradiction": 316, "neutral": 311}),
        "validation_mismatched": (1000, {"entailment": 346, "contradiction": 335, "neutral": 319}),
    },
    "boolq": {
        "train": (9427, {"yes": 5874, "no": 3553}),
        "validation": (3270, {"yes": 2033, "no": 1237}),
    },
    "hellaswag": {
        "train": (39905, {0: 9986, 1: 10031, 2: 9867, 3: 10021}),
        "validation": (10042, {0: 2515, 1: 2485, 2: 2584, 3: 2458}),
    },
    "cosmosqa": {"validation": (2985, {0: 744, 1: 729, 2: 761, 3: 751})},
    "socialiqa": {
        "train": (33410, {0: 11274, 1: 11176, 2: 10960}),
        "validation": (1954, {0: 643, 1: 654, 2: 657}),
    },
    "squad": {"train": (4330, None), "validation": (1190, None)},
    "squad2": {"validation": (6078, None)},
    "yelp": {
        "train": (4484, {"positive": 3299, "negative": 1185}),
        "test": (4455, {"positive": 3314, "negative": 1141}),
    },
    "ewt-parsing": {"train": (12544, None), "validation": (2001, None), "test": (2077, None)},
    "ewt-upos": {"train": (12544, None), "validation": (2001, None), "test": (2077, None)},
    "ewt-xpos": {"train": (12544, None), "validation": (2001, None), "test": (2077, None)},
    "semeval2010-8": {"train": (8000, None), "test": (2717, None)},
}


@pytest.mark.parametrize("name", REAL)
def test_real_files(name: str, shared: Path) -> None:
    loaded = task(name, data=shared)
    assert set(loaded.splits) == set(REAL[name])
    for split, (count, labels) in REAL[name].items():
        found = loaded.split(split)
        assert len(found) == count
        if labels is not None:
            names = [
                loaded.labels[i.target] if loaded.labels and i.target is not None else i.target for i in found
            ]
            assert Counter(names) == labels
        assert all(fits(item, loaded.kind, len(loaded.labels)) for item in found)
        published = TASKS[name].sizes.get(split)
        told = f"{count:,} of {published:,} published examples"
        assert (told in found.notes) == (published is not None and published != count)


def test_real_oddities(shared: Path) -> None:
    words = [
        sum(len(i.words) for i in task("ewt-upos", data=shared).split(s)) for s in ("train", "validation")
    ]
    assert words == [204577, 25147]
    stsb = task("stsb", data=shared)
    means = [sum(i.target for i in stsb.split(s)) / len(stsb.split(s)) for s in ("train", "validation")]
    assert means == pytest.approx([2.7010, 2.3639], abs=5e-5)
    semeval = task("semeval2010-8", data=shared)
    other = semeval.labels.index("Other")
    assert [sum(i.target == other for i in semeval.split(s)) for s in semeval.splits] == [1410, 454]
    assert all("<e1>" in i.texts[0] and "</e2>" in i.texts[0] for i in semeval.split("train"))
    squad2 = task("squad2", data=shared).split("validation")
    assert sum(not i.target for i in squad2) == 3168
    assert len(set(squad2.groups.tolist())) == 646
    assert len(set(task("mnli", data=shared).split("train").groups.tolist())) == 22260
    assert sum('"' in i.texts[0] + i.texts[1] for i in task("mrpc", data=shared).split("train")) > 169
    yelp = task("yelp", data=shared).split("train")
    assert not any("\\n" in i.texts[0] for i in yelp)


def test_preprocessed_and_original_contexts_are_not_mixed(shared: Path) -> None:
    loaded = task("hellaswag", data=shared)
    held = loaded.split("validation").items[0]
    assert held.choices[0] == ("A man is sitting on a roof. He", "is using wrap to wrap a pair of skis.")
    assert not any("[title]" in "".join(c) for i in loaded.split("validation") for c in i.choices)
    assert any("preprocessed" in note for note in loaded.split("validation").notes)


@pytest.mark.slow
def test_a_lone_text_is_cut_into_documents(shared: Path) -> None:
    loaded = task("language-modeling", data=shared)
    assert loaded.splits == ("train", "validation", "test")
    assert sum(len(loaded.split(s)) for s in loaded.splits) == 206650
    groups = [{i.group for i in loaded.split(s)} for s in loaded.splits]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 16092
