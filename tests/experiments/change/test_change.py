"""What changed is found where it was changed, between two seeds and a random baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr

import cats
from microtome.corpora.opening import corpus
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments.change.change import change
from microtome.experiments.change.domains import domains
from microtome.experiments.similarity.extraction import extract
from microtome.figures.captions import title_of
from microtome.findings.results import open_result, plain
from microtome.report.sections import title_of as section_title
from microtome.training.finetuning import finetune
from moving import moved, saved, sentences

TEXT = sentences(70, seed=1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("base"))


def test_only_layers_above_the_moved_block_change(place: Path, tmp_path: Path) -> None:
    base, tuned = load(place), [moved(place, 3, seed=seed, by=0.5) for seed in (1, 2)]
    heard: list[str] = []
    given: dict[str, Any] = {"halves": 8, "progress": lambda what, *_: heard.append(what)}
    found = change(base, tuned, TEXT, command="microtome change", store=tmp_path / "s", **given)
    assert "tuned 1: examples" in heard
    assert [one.name for one in found.curves[:4]] == [
        "rsa: base to tuned",
        "rsa: between seeds",
        "rsa: base to random baseline",
        "rsa: difference, base to tuned minus between seeds",
    ]
    for measure in ("rsa", "debiased_cka"):
        names = ("base to tuned", "between seeds", "base to random baseline")
        curves: list[Any] = [found[f"{measure}: {name}"] for name in names]
        similar, ceiling, floor = curves
        assert similar.x == (0, 1, 2, 3)
        np.testing.assert_array_equal(similar.values[:3], 1)
        np.testing.assert_array_equal(similar.band_low[:3], 1)
        assert 0.5 < similar.values[3] < 0.9999
        assert similar.low[3] < similar.values[3] < similar.high[3]
        # Two moves from one place are further from each other than from it.
        assert ceiling.values[3] < similar.values[3]
        assert (floor.values < 0.9).all()
        assert (floor.band_high < 1).all()
        told = found.more["change"][measure]
        assert told["center"]["value"] == pytest.approx(3)
        assert told["top_third"] == pytest.approx(1)
        assert len(told["rescaled"]) == 4
        assert found.more["average"][measure]["base to tuned"]["value"] == pytest.approx(
            similar.values.mean()
        )
    assert "mean similarity over layers of base and tuned" in found.claims[-1].beside
    kinds = [(claim.subject, claim.kind, claim.layers) for claim in found.claims]
    for measure in ("rsa", "debiased_cka"):
        assert [
            layers for subject, kind, layers in kinds if (subject, kind) == (measure, "beyond seeds")
        ] == [(), (3,)]
        assert (measure, "change center", (3,)) in kinds
    # Of two seeds, the band of the layer that moved reaches up to those that did not.
    assert "is not shown (layer 3 by 0.02" in found.findings[-1]
    assert found.warnings == ()
    assert any("@inproceedings{merchant2020" in entry for entry in found.references)
    found.save(tmp_path / "out")
    again = open_result(tmp_path / "out")
    assert again.findings == found.findings
    assert plain(again.claims) == plain(found.claims)
    assert len(again.rows) == 2 * 4 * 6
    # Rows are in the store by now: no model runs again.
    heard.clear()
    change(base, tuned, TEXT, store=tmp_path / "s", **given)
    assert "layers compared" in heard
    assert not any("examples" in what for what in heard)


def test_rsa_is_the_correlation_of_cosines_over_all_pairs_of_tokens(place: Path, tmp_path: Path) -> None:
    base, tuned = load(place), moved(place, 2, 3)
    found = change(base, tuned, TEXT, measures=["rsa"], random_baselines=0, halves=4, store=tmp_path)
    sides = [extract(one, TEXT, rows="token", store=tmp_path).layers[3] for one in (base, tuned)]
    cosines = []
    for rows in sides:
        unit = rows.astype(float) / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)
        cosines.append((unit @ unit.T)[np.triu_indices(len(unit), 1)])
    assert found["rsa: base to tuned"].values[3] == pytest.approx(pearsonr(*cosines)[0], abs=1e-9)
    assert found.warnings == (
        "There is no upper reference, and nothing can be said about other seeds: one fine-tuned model was "
        "given.",
        "There is no lower reference: no random baseline was requested.",
    )
    assert [one.name for one in found.curves] == ["rsa: base to tuned"]


def test_a_copy_has_not_changed(place: Path, tmp_path: Path) -> None:
    found = change(
        load(place), place, TEXT, measures="debiased_cka", rows="cls", random_baselines=0, store=tmp_path
    )
    curve = found.curves[0]
    # The first token is the same everywhere, so layer 0 has nothing to compare.
    assert curve.x == (1, 2, 3)
    assert curve.values.tolist() == curve.low.tolist() == [1, 1, 1]
    assert curve.unit == "example"
    assert (found.claims[-1].kind, found.claims[-1].facts["reason"]) == ("change center", "no layer changed")
    assert found.more["change"]["debiased_cka"]["center"] is None


def test_fine_tuned_models_are_known_by_their_seeds(place: Path, tmp_path: Path) -> None:
    base, task = load(place), cats.cats_task(32, 20)
    given: dict[str, Any] = {**cats.QUICK, "steps": 3, "store": tmp_path / "s"}
    tuned = [finetune(base, task, "wu2020", seed=seed, **given) for seed in (4, 7)]
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(TEXT) + "\n")
    found = change(base, [tuned[0], tuned[1].folder], TEXT, measures=["debiased_cka"], store=tmp_path / "s")
    # The texts are not those of the task that the models were tuned on.
    assert (found.task, found.split, found.more["tuned_on"]) == ("texts", "texts", "cats")
    assert "2 fine-tuned models (on cats)" in found.methods
    assert title_of(found) == f"Change: {base.name}, tuned on cats, compared on texts"
    assert section_title(found, "").startswith(f"What fine-tuning changed: {base.name}, tuned on cats, com")
    apart = domains(base, tuned, TEXT, corpus(lines, name="cats/train"), measures="rsa", store=tmp_path / "s")
    assert (apart.task, apart.split) == ("texts", "texts against cats/train")
    same = change(base, tuned, corpus(lines, name="cats/train"), measures="rsa", store=tmp_path / "s")
    assert (same.task, same.split) == ("cats", "cats/train")
    assert found.provenance["seeds"] == [4, 7]
    assert list(found.provenance["models"]) == ["base", "tuned 4", "tuned 7", "random baseline 0"]
    assert found.curves[0].unit == "sentence and model"


def test_models_that_cannot_be_compared_are_refused(place: Path, tmp_path: Path) -> None:
    base = load(place)
    deep = load(saved(tmp_path / "deep", depth=4), tokenizer=place)
    with pytest.raises(InputError, match="must have 4 layers, as base has, but it has 5"):
        change(base, deep, TEXT, store=tmp_path / "s")
    other = load(place, tokenizer=saved(tmp_path / "other", ends=("##t", "##e")))
    with pytest.raises(InputError, match="must cut texts into tokens as base does"):
        change(base, other, TEXT, store=tmp_path / "s")
    with pytest.raises(InputError, match="one of them is there twice"):
        change(base, [load(place), place], TEXT, store=tmp_path / "s")
    with pytest.raises(InputError, match="names of models must differ"):
        change(base, [place, place], TEXT, store=tmp_path / "s")
    with pytest.raises(InputError, match="tuned models must be at least one"):
        change(base, [], TEXT, store=tmp_path / "s")


def test_each_model_is_loaded_and_the_text_tokenized_once(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from microtome.encoders import loading
    from microtome.rows import planning

    counts: dict[str, int] = {"load": 0, "plan_rows": 0}

    def counted(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            counts[name] += 1
            return function(*arguments, **named)

        monkeypatch.setattr(module, name, call)

    counted(loading, "load")
    counted(planning, "plan_rows")
    moved(place, 3).model.save_pretrained(tmp_path / "tuned")
    for file in place.glob("token*"):
        (tmp_path / "tuned" / file.name).write_bytes(file.read_bytes())
    counts["load"] = 0
    change(place, tmp_path / "tuned", TEXT, measures="debiased_cka", store=tmp_path / "s")
    assert counts == {"load": 2, "plan_rows": 1}
