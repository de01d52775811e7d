"""BibTeX entries of the measures, by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

CITATIONS: Mapping[str, str] = MappingProxyType(
    {
        "kornblith2019": """@inproceedings{kornblith2019,
  author = {Kornblith, Simon and Norouzi, Mohammad and Lee, Honglak and Hinton, Geoffrey},
  title = {Similarity of Neural Network Representations Revisited},
  booktitle = {Proceedings of the 36th International Conference on Machine Learning},
  year = {2019}
}""",
        "song2012": """@article{song2012,
  author = {Song, Le and Smola, Alex and Gretton, Arthur and Bedo, Justin and Borgwardt, Karsten},
  title = {Feature Selection via Dependence Maximization},
  journal = {Journal of Machine Learning Research},
  volume = {13},
  year = {2012}
}""",
        "gretton2005": """@inproceedings{gretton2005,
  author = {Gretton, Arthur and Bousquet, Olivier and Smola, Alex and Sch{\\"o}lkopf, Bernhard},
  title = {Measuring Statistical Dependence with {H}ilbert-{S}chmidt Norms},
  booktitle = {Algorithmic Learning Theory},
  year = {2005}
}""",
        "hotelling1936": """@article{hotelling1936,
  author = {Hotelling, Harold},
  title = {Relations Between Two Sets of Variates},
  journal = {Biometrika},
  volume = {28},
  year = {1936}
}""",
        "raghu2017": """@inproceedings{raghu2017,
  author = {Raghu, Maithra and Gilmer, Justin and Yosinski, Jason and Sohl-Dickstein, Jascha},
  title = {{SVCCA}: Singular Vector Canonical Correlation Analysis for Deep Learning Dynamics and Interpretability},
  booktitle = {Advances in Neural Information Processing Systems 30},
  year = {2017}
}""",
        "morcos2018": """@inproceedings{morcos2018,
  author = {Morcos, Ari and Raghu, Maithra and Bengio, Samy},
  title = {Insights on Representational Similarity in Neural Networks with Canonical Correlation},
  booktitle = {Advances in Neural Information Processing Systems 31},
  year = {2018}
}""",
        "wu2020": """@inproceedings{wu2020,
  author = {Wu, John and Belinkov, Yonatan and Sajjad, Hassan and Durrani, Nadir and Dalvi, Fahim and Glass, James},
  title = {Similarity Analysis of Contextual Word Representation Models},
  booktitle = {Proceedings of the 58th Annual Meeting of the Association for Computational Linguistics},
  year = {2020}
}""",
        "bau2019": """@inproceedings{bau2019,
  author = {Bau, Anthony and Belinkov, Yonatan and Sajjad, Hassan and Durrani, Nadir and Dalvi, Fahim and Glass, James},
  title = {Identifying and Controlling Important Neurons in Neural Machine Translation},
  booktitle = {International Conference on Learning Representations},
  year = {2019}
}""",
        "li2015": """@inproceedings{li2015,
  author = {Li, Yixuan and Yosinski, Jason and Clune, Jeff and Lipson, Hod and Hopcroft, John},
  title = {Convergent Learning: Do Different Neural Networks Learn the Same Representations?},
  booktitle = {Feature Extraction: Modern Questions and Challenges, NIPS Workshop},
  year = {2015}
}""",
        "kriegeskorte2008": """@article{kriegeskorte2008,
  author = {Kriegeskorte, Nikolaus and Mur, Marieke and Bandettini, Peter},
  title = {Representational Similarity Analysis: Connecting the Branches of Systems Neuroscience},
  journal = {Frontiers in Systems Neuroscience},
  volume = {2},
  year = {2008}
}""",
        "merchant2020": """@inproceedings{merchant2020,
  author = {Merchant, Amil and Rahimtoroghi, Elahe and Pavlick, Ellie and Tenney, Ian},
  title = {What Happens To {BERT} Embeddings During Fine-tuning?},
  booktitle = {Proceedings of the Third BlackboxNLP Workshop},
  year = {2020}
}""",
        "williams2021": """@inproceedings{williams2021,
  author = {Williams, Alex H. and Kunz, Erin and Kornblith, Simon and Linderman, Scott},
  title = {Generalized Shape Metrics on Neural Representations},
  booktitle = {Advances in Neural Information Processing Systems 34},
  year = {2021}
}""",
        "huh2024": """@inproceedings{huh2024,
  author = {Huh, Minyoung and Cheung, Brian and Wang, Tongzhou and Isola, Phillip},
  title = {The Platonic Representation Hypothesis},
  booktitle = {Proceedings of the 41st International Conference on Machine Learning},
  year = {2024}
}""",
        "wachter1980": """@article{wachter1980,
  author = {Wachter, Kenneth W.},
  title = {The Limiting Empirical Measure of Multiple Discriminant Ratios},
  journal = {Annals of Statistics},
  volume = {8},
  year = {1980}
}""",
        "phang2021": """@inproceedings{phang2021,
  author = {Phang, Jason and Liu, Haokun and Bowman, Samuel R.},
  title = {Fine-Tuned Transformers Show Clusters of Similar Representations Across Layers},
  booktitle = {Proceedings of the Fourth BlackboxNLP Workshop},
  year = {2021}
}""",
    }
)


def bibtex(keys: Iterable[str]) -> str:
    """Join the entries of the given keys, each once, in the order of first mention."""
    return "\n\n".join(CITATIONS[key] for key in dict.fromkeys(keys)) + "\n"
