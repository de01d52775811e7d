"""Real corpora, where they are: counts that others published, or a second way to count."""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
import tarfile
from itertools import islice
from pathlib import Path

import pytest

from microtome.corpora.opening import corpus

EWT = {"train": (12544, 204577), "dev": (2001, 25147), "test": (2077, 25094)}
SENTENCES = {"text": "sentence1", "pair": "sentence2"}
TABLES = {
    "CoLA/train": (8551, {"header": "no", "columns": {"text": 4}}),
    "CoLA/dev": (1043, {"header": "no", "columns": {"text": 4}}),
    "CoLA/test": (1063, {"columns": {"text": "sentence", "id": "index"}}),
    "SST-2/train": (67349, {"columns": {"text": "sentence"}}),
    "SST-2/dev": (872, {"columns": {"text": "sentence"}}),
    "SST-2/test": (1821, {"columns": {"text": "sentence"}}),
    "MRPC/train": (3668, {"columns": {"text": "#1 String", "pair": "#2 String"}}),
    "MRPC/dev": (408, {"columns": {"text": "#1 String", "pair": "#2 String"}}),
    "MRPC/test": (1725, {"columns": {"text": "#1 String", "pair": "#2 String", "id": "index"}}),
    "STS-B/train": (5749, {"columns": SENTENCES}),
    "STS-B/dev": (1500, {"columns": SENTENCES}),
    "STS-B/test": (1379, {"columns": SENTENCES}),
    "RTE/train": (2490, {"columns": {**SENTENCES, "id": "index"}}),
    "RTE/dev": (277, {"columns": {**SENTENCES, "id": "index"}}),
    "RTE/test": (3000, {"columns": {**SENTENCES, "id": "index"}}),
    "QNLI/dev": (5463, {"columns": {"text": "question", "pair": "sentence", "id": "index"}}),
    "QNLI/test": (5463, {"columns": {"text": "question", "pair": "sentence"}}),
    "WNLI/train": (635, {"columns": SENTENCES}),
    "WNLI/dev": (71, {"columns": SENTENCES}),
    "WNLI/test": (146, {"columns": SENTENCES}),
    "QQP/train.sample23k": (23497, {"columns": {"text": "question1", "pair": "question2", "id": "id"}}),
    "MNLI/train.sample": (23828, {"columns": SENTENCES}),
}


def content_of(path: Path) -> str:
    return lzma.decompress(path.read_bytes()).decode()


@pytest.mark.parametrize("split", EWT)
def test_english_web_treebank(shared: Path, split: str) -> None:
    path = shared / f"UD_English-EWT/en_ewt-ud-{split}.conllu.xz"
    opened = corpus(path)
    sentences, words, documents = 0, 0, set()
    for example in opened:
        sentences += 1
        words += len(example.words or ())
        documents.add(example.group)
        assert example.id.startswith(example.group)
    assert (sentences, words) == EWT[split]
    raw = content_of(path)
    assert len(documents) == len(re.findall("^# newdoc id", raw, re.MULTILINE))
    # Surface tokens: each line of several words takes the place of those words.
    covered = re.findall(r"^(\d+)-(\d+)\t", raw, re.MULTILINE)
    tokens = words - sum(int(last) - int(first) for first, last in covered)
    assert sum(len(e.words or ()) for e in corpus(path, units="tokens")) == tokens


def test_another_reader_agrees_on_the_web_treebank(shared: Path) -> None:
    conllu = pytest.importorskip("conllu")
    path = shared / "UD_English-EWT/en_ewt-ud-dev.conllu.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for theirs, ours in zip(conllu.parse_incr(file), corpus(path), strict=True):
            rows = [token for token in theirs if isinstance(token["id"], int)]
            assert ours.id == theirs.metadata["sent_id"]
            assert ours.text == theirs.metadata["text"]
            assert ours.words == tuple(token["form"] for token in rows)
            assert ours.marks["lemma"] == tuple(token["lemma"] for token in rows)
            assert ours.marks["deprel"] == tuple(token["deprel"] for token in rows)
            assert ours.marks["head"] == tuple(str(token["head"]) for token in rows)


