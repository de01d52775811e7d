"""Methods paragraphs of probing, for a paper."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ...context import Context
from ...findings.words import counted, with_article
from ...probes.dataset import Asked
from ...scores.table import find_score
from ...version import VERSION
from .task_heads import VECTOR, reads_of

if TYPE_CHECKING:
    from .inputs import AnnotationInputs
    from .probing import Probing
    from .task_probing import TaskInputs

_SUBWORDS = MappingProxyType(
    {
        "last": "A word is represented by its last subword.",
        "mean": "A word is represented by the mean of its subwords.",
        "each": "A span is pooled over all subwords of its words.",
    }
)
_INPUTS = MappingProxyType(
    {"single": "one layer", "upto": "the mix of all layers up to one", "mix": "the mix of all layers"}
)


def annotation_methods(experiment: Probing, inputs: AnnotationInputs, asked: Asked, context: Context) -> str:
    """Describe probes of annotation."""
    annotated, probe, names = inputs.annotated, inputs.probe, inputs.names
    train, held, judged = (f"{len(part):,}" for part in (asked.train, asked.held, asked.judged))
    texts = ", ".join(dict.fromkeys(str(text["name"]) for text in annotated.texts)) or annotated.source
    size, steps = experiment.size, experiment.steps
    parts = [
        f"Every layer of {', '.join(names)} was probed for {annotated.target.name} by "
        f"{with_article(probe.name)} probe ({probe.about}), trained on {train} sentences and tested on "
        f"{judged} others ({asked.split}), all of {texts}.",
        "Every model ran once over the corpus, and all were probed on the same words."
        if len(inputs.encoders) > 1
        else "The model ran once over the corpus.",
        _SUBWORDS[probe.subword],
    ]
    if list(experiment.layers) != ["single"]:
        parts.append(
            f"Probes read {' or '.join(_INPUTS[kind] for kind in experiment.layers)}; weights of a mix are a "
            "softmax, learned with the probe, times a learned number (Tenney et al. 2019)."
        )
    if size is not None:
        parts.append(
            f"Probes read the {size} principal component{'' if size == 1 else 's'} of largest variance of "
            "each layer, of features of variance 1."
        )
    if steps is not None:
        parts.append(f"Training ended after at most {counted(steps, 'update')}.")
    if probe.seeded:
        parts.append(
            f"{held} further sentences served for early stopping; seeds {', '.join(map(str, asked.seeds))}."
        )
    if experiment.random_baselines:
        parts.append("The random baseline is a randomly initialized copy of the first model.")
    if experiment.draws:
        parts.append(
            f"Labels of the control task are drawn for every type of "
            f"{'word' if probe.kind == 'words' else 'span'} from the frequencies of the labels (Hewitt and "
            "Liang 2019), "
            + (
                "once."
                if experiment.draws == 1
                else f"{experiment.draws} times, and intervals cover other draws."
            )
        )
    parts.append(
        f"Intervals of {context.level * 100:g}% are over {asked.units_judged:,} {asked.unit}s; bands "
        f"hold for all layers at once. Computed with microtome {VERSION}."
    )
    return " ".join(parts)


def task_methods(experiment: Probing, inputs: TaskInputs, context: Context) -> str:
    """Describe heads of a task."""
    task, recipe, judged = inputs.task, inputs.recipe, inputs.judged
    score = find_score(task.main)
    models = {name: inputs.models[name].task_model for name in inputs.names}
    norm = any(model.family.final_norm is not None for model in models.values())
    parts = [
        f"Every layer of {', '.join(models)}, with all weights frozen, was probed for the labels of "
        f"{task.name}, from the layer's vector of the whole input{' behind the final norm' * norm}. Heads "
        f"were trained on {len(inputs.train):,} examples of {task.name}/{task.train}, of at most "
        f"{recipe.longest} tokens; one pass of each model, in evaluation mode, fed those of all layers."
    ]
    if "published" in inputs.solvers:
        reads = " or ".join(sorted({reads_of(model.head) for model in models.values()}))
        parts.append(
            f"Published heads are a linear layer on {reads}, which is frozen (Tamkin et al. 2020), trained "
            f"by the recipe {recipe.name}: batches of {recipe.batch}, learning rate {recipe.rate:g}, "
            f"{recipe.epochs:g} epoch{'' if recipe.epochs == 1 else 's'} "
            f"({counted(recipe.updates(len(inputs.train)), 'update')}), seeds "
            f"{', '.join(map(str, experiment.probe_seeds))}. So small a rate leaves such a head far from "
            "convergence."
        )
    if "converged" in inputs.solvers:
        parts.append(
            f"Converged heads are {inputs.regression} regression on the vector itself, without a pooler, "
            "with features of variance 1 and a penalty chosen for each layer on held-out training examples."
        )
    if experiment.random_baselines:
        pooler = ", with a pooler of its own" if reads_of(next(iter(models.values())).head) != VECTOR else ""
        parts.append(f"The random baseline is a randomly initialized copy of the first model{pooler}.")
    parts.append(
        f"Scores are {score.name} on {len(judged):,} examples of {judged.name}. Intervals of "
        f"{context.level * 100:g}% are over examples and, with several seeds, over head seeds; bands "
        f"hold for all layers at once. Computed with microtome {VERSION}."
    )
    return " ".join(parts)


def code_methods(asked: Asked, inputs: AnnotationInputs, words: int, unit: str, context: Context) -> str:
    """Describe an online code."""
    return (
        f"Labels of {inputs.annotated.target.name} of {words:,} words in {len(asked.train):,} sentences of "
        f"{asked.annotated.source} were coded block by block given each layer of "
        f"{', '.join(inputs.names)} (online code, Voita and Titov 2020): the first block with all labels "
        "equally likely, each further one with a linear probe (logistic regression) trained on the blocks "
        f"before it. Blocks end at 0.1 to 100 % of the words, at the end of a sentence. Intervals of "
        f"{context.level * 100:g}% are over {unit}s within blocks; bands hold for all layers at once. "
        f"Computed with microtome {VERSION}."
    )
