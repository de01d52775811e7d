"""Which families are there? All of them, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..errors import unknown
from .families.albert import ALBERT
from .families.bert import BERT
from .families.deberta import DEBERTA, DEBERTA_V2
from .families.distilbert import DISTILBERT
from .families.electra import ELECTRA
from .families.elmo import ELMO, TRANSFORMER_ELMO
from .families.gpt2 import GPT2
from .families.llama import LLAMA
from .families.modernbert import MODERNBERT
from .families.mpnet import MPNET
from .families.openai_gpt import OPENAI_GPT
from .families.roberta import ROBERTA
from .families.xlnet import XLNET
from .family import Family

_ALL = (BERT, ROBERTA, ELECTRA, ALBERT, DISTILBERT, DEBERTA, DEBERTA_V2, MPNET, XLNET)
_ALL += (OPENAI_GPT, GPT2, MODERNBERT, LLAMA, ELMO, TRANSFORMER_ELMO)
FAMILIES: Mapping[str, Family] = MappingProxyType({family.name: family for family in _ALL})


def family_of(model_type: str) -> Family:
    """Find the family by what a model's configuration calls itself."""
    by_type = {kind: family for family in FAMILIES.values() for kind in family.model_types}
    if model_type not in by_type:
        raise unknown("model type", model_type, by_type)
    return by_type[model_type]
