"""The benchmarks: their stacks are what they say, their truths are true, their tables come out."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import by name as a script of the folder would; the number of threads is put back afterwards."""
    import torch

    threads = torch.get_num_threads()
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module
    torch.set_num_threads(threads)


@pytest.fixture
def engine(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("engine")


@pytest.fixture
def peers(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("peers")


@pytest.fixture
def memory(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("memory")


@pytest.fixture
def cuda(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("cuda")


@pytest.fixture
def run(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("run")


def spectrum(x: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(np.cov(x.astype(np.float64), rowvar=False))[::-1]


@pytest.mark.parametrize("width", [16, 128, 768])
def test_the_power_law_keeps_what_it_should(engine: ModuleType, width: int) -> None:
    eigenvalues = engine.power_law(width)
    kept = int(np.sum(np.cumsum(eigenvalues) / eigenvalues.sum() < 0.99)) + 1
    assert kept == pytest.approx(0.82 * width, abs=1)


def test_a_stack_is_layer_normed_flat_and_drifts(engine: ModuleType) -> None:
    stack = engine.residual_stack(4, 3000, 48)
    for x in stack:
        assert x.dtype == np.float32
        np.testing.assert_allclose(x.mean(axis=1), 0, atol=1e-5)
        np.testing.assert_allclose(x.var(axis=1), 1, rtol=1e-3)
        eigenvalues = spectrum(x)
        assert eigenvalues[-1] < 1e-9 * eigenvalues[0] < eigenvalues[-2]
        kept = int(np.sum(np.cumsum(eigenvalues) / eigenvalues.sum() < 0.99)) + 1
        assert 0.75 < kept / 48 < 0.92
    near, far = (np.abs(np.mean(stack[0] * stack[k])) for k in (1, 3))
    assert 1 > near > far + 0.05


def test_rounds_take_turns_and_stop_at_the_patience(engine: ModuleType) -> None:
    order: list[str] = []

    def slow() -> int:
        order.append("slow")
        return sum(i * i for i in range(200_000))

    timings, values = engine.interleaved(
        {"quick": lambda: order.append("quick"), "slow": slow}, 3, patience=1e-4
    )
    assert order == ["quick", "slow", "quick", "quick"]
    assert (timings["quick"].runs, timings["slow"].runs) == (3, 1)
    assert timings["slow"].cpu > timings["quick"].cpu
    assert values["slow"] == sum(i * i for i in range(200_000))


def test_products_are_the_upper_half_of_the_covariances(
    engine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    stack = [x + 5 for x in engine.residual_stack(3, 50, 8)]
    calls = engine.products(stack)
    made: list[torch.Tensor] = []
    multiply = torch.mm

    def keep(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        made.append(multiply(a, b))
        return made[-1]

    monkeypatch.setattr(torch, "mm", keep)
    for call in calls.values():
        call()
    pairs = torch.cat(made[:3], dim=1), torch.cat(made[3:5], dim=1), made[5]
    whole = np.cov(np.hstack(stack).astype(np.float64), rowvar=False) * 49
    for k, (by_pair, strip) in enumerate(zip(pairs, made[6:], strict=True)):
        np.testing.assert_allclose(by_pair, whole[8 * k : 8 * k + 8, 8 * k :], atol=2e-4)
        np.testing.assert_allclose(strip, by_pair, atol=2e-4)


def test_the_engine_table(engine: ModuleType) -> None:
    results = engine.run(shapes=[(3, 200, 16)], repeats=1)
    (table,) = engine.tables(results)
    text = table.markdown()
    assert [row[0] for row in table.rows][2:] == [work.name for work in engine.WORKS]
    assert all(len(row) == len(table.header) for row in table.rows)
    assert "dimensions of rank 15" in text
    ratios = [row["ratio"] for row in results[0]["rows"]]
    assert min(ratios[:2]) == 1.0
    assert json.loads(json.dumps(results)) == results


def test_a_target_is_reached_or_not(engine: ModuleType) -> None:
    row = {"cpu": 1.0, "wall": 1.0, "runs": 3, "wall_ratio": 1.0, "precision": "fast"}
    rows = [
        row | {"name": "a", "ratio": 1.19, "target": 1.2},
        row | {"name": "b", "ratio": 1.21, "target": 1.2},
    ]
    (table,) = engine.tables([{"shape": [2, 10, 4], "kept": 3, "rank": 4, "rows": rows}])
    assert [cells[-1] for cells in table.rows] == ["yes", "**no**"]


def test_the_table_of_intervals(load: Callable[[str], ModuleType]) -> None:
    intervals, promises = load("intervals"), load("promises")
    result = intervals.run(rows=(40, 120), layers=2, width=24, repeats=1)
    (table,) = intervals.tables(intervals.merged([result]))
    assert [(row[0], row[2]) for row in table.rows if row[1] == "120"] == [
        *(("debiased_cka", name) for name in intervals.CLUSTERS),
        *((measure, name) for measure in ("svcca", "pwcca") for name in intervals.OF_SUBSPACES),
    ]
    assert [row[0] for row in table.rows if row[1] == "40"] == ["debiased_cka"] * 4 + ["svcca"] * 2
    assert json.loads(json.dumps(result)) == result
    kept = [line | {"ratio": 1.0} for line in result["lines"]]
    assert promises.missed({"intervals": {**result, "lines": kept}}) == []
    (sentence,) = promises.missed({"intervals": {**result, "lines": [kept[0] | {"ratio": 2.51}]}})
    assert "independent rows: intervals take 2.51 plain maps, promised 2.5." in sentence


def test_a_cell_cannot_break_its_table(engine: ModuleType) -> None:
    table = engine.Table(title="T", header=("a", "b"), rows=(("one\ntwo | three", "4"),))
    assert table.markdown().splitlines()[-1] == r"| one two \| three | 4 |"


def test_the_truth_of_batches_is_that_of_one_batch(peers: ModuleType) -> None:
    x, y = peers.related(200, 16)
    assert peers.true_batches(x, y) == pytest.approx(peers.true_value("debiased_cka", x, y), abs=1e-12)


def test_a_last_batch_of_three_rows_is_left_out_of_the_truth(peers: ModuleType) -> None:
    x, y = peers.related(515, 16)
    assert peers.true_batches(x, y) == pytest.approx(peers.true_batches(x[:512], y[:512]), abs=1e-12)


def test_inputs_are_as_described(peers: ModuleType) -> None:
    inputs = peers.make_inputs()
    assert inputs.keys() == peers.INPUTS.keys()
    assert all(x.dtype == np.float32 and len(x) == len(y) for x, y in inputs.values())
    assert inputs["offset"][0][:, 0].mean() == pytest.approx(3000, abs=1)
    assert len(inputs["ragged"][0]) % peers.BATCH == 3


def test_peers_at_hand_are_asked_and_the_others_named(
    peers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = peers.Peer("scipy", "wrong on purpose", "linear_cka", lambda x, y: 2.0, "plain", 0)
    failing = peers.Peer("scipy", "fails", "linear_cka", lambda x, y: 1 / 0, "plain", 0)
    absent = peers.Peer("no-such-package", "anything", "linear_cka", lambda x, y: 0.0, "plain")
    scipy = [p for p in peers.PEERS if p.package == "scipy"]
    monkeypatch.setattr(peers, "PEERS", (*scipy, wrong, failing, absent))
    result = peers.run(repeats=1, shape=(60, 8), map_shape=(2, 40, 8))
    assert list(result["missing"]) == ["no-such-package"]
    asked = {row["call"].split(" ", 2)[2]: row for row in result["values"]}
    assert asked["spatial.procrustes"]["right"]
    assert asked["linalg.orthogonal_procrustes"]["right"]
    assert not asked["wrong on purpose"]["right"]
    assert asked["fails"]["error"].startswith("ZeroDivisionError")
    assert all(row["microtome_right"] for row in result["values"])
    timed = {row["who"]: row["value"] for row in result["times"]}
    assert timed["scipy spatial.procrustes"] == pytest.approx(timed["microtome exact"], abs=1e-9)
    values, times = peers.tables(result)
    assert "Not installed: no-such-package" in values.note
    quick = [row | {"to_exact": 0.5, "to_fast": 2.0} for row in result["times"]]
    assert "Faster than exact: scipy spatial" in peers.tables(result | {"times": quick})[1].note
    assert "Faster than fast: none" in peers.tables(result | {"times": quick})[1].note
    assert all(len(row) == len(table.header) for table in (values, times) for row in table.rows)


def test_memory_sees_what_is_allocated(memory: ModuleType) -> None:
    before = memory.private_bytes()
    with memory.Watch() as watch:
        held = np.ones(8_000_000)
        time.sleep(0.2)
        del held
    assert watch.peak - before > 50e6


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="private memory is told by Linux alone")
def test_intervals_keep_to_the_memory_that_was_asked_for(memory: ModuleType) -> None:
    asked = {"measures": ["debiased_cka"], "certainty": True, "memory": "40MB"}
    (found,) = memory.run(rows=(60_000,), layers=10, width=8, **asked)["rows"]
    assert found["beside_baseline"] < 1.25 * 40e6


def test_memory_of_layers_in_files(memory: ModuleType) -> None:
    result = memory.run(rows=(300,), layers=2, width=8)
    (one,) = result["rows"]
    assert one["rows"] == 300
    assert one["input"] > 2 * 300 * 8 * 4
    assert one["resident"] > one["baseline"] > 0
    (table,) = memory.tables(result)
    assert len(table.rows[0]) == len(table.header)


def test_written_layers_do_not_depend_on_the_piece(
    memory: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "PIECE", 64)
    memory.write_layers(tmp_path, 150, layers=3, width=4)
    layers = [np.load(path) for path in sorted(tmp_path.glob("*.npy"))]
    assert [x.shape for x in layers] == [(150, 4)] * 3
    assert all(np.ptp(x, axis=0).min() > 1 for x in layers)
    together = np.corrcoef(layers[0].ravel(), layers[1].ravel())[0, 1]
    assert together > np.corrcoef(layers[0].ravel(), layers[2].ravel())[0, 1] > 0.5


def test_looking_at_layers_is_timed_and_shown(load: Callable[[str], ModuleType]) -> None:
    extraction = load("extraction")
    result = extraction.run(scale="smoke", repeats=1)
    assert json.loads(json.dumps(result)) == result
    rows, memory, attention = extraction.tables(result)
    assert [row[0] for row in rows.rows][2:] == ["cls rows into moments", "word rows into moments"]
    assert len(memory.rows) == 2
    assert attention.rows[0][1] == "1.0"
    assert all(len(row) == len(t.header) for t in (rows, memory, attention) for row in t.rows)
    broken = load("promises").missed({"extraction": result | {"memory": {"growth": 2.0}}})
    assert "memory of extraction grows 2.00 times, promised flat." in broken


def test_a_whole_comparison_is_timed_beside_its_forward_passes(
    load: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed = load("compare_speed")
    monkeypatch.setattr(speed, "processes", lambda *_: {"start": 1.0, "command": 2.0})
    result = speed.measure("cpu", shape="small", count=60, repeats=1, profile=tmp_path / "profile.txt")
    assert json.loads(json.dumps(result)) == result
    assert (result["sentences"], result["batches"]) == (60, 1)
    assert result["padded"] > result["tokens"] > result["rows"] > 60
    shown = speed.table(result)
    assert [row[0] for row in shown.rows][:3] == [speed.FORWARD, speed.OPEN, speed.COMMAND]
    assert "self_cpu_time_total" in (tmp_path / "profile.txt").read_text()


def test_the_device_benchmark_on_a_processor(
    cuda: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cuda.json"
    tiny = ["--device", "cpu", "--layers", "3", "--rows", "200", "--width", "16", "--repeats", "1"]
    assert cuda.main([*tiny, "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    assert [one["spectrum"] for one in result["results"]] == ["power law", "log-uniform"]
    for one in result["results"]:
        assert one["differences"].keys() == set(cuda.FIVE)
        assert max(one["differences"].values()) <= 1e-9
    assert "log-uniform spectrum" in capsys.readouterr().out


def test_the_device_benchmark_fails_where_the_numbers_differ(
    cuda: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "AGREE", -1.0)
    tiny = ["--device", "cpu", "--layers", "2", "--rows", "60", "--width", "8", "--repeats", "1"]
    assert cuda.main(tiny) == 1


def test_a_page_is_filled_between_its_marks(run: ModuleType, engine: ModuleType) -> None:
    table = engine.Table(title="New", header=("a",), rows=(("1",),))
    page = "before\n<!-- engine -->\nold\n<!-- /engine -->\nbetween\n<!-- peers -->\nkept\n<!-- /peers -->\n"
    once = run.fill(page, {"engine": [table]}, "Measured.")
    assert "old" not in once
    assert "kept" in once
    assert once.startswith("before\n")
    assert "### New\n\n| a |\n| --- |\n| 1 |\n" in once
    assert run.fill(once, {"engine": [table]}, "Measured.") == once


def test_the_page_has_a_place_for_every_section(run: ModuleType) -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for section in (*run.SECTIONS, "cuda"):
        assert page.count(f"<!-- {section} -->") == page.count(f"<!-- /{section} -->") == 1


def test_a_page_without_marks_is_not_overwritten(run: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text of someone")
    with pytest.raises(SystemExit):
        run.main(["--smoke", "--only", "engine", "--markdown", str(page)])
    assert page.read_text() == "text of someone"


def test_an_unknown_section_is_an_error(run: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--only", "engines"])
    assert "engines" in capsys.readouterr().err


def test_broken_promises_are_named_and_end_the_run_with_an_error(
    run: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"cpu": 1.0, "wall": 1.0, "runs": 3, "wall_ratio": 1.0, "precision": "fast", "name": "CKA"}
    timed = {"measure": "linear_cka", "shape": "10 x 4", "cpu": 1.0, "wall": 1.0, "runs": 3, "value": 0.5}
    ours = [
        timed | {"who": f"microtome {mode}", "to_exact": 1.0, "to_fast": 1.0} for mode in ("exact", "fast")
    ]
    asked = {"measure": "cca", "input": "plain", "call": "x", "said": 0.1, "true_of_call": 0.1, "true": 0.1}
    kept: dict[str, Any] = {
        "machine": run.machine(),
        "scale": "full",
        "engine": [
            {"shape": [2, 10, 4], "kept": 3, "rank": 4, "rows": [row | {"ratio": 1.2, "target": 1.2}]}
        ],
        "peers": {
            "missing": {},
            "values": [asked | {"right": True, "microtome": 0.1, "microtome_right": True}],
            "times": [
                *ours,
                timed | {"who": "torch-cka compare", "to_exact": 0.5, "to_fast": 1.1},
                timed | {"who": "scipy procrustes", "to_exact": 0.5, "to_fast": 0.5},
            ],
        },
        "memory": {"layers": 2, "width": 4, "rows": [], "growth": 1.1},
        "attention": [
            {"variant": name, "sentences_run": 1, "times_faster": times, "wall_s": 1.0, "max_error": 1e-8}
            for name, times in (("microtome, numba", 11.0), ("microtome, torch", 2.0), ("two", 1.0))
        ],
    }
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(kept))
    assert run.main(["--load", str(file)]) == 0
    kept["engine"][0]["rows"][0]["ratio"] = 1.21
    kept["peers"]["values"][0] |= {"microtome_right": False, "microtome": 0.2}
    kept["peers"]["times"][2]["to_fast"] = 0.9
    kept["memory"]["growth"] = 2.0
    kept["attention"][0] |= {"times_faster": 9.0, "max_error": 1e-5}
    file.write_text(json.dumps(kept))
    capsys.readouterr()
    assert run.main(["--load", str(file)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 6
    assert "missed: 2 x 10 x 4, CKA: 1.21 products, promised 1.2." in said
    assert "missed: linear_cka, 10 x 4: torch-cka compare takes 0.90 of the time of microtome fast." in said
    file.write_text(json.dumps(kept | {"scale": "quick"}))
    assert run.main(["--load", str(file)]) == 0


def test_the_command(tmp_path: Path) -> None:
    """As `make bench` calls it: in processes of its own, with its files written and shown again from them."""
    results, page = tmp_path / "bench.json", tmp_path / "page.md"
    page.write_text("<!-- memory -->\n<!-- /memory -->\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(FOLDER / "run.py"), "--markdown", str(page)]
    first = subprocess.run(
        [*command, "--smoke", "--only", "engine,memory", "--json", str(results)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(results.read_text())
    assert found["machine"]["cores"] == os.cpu_count()
    assert found["seconds"].keys() == {"engine", "memory"}
    assert "### 3 layers, 200 rows, 16 features" in first.stdout
    assert "### Memory" in page.read_text()
    again = subprocess.run(
        [*command, "--load", str(results)], env=environment, capture_output=True, text=True, check=True
    )
    assert again.stdout == first.stdout


DEMONSTRATION = """
import pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir()
print("[1/2,   0 s] masked: layers", file=sys.stderr, flush=True)
(out / "picture.svg").write_text("")
print("no step", file=sys.stderr, flush=True)
time.sleep(0.3)
print("[2/2,   0 s] the report", file=sys.stderr, flush=True)
"""


def test_the_time_of_the_demonstration(tmp_path: Path, load: Callable[[str], ModuleType]) -> None:
    (tmp_path / "src" / "microtome").mkdir(parents=True)
    # A package without __init__.py would come after the one that is installed.
    (tmp_path / "src" / "microtome" / "__init__.py").touch()
    (tmp_path / "src" / "microtome" / "__main__.py").write_text(DEMONSTRATION)
    steps, picture = load("demo_time").run(tmp_path / "src", ["--seeds", "1"], tmp_path / "kept")
    assert [what for what, _, _ in steps] == ["masked: layers", "the report", "the end"]
    assert all(spent >= 0 for _, spent, _ in steps)
    assert 0 < picture[1] <= steps[-1][2]
    assert (tmp_path / "kept" / "picture.svg").is_file()
