"""Small copies of every task that has a card, written by hand in its original form and in that of the hub."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from microtome.tasks.table import TASKS


@dataclass(frozen=True, kw_only=True)
class Sample:
    """
    A task in two forms.

    Parameters
    ----------
    files : mapping of str to str
        Contents by the name of the original file.
    rows : mapping of str to list of dict
        Rows of the hub, by the task's name of the split.
    classes : mapping of str to list of str
        Names of the classes of columns, where the hub has them.
    targets : mapping of str to list
        What must come out.
    """

    files: Mapping[str, str]
    rows: Mapping[str, list[dict[str, Any]]]
    classes: Mapping[str, list[str]]
    targets: Mapping[str, list[Any]]


def tsv(*rows: tuple[Any, ...]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def names(text: str) -> list[str]:
    return text.split()


def jsonl(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _dicts(columns: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(columns.split(), row, strict=True)) for row in rows]


def _pairs(header: str, hub: str, names: list[str], raw: list[str], texts: int = 2) -> Sample:
    """A table of GLUE with an index, whose test split has no labels."""
    train = [('A "cat" sat.', "It's a cat", 1), ('One " quote', "two", 0), ('A "cat" sat.', "no", 0)]
    held = [("Café — “so”", "so it is", 0), ("b", "c", 1)]
    hidden = [("d", "e"), ('f " g', "h")]
    columns = header.split()

    def lines(rows: list[tuple[Any, ...]], label: bool) -> str:
        named = columns if label else columns[:-1]
        body = [(i, *row[:texts], *((raw[row[2]],) if label else ())) for i, row in enumerate(rows)]
        return tsv(tuple(named), *body)

    def rows(given: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
        return _dicts(hub, *((*r[:texts], r[2] if len(r) > 2 else -1, i) for i, r in enumerate(given)))

    return Sample(
        files={
            "train.tsv": lines(train, True),
            "dev.tsv": lines(held, True),
            "test.tsv": lines(hidden, False),
        },
        rows={"train": rows(train), "validation": rows(held), "test": rows(hidden)},
        classes={"label": names},
        targets={"train": [1, 0, 0], "validation": [0, 1], "test": [None, None]},
    )


def _cola() -> Sample:
    names = ["unacceptable", "acceptable"]
    return Sample(
        files={
            "train.tsv": tsv(("gj04", 1, "", "They sat."), ("gj04", 0, "*", 'They "sits.')),
            "dev.tsv": tsv(("bc01", 1, "", "So it is."))[:-1],
            "test.tsv": tsv(("index", "sentence"), (0, "Who knows.")),
        },
        rows={
            "train": _dicts("sentence label idx", ("They sat.", 1, 0), ('They "sits.', 0, 1)),
            "validation": _dicts("sentence label idx", ("So it is.", 1, 0)),
            "test": _dicts("sentence label idx", ("Who knows.", -1, 0)),
        },
        classes={"label": names},
        targets={"train": [1, 0], "validation": [1], "test": [None]},
    )


def _sst2() -> Sample:
    return Sample(
        files={
            "train.tsv": tsv(("sentence", "label"), ("a joy ", 1), ("no wit , only gags ", 0)),
            "dev.tsv": tsv(("sentence", "label"), ("bleak ", 0)),
            "test.tsv": tsv(("index", "sentence"), (0, "who knows .")),
        },
        rows={
            "train": _dicts("sentence label idx", ("a joy ", 1, 0), ("no wit , only gags ", 0, 1)),
            "validation": _dicts("sentence label idx", ("bleak ", 0, 0)),
            "test": _dicts("sentence label idx", ("who knows .", -1, 0)),
        },
        classes={"label": ["negative", "positive"]},
        targets={"train": [1, 0], "validation": [0], "test": [None]},
    )


def _mrpc() -> Sample:
    header = ("\ufeffQuality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    hub = "sentence1 sentence2 label idx"
    return Sample(
        files={
            "train.tsv": tsv(header, (1, 7, 8, 'He said " no .', "He said no ."), (0, 9, 3, "a", "b")),
            "dev.tsv": tsv(header, (0, 1, 2, "c", "d")),
            "msr_paraphrase_test.txt": tsv(header, (1, 4, 5, "e", "f")),
            "test.tsv": tsv(("index", *header[1:]), (0, 4, 5, "e", "f")),
        },
        rows={
            "train": _dicts(hub, ('He said " no .', "He said no .", 1, 0), ("a", "b", 0, 1)),
            "validation": _dicts(hub, ("c", "d", 0, 0)),
            "test": _dicts(hub, ("e", "f", 1, 0)),
        },
        classes={"label": ["not_equivalent", "equivalent"]},
        targets={"train": [1, 0], "validation": [0], "test": [1]},
    )


def _qqp() -> Sample:
    header = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    train = tsv(header, (5, 1, 2, "Why?", 'Why "so?', 1), (6, 3, 4, "cut")[:3], (7, 5, 6, "Who?", "Why?", 0))
    hub = "question1 question2 label idx"
    return Sample(
        files={
            "train.tsv": train,
            "dev.tsv": tsv(header, (8, 7, 8, "a", "b", 0)),
            "test.tsv": tsv(("id", "question1", "question2"), (0, "c", "d")),
        },
        rows={
            "train": _dicts(hub, ("Why?", 'Why "so?', 1, 0), ("Who?", "Why?", 0, 2)),
            "validation": _dicts(hub, ("a", "b", 0, 0)),
            "test": _dicts(hub, ("c", "d", -1, 0)),
        },
        classes={"label": ["not_duplicate", "duplicate"]},
        targets={"train": [1, 0], "validation": [0], "test": [None]},
    )


def _stsb() -> Sample:
    header = names("index genre filename year old_index source1 source2 sentence1 sentence2 score")
    more = ("main", "MSR", 2012, "0001", "none", "none")
    hub = "sentence1 sentence2 label idx"
    return Sample(
        files={
            "train.tsv": tsv(
                tuple(header), (0, *more, "A plane.", 'An "air plane.', "5.000"), (1, *more, "a", "b", "3.8")
            ),
            "dev.tsv": tsv(tuple(header), (0, *more, "c", "d", "0.333")),
            "test.tsv": tsv(tuple(header[:-1]), (0, *more, "e", "f")),
        },
        rows={
            "train": _dicts(hub, ("A plane.", 'An "air plane.', 5.0, 0), ("a", "b", 3.8, 1)),
            "validation": _dicts(hub, ("c", "d", 0.333, 0)),
            "test": _dicts(hub, ("e", "f", -1.0, 0)),
        },
        classes={},
        targets={"train": [5.0, 3.8], "validation": [0.333], "test": [None]},
    )


def _mnli() -> Sample:
    header = names(
        "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse "
        "sentence2_parse sentence1 sentence2 label1 gold_label"
    )
    empty = ("", "", "", "", "", "", "")
    hub = "premise hypothesis label idx"

    def file(*rows: tuple[str, str, str]) -> str:
        return tsv(tuple(header), *((i, *empty, a, b, c, c) for i, (a, b, c) in enumerate(rows)))

    def hidden(*rows: tuple[str, str]) -> str:
        return tsv(tuple(header[:-2]), *((i, *empty, *row) for i, row in enumerate(rows)))

    return Sample(
        files={
            "train.tsv": file(("p", "q", "contradiction"), ("p", "r", "entailment")),
            "dev_matched.tsv": file(("s", "t", "neutral"), ("u", "v", "-"), ("w", "x", "entailment")),
            "dev_mismatched.tsv": file(("y", "z", "contradiction")),
            "test_matched.tsv": hidden(("1", "2")),
            "test_mismatched.tsv": hidden(("3", "4")),
        },
        rows={
            "train": _dicts(hub, ("p", "q", 2, 0), ("p", "r", 0, 1)),
            "validation": _dicts(hub, ("s", "t", 1, 0), ("w", "x", 0, 2)),
            "validation_mismatched": _dicts(hub, ("y", "z", 2, 0)),
            "test": _dicts(hub, ("1", "2", -1, 0)),
            "test_mismatched": _dicts(hub, ("3", "4", -1, 0)),
        },
        classes={"label": ["entailment", "neutral", "contradiction"]},
        targets={
            "train": [2, 0],
            "validation": [1, 0],
            "validation_mismatched": [2],
            "test": [None],
            "test_mismatched": [None],
        },
    )


def _boolq() -> Sample:
    train = _dicts("question passage idx", ("is it", "It -- it is.", 0), ("or not", "It -- it is.", 1))
    held = _dicts("question passage idx", ("why", "Other -- no.", 0))
    return Sample(
        files={
            "train.jsonl": jsonl({**train[0], "label": True}, {**train[1], "label": False}),
            "val.jsonl": jsonl({**held[0], "label": False}),
            "test.jsonl": jsonl(*held),
        },
        rows={
            "train": [{**train[0], "label": 1}, {**train[1], "label": 0}],
            "validation": [{**held[0], "label": 0}],
            "test": [{**held[0], "label": -1}],
        },
        classes={"label": ["False", "True"]},
        targets={"train": [1, 0], "validation": [0], "test": [None]},
    )


def _yelp() -> Sample:
    return Sample(
        files={
            "train.csv": '"2","Good ""stuff"", I say.\\nAgain!"\n"1"," Bad, so bad. "\n',
            "test.csv": '"1","No."\n',
        },
        rows={
            "train": _dicts("text label", ('Good ""stuff"", I say.\\nAgain!', 1), ("Bad, so bad.", 0)),
            "test": _dicts("text label", ("No.", 0)),
        },
        classes={"label": ["1", "2"]},
        targets={"train": [1, 0], "test": [0]},
    )


def _hellaswag() -> Sample:
    def row(i: int, label: Any) -> dict[str, Any]:
        return {
            "ind": i,
            "activity_label": "Roof",
            "ctx_a": f"A man {i} sits. [title] Up",
            "ctx_b": "he",
            "ctx": f"A man {i} sits. [title] Up he",
            "endings": ["falls.", "sings [step] a song.", "is off.", "stays."],
            "source_id": "x",
            "split": "s",
            "split_type": "indomain",
            "label": label,
        }

    hidden = row(3, "")
    return Sample(
        files={
            "hellaswag_train.jsonl": jsonl(row(0, 3), row(1, 0)),
            "hellaswag_val.jsonl": jsonl(row(2, 1)),
            "hellaswag_test.jsonl": jsonl({k: v for k, v in hidden.items() if k != "label"}),
        },
        rows={"train": [row(0, "3"), row(1, "0")], "validation": [row(2, "1")], "test": [hidden]},
        classes={},
        targets={"train": [3, 0], "validation": [1], "test": [None]},
    )


def _cosmosqa() -> Sample:
    columns = "id context question answer0 answer1 answer2 answer3 label"
    lines = 'a##1,"We left, ""late"".\nIt rained .",Why ?,x,"y, z",None of the above choices .,w,2\n'
    context = 'We left, "late".\nIt rained .'
    row = ("a##1", context, "Why ?", "x", "y, z", "None of the above choices .", "w", 2)
    other = ("b##2", "c", "d ?", "e", "f", "g", "h", 0)
    hidden = ("c##3", "c", "d ?", "e", "f", "g", "h", -1)
    head = columns.replace(" ", ",") + "\n"
    test = _dicts(columns, hidden)
    return Sample(
        files={
            "train.csv": head + lines,
            "valid.csv": head + "b##2,c,d ?,e,f,g,h,0\n",
            "test.jsonl": jsonl({k: v for k, v in test[0].items() if k != "label"}),
        },
        rows={"train": _dicts(columns, row), "validation": _dicts(columns, other), "test": test},
        classes={},
        targets={"train": [2], "validation": [0], "test": [None]},
    )


def _socialiqa() -> Sample:
    columns = "context question answerA answerB answerC"
    train = _dicts(columns, ("Jan ran.", "Why?", "a", "b", "c"), ("Jan ran.", "What?", "d", "e", "f"))
    held = _dicts(columns, ("Kai sat.", "Why?", "g", "h", "i"))
    return Sample(
        files={
            "train.jsonl": jsonl(*train),
            "train-labels.lst": "3\n1\n",
            "dev.jsonl": jsonl(*held),
            "dev-labels.lst": "2\n",
        },
        rows={
            "train": [{**train[0], "label": "3\n"}, {**train[1], "label": "1\n"}],
            "validation": [{**held[0], "label": "2"}],
        },
        classes={},
        targets={"train": [2, 0], "validation": [1]},
    )


def _squad(version: str) -> Sample:
    passage = "The river Rhine rises in the Alps, the Alps."
    answers = [[(29, "Alps"), (39, "Alps")], [(4, "river Rhine")] if version == "1.1" else []]

    def hub(i: int) -> dict[str, Any]:
        return {
            "id": f"q{i}",
            "title": "Rhine",
            "context": passage,
            "question": f"Question {i}?",
            "answers": {"text": [t for _, t in answers[i]], "answer_start": [s for s, _ in answers[i]]},
        }

    def file(*numbers: int) -> str:
        asked = [
            {
                "id": f"q{i}",
                "question": f"Question {i}?",
                "answers": [{"text": t, "answer_start": s} for s, t in answers[i]],
            }
            for i in numbers
        ]
        article = {"title": "Rhine", "paragraphs": [{"context": passage, "qas": asked}]}
        return json.dumps({"version": version, "data": [article]})

    return Sample(
        files={f"train-v{version}.json": file(0, 1), f"dev-v{version}.json": file(1)},
        rows={"train": [hub(0), hub(1)], "validation": [hub(1)]},
        classes={},
        targets={"train": [tuple(a) for a in answers], "validation": [tuple(answers[1])]},
    )


_CONLLU = """# sent_id = doc-{0}-0001
# text = He can't.
1\tHe\the\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tca\tcan\tAUX\tMD\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t0:root\t_
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

