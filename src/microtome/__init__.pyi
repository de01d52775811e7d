# The public names, and where they are: `__init__.py` reads them from here, so that there is one list.

from . import analysis as analysis
from .comparison.attention import attention_similarity_matrix as attention_similarity_matrix
from .comparison.similarity import similarity as similarity
from .comparison.watching import watch as watch
from .context import Context as Context
from .corpora.table import CORPORA as CORPORA
from .encoders.loading import load as load
from .encoders.series import series as series
from .encoders.table import FAMILIES as FAMILIES
from .errors import MicrotomeError as MicrotomeError
from .experiments.change.change import change as change
from .experiments.change.domains import domains as domains
from .experiments.change.localization import localize as localize
from .experiments.change.trajectory import trajectory as trajectory
from .experiments.change.tuning_methods import tuning_methods as tuning_methods
from .experiments.probing.probing import probe as probe
from .experiments.similarity.comparison import compare as compare
from .experiments.similarity.extraction import extract as extract
from .experiments.similarity.matrix import similarity_matrix as similarity_matrix
from .experiments.surgery.dropping import drop as drop
from .experiments.surgery.freezing import freeze as freeze
from .experiments.surgery.permutation import permute as permute
from .experiments.surgery.reinitialization import reinit as reinit
from .experiments.surgery.skipping import skip as skip
from .experiments.surgery.truncation import truncate as truncate
from .experiments.table import EXPERIMENTS as EXPERIMENTS
from .experiments.tuning.pruning import prune as prune
from .findings.opening import open_found
from .interventions.applying import INTERVENTIONS as INTERVENTIONS
from .interventions.applying import apply as apply
from .interventions.blocks import Freeze as Freeze
from .interventions.blocks import Permute as Permute
from .interventions.blocks import Skip as Skip
from .interventions.blocks import Truncate as Truncate
from .interventions.reinit import Reinit as Reinit
from .measures.table import EVERYTHING
from .report.writing import report as report
from .studies.file import study as study
from .tasks.corpus import corpus as corpus
from .tasks.loading import task as task
from .tasks.subset import held_out as held_out
from .tasks.table import TASKS as TASKS
from .training.evaluating import evaluate as evaluate
from .training.finetuning import finetune as finetune
from .training.heads.head import HEADS as HEADS
from .training.heads.head import Head as Head
from .training.opening import open_tuned as open_tuned
from .training.recipe import RECIPES as RECIPES
from .training.recipe import Recipe as Recipe
from .training.tuned import over_seeds as over_seeds

MEASURES = EVERYTHING
open = open_found

__version__: str
_PUBLIC: dict[str, str]