def test_a_text_put_together_is_the_given_one(shared: Path, tmp_path: Path) -> None:
    path = shared / "UD_English-EWT/en_ewt-ud-dev.conllu.xz"
    content = content_of(path)
    (tmp_path / "a.conllu").write_text(re.sub("(?m)^# text = .*\n", "", content), encoding="utf-8")
    differing = [
        (a.text, b.text)
        for a, b in zip(corpus(path), corpus(tmp_path / "a.conllu"), strict=True)
        if a.text != b.text
    ]
    assert differing == []


def test_a_folder_of_treebanks(shared: Path) -> None:
    opened = corpus(shared / "UD_English-EWT")
    assert len(opened) == sum(sentences for sentences, _ in EWT.values())
    assert opened.head(1)[0].id.startswith("en_ewt-ud-dev/")


def test_penn_treebank_sample(shared: Path) -> None:
    path = shared / "PTB-sample/treebank-combined.tar.xz"
    opened = corpus(path)
    assert opened.reader == "ptb"
    files, trees, words = set(), 0, []
    for example in opened:
        trees += 1
        files.add(example.group)
        words += example.words or ()
    assert (len(files), trees) == (199, 3914)
    leaves = []
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name.endswith(".mrg"):
                content = archive.extractfile(member)
                assert content is not None
                leaves += re.findall(r"\((\S+)\s+([^\s()]+)\s*\)", content.read().decode())
    kept = [word for tag, word in leaves if tag != "-NONE-"]
    assert len(words) == len(kept) == 94084
    assert [
        w.replace("(", "-LRB-").replace(")", "-RRB-") for w in words if "{" not in w and "}" not in w
    ] == [w.replace("\\/", "/").replace("\\*", "*") for w in kept if w not in ("-LCB-", "-RCB-")]


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_glue(shared: Path, name: str) -> None:
    count, options = TABLES[name]
    assert len(corpus(shared / f"{name}.tsv.xz", **options)) == count


def test_odd_quotes_stay(shared: Path) -> None:
    path = shared / "MRPC/train.tsv.xz"
    lines = content_of(path).removesuffix("\n").split("\n")[1:]
    odd = 0
    for line, example in zip(
        lines, corpus(path, columns={"text": "#1 String", "pair": "#2 String"}), strict=True
    ):
        assert line.split("\t")[3:] == [example.text, example.pair]
        odd += line.count('"') % 2
    assert odd == 169


def test_labels_of_json_lines(shared: Path) -> None:
    opened = corpus(
        shared / "BoolQ/val.jsonl.xz", columns={"text": "question", "pair": "passage", "id": "idx"}
    )
    labels = [example.marks["label"] for example in opened]
    assert (labels.count("true"), labels.count("false")) == (2033, 1237)
    assert len(corpus(shared / "SPR2/spr2-dev.jsonl.xz", columns={"words": "text"})) == 291


def test_quoted_tables(shared: Path) -> None:
    opened = corpus(shared / "Yelp/test.open-dataset.csv.xz", header=["label", "text"])
    labels = [example.marks["label"] for example in opened]
    assert (labels.count("2"), labels.count("1")) == (3314, 1141)
    assert len(corpus(shared / "CosmosQA/valid.csv.xz", columns={"text": "context", "id": "id"})) == 2985


def test_a_large_text_is_read_as_far_as_needed(shared: Path) -> None:
    path = shared / "corpus/english.txt.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in islice(file, 200)]
    opened = corpus(path, blank_lines="documents")
    head = opened.head(100)
    assert [e.text for e in head] == [line for line in lines if line][:100]
    assert head[-1].group == str(lines[: lines.index(head[-1].text or "")].count("") + 1)
    # 77 MB of text, of which the process holds nothing.
    script = (
        "import json, pathlib, re, sys\n"
        "from microtome.corpora.opening import corpus\n"
        "head = corpus(sys.argv[1]).head(1000)\n"
        "peak = re.search(r'VmHWM:\\s*(\\d+)', pathlib.Path('/proc/self/status').read_text())\n"
        "print(json.dumps([len(head), int(peak[1])]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, path], check=True, capture_output=True, timeout=60)
    count, peak = json.loads(done.stdout)
    assert count == 1000
    assert peak < 150_000