# sent_id = doc-{0}-0002
# text = Go
1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_

# sent_id = other-{0}-0001
# text = Yes
1\tYes\tyes\tINTJ\tUH\t_\t0\t{1}\t_\t_

"""


def _ud(what: str) -> Sample:
    upos = names("NOUN PUNCT ADP NUM SYM SCONJ ADJ PART DET CCONJ PROPN PRON X _ ADV INTJ VERB AUX")
    splits = {"train": "root", "validation": "discourse", "test": "root"}
    stems = {"train": "train", "validation": "dev", "test": "test"}

    def rows(split: str, last: str) -> list[dict[str, Any]]:
        long = {
            "idx": f"doc-{split}-0001",
            "text": "He can't.",
            "tokens": ["He", "can't", "ca", "n't", "go", "."],
            "upos": [upos.index(tag) for tag in ("PRON", "_", "AUX", "PART", "VERB", "PUNCT")],
            "xpos": ["PRP", None, "MD", "RB", "VB", "."],
            "head": ["2", "None", "0", "2", "None", "2"],
            "deprel": ["nsubj", "_", "root", "advmod", "_", "punct"],
        }
        short = [("doc", "0002", "Go", "VERB", "VB", "root"), ("other", "0001", "Yes", "INTJ", "UH", last)]
        return [
            long,
            *(
                {
                    "idx": f"{document}-{split}-{number}",
                    "text": word,
                    "tokens": [word],
                    "upos": [upos.index(tag)],
                    "xpos": [own],
                    "head": ["0"],
                    "deprel": [relation],
                }
                for document, number, word, tag, own, relation in short
            ),
        ]

    # In the order of the labels: sorted those of train, then what only others have.
    trees = [((2, 1), (0, 3), (2, 0), (2, 2)), ((0, 3),), ((0, 3),)]
    targets: dict[str, dict[str, list[Any]]] = {
        "parsing": {"train": trees, "validation": [*trees[:2], ((0, 4),)], "test": trees},
        "upos": {split: [(10, 3, 9, 12), (15,), (6,)] for split in splits},
        "xpos": {split: [(2, 1, 3, 0), (5,), (4,)] for split in splits},
    }
    return Sample(
        files={
            f"en_ewt-ud-{stems[split]}.conllu": _CONLLU.format(split, last) for split, last in splits.items()
        },
        rows={split: rows(split, last) for split, last in splits.items()},
        classes={"upos": upos},
        targets=targets[what],
    )


def _ner() -> Sample:
    tags = TASKS["ner"].labels
    first = "-DOCSTART- -X- -X- O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nBonn NNP I-NP I-LOC\n"
    first += "Rome NNP I-NP B-LOC\n"
    row = {"id": "0", "tokens": ["EU", "rejects", "Bonn", "Rome"], "ner_tags": [3, 0, 5, 5]}
    other = {"id": "0", "tokens": ["Ann", "Lee"], "ner_tags": [1, 2]}
    return Sample(
        files={
            "train.txt": f"{first}\nPeter NNP I-NP B-PER\n",
            "valid.txt": "Ann NNP I-NP I-PER\nLee NNP I-NP I-PER\n\n",
            "test.txt": "Ann NNP I-NP B-PER\nLee NNP I-NP I-PER\n\n",
        },
        rows={
            "train": [row, {"id": "1", "tokens": ["Peter"], "ner_tags": [1]}],
            "validation": [other],
            "test": [other],
        },
        classes={"ner_tags": list(tags)},
        targets={"train": [(3, 0, 5, 5), (1,)], "validation": [(1, 2)], "test": [(1, 2)]},
    )


def _semeval() -> Sample:
    labels = TASKS["semeval2010-8"].labels
    one, two = "The <e1>key</e1> of the <e2>door</e2>.", 'He "said" <e1>a</e1> and <e2>b</e2>.'
    return Sample(
        files={
            "TRAIN_FILE.TXT": f'1\t"{one}"\r\nComponent-Whole(e1,e2)\r\nComment: so\r\n\r\n'
            f'2\t"{two}"\r\nOther\r\nComment:\r\n\r\n',
            "TEST_FILE_FULL.TXT": f'8001\t"{one}"\r\nComponent-Whole(e2,e1)\r\nComment:\r\n\r\n',
        },
        rows={
            "train": _dicts("sentence relation", (one, 2), (two, 18)),
            "test": _dicts("sentence relation", (one, 3)),
        },
        classes={"relation": list(labels)},
        targets={"train": [2, 18], "test": [3]},
    )


def _lines() -> Sample:
    train, other = " = Title = \n\n First line . \n Second line . \n\n", " One . \n"
    return Sample(
        files={"wiki.train.raw": train, "wiki.valid.raw": other, "wiki.test.raw": other},
        rows={
            "train": [
                {"text": t} for t in (" = Title = \n", "", " First line . \n", " Second line . \n", "")
            ],
            "validation": [{"text": " One . \n"}],
            "test": [{"text": " One . \n"}],
        },
        classes={},
        targets={"train": [None] * 3, "validation": [None], "test": [None]},
    )


_ENTAILED = ["entailment", "not_entailment"]
_SENTENCES = "index sentence1 sentence2 label"

SAMPLES: Mapping[str, Callable[[], Sample]] = {
    "boolq": _boolq,
    "cola": _cola,
    "cosmosqa": _cosmosqa,
    "ewt-parsing": lambda: _ud("parsing"),
    "ewt-upos": lambda: _ud("upos"),
    "ewt-xpos": lambda: _ud("xpos"),
    "hellaswag": _hellaswag,
    "language-modeling": _lines,
    "mnli": _mnli,
    "mrpc": _mrpc,
    "ner": _ner,
    "qnli": lambda: _pairs(
        "index question sentence label", "question sentence label idx", _ENTAILED, _ENTAILED
    ),
    "qqp": _qqp,
    "rte": lambda: _pairs(_SENTENCES, "sentence1 sentence2 label idx", _ENTAILED, _ENTAILED),
    "semeval2010-8": _semeval,
    "socialiqa": _socialiqa,
    "squad": lambda: _squad("1.1"),
    "squad2": lambda: _squad("2.0"),
    "sst2": _sst2,
    "stsb": _stsb,
    "wnli": lambda: _pairs(_SENTENCES, "sentence1 sentence2 label idx", _ENTAILED[::-1], ["0", "1"]),
    "yelp": _yelp,
}


def write_files(name: str, folder: Path) -> Path:
    """Write the original files, under the usual name of the task's folder; give the folder above it."""
    place = folder / TASKS[name].local.folders[0]
    place.mkdir(parents=True, exist_ok=True)
    for file, content in SAMPLES[name]().files.items():
        (place / file).write_bytes(content.encode())
    return folder


def write_hub(name: str, folder: Path) -> Path:
    """Write a folder in the form of the hub: Parquet files, and a card that names them."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from datasets import ClassLabel, Features, Value
    from datasets import List as Several

    hub, sample = TASKS[name].hub, SAMPLES[name]()
    assert hub is not None
    folder.mkdir(parents=True, exist_ok=True)
    told = ["---", "configs:", f"- config_name: {hub.config or 'default'}", "  data_files:"]
    for split, rows in sample.rows.items():
        table = pa.Table.from_pylist(rows)
        features = Features.from_arrow_schema(table.schema)
        for column, names in sample.classes.items():
            known = ClassLabel(names=names)
            features[column] = known if isinstance(features[column], Value) else Several(known)
        file = f"{hub.splits[split]}.parquet"
        pq.write_table(table.cast(features.arrow_schema), folder / file)
        told += [f"  - split: {hub.splits[split]}", f"    path: {file}"]
    (folder / "README.md").write_text("\n".join([*told, "---", ""]))
    return folder
