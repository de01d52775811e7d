"""BibTeX entries of experiments, by key, written with every result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..errors import unknown
from ..measures.citations import CITATIONS as MEASURED
from ..measures.table import chosen_all

CITATIONS: Mapping[str, str] = MappingProxyType(
    {
        # Also cited for their measures.
        "phang2021": MEASURED["phang2021"],
        "wu2020": MEASURED["wu2020"],
        "merchant2020": MEASURED["merchant2020"],
        "tamkin2020": """@inproceedings{tamkin2020,
  author = {Tamkin, Alex and Singh, Trisha and Giovanardi, Davide and Goodman, Noah},
  title = {Investigating Transferability in Pretrained Language Models},
  booktitle = {Findings of the Association for Computational Linguistics: EMNLP 2020},
  pages = {1393--1401},
  year = {2020}
}""",
        "hewitt2019structural": """@inproceedings{hewitt2019structural,
  author = {Hewitt, John and Manning, Christopher D.},
  title = {A Structural Probe for Finding Syntax in Word Representations},
  booktitle = {Proceedings of NAACL-HLT 2019},
  pages = {4129--4138},
  year = {2019}
}""",
        "hewitt2019control": """@inproceedings{hewitt2019control,
  author = {Hewitt, John and Liang, Percy},
  title = {Designing and Interpreting Probes with Control Tasks},
  booktitle = {Proceedings of EMNLP-IJCNLP 2019},
  pages = {2733--2743},
  year = {2019}
}""",
        "tenney2019": """@inproceedings{tenney2019,
  author = {Tenney, Ian and Xia, Patrick and Chen, Berlin and Wang, Alex and Poliak, Adam and McCoy, R. Thomas
    and Kim, Najoung and Van Durme, Benjamin and Bowman, Samuel R. and Das, Dipanjan and Pavlick, Ellie},
  title = {What do you learn from context? Probing for sentence structure in contextualized word
    representations},
  booktitle = {International Conference on Learning Representations},
  year = {2019}
}""",
        "tenney2019pipeline": """@inproceedings{tenney2019pipeline,
  author = {Tenney, Ian and Das, Dipanjan and Pavlick, Ellie},
  title = {{BERT} Rediscovers the Classical {NLP} Pipeline},
  booktitle = {Proceedings of the 57th Annual Meeting of the Association for Computational Linguistics},
  pages = {4593--4601},
  year = {2019}
}""",
        "voita2020": """@inproceedings{voita2020,
  author = {Voita, Elena and Titov, Ivan},
  title = {Information-Theoretic Probing with Minimum Description Length},
  booktitle = {Proceedings of EMNLP 2020},
  pages = {183--196},
  year = {2020}
}""",
        "hu2022": """@inproceedings{hu2022,
  author = {Hu, Edward J. and Shen, Yelong and Wallis, Phillip and Allen-Zhu, Zeyuan and Li, Yuanzhi and
    Wang, Shean and Wang, Lu and Chen, Weizhu},
  title = {{LoRA}: Low-Rank Adaptation of Large Language Models},
  booktitle = {International Conference on Learning Representations},
  year = {2022}
}""",
        "benzaken2022": """@inproceedings{benzaken2022,
  author = {Ben Zaken, Elad and Goldberg, Yoav and Ravfogel, Shauli},
  title = {{BitFit}: Simple Parameter-efficient Fine-tuning for Transformer-based Masked Language-models},
  booktitle = {Proceedings of the 60th Annual Meeting of the Association for Computational Linguistics
    (Volume 2: Short Papers)},
  pages = {1--9},
  year = {2022}
}""",
        "sajjad2023": """@article{sajjad2023,
  author = {Sajjad, Hassan and Dalvi, Fahim and Durrani, Nadir and Nakov, Preslav},
  title = {On the Effect of Dropping Layers of Pre-trained Transformer Models},
  journal = {Computer Speech and Language},
  volume = {77},
  year = {2023}
}""",
    }
)


def cited(*keys: str, measures: str | Iterable[str] = ()) -> tuple[str, ...]:
    """
    Find the entries of some keys, and of measures that were computed.

    Parameters
    ----------
    *keys : str
    measures : str or sequence of str
        Names of `microtome ls measures`; those of one's own may cite what is not known here.

    Returns
    -------
    tuple of str
        Each once, in the order of first mention.
    """
    for key in keys:
        if key not in CITATIONS:
            raise unknown("citation", key, CITATIONS)
    choices = chosen_all(measures) if measures else ()
    named = dict.fromkeys([*keys, *(key for choice in choices for key in choice.measure.citations)])
    entries = {**MEASURED, **CITATIONS}
    return tuple(entries[key] for key in named if key in entries)
