# What type checkers and editors read in place of the lazy names of __init__.py; a test compares the two.
from gdm_core.analysis.metrics import evaluate as evaluate
from gdm_core.errors import ConfigError as ConfigError
from gdm_core.errors import DataError as DataError
from gdm_core.errors import FitError as FitError
from gdm_core.errors import GdmError as GdmError
from gdm_core.errors import ModelFileError as ModelFileError
from gdm_core.labels.model import LabelModel as LabelModel
from gdm_core.models.gdm.model import GDM as GDM
from gdm_core.models.loading import load_model as load_model
from gdm_core.models.mixture.model import GDMMixture as GDMMixture
from gdm_core.models.pdlds.model import PDLDS as PDLDS
from gdm_core.models.switching.arhmm import ARHMM as ARHMM
from gdm_core.models.switching.slds import SLDS as SLDS
from gdm_core.study.study import Study as Study
from gdm_core.trials import Trial as Trial
from gdm_core.trials import Trials as Trials
from gdm_core.verbs import compare as compare
from gdm_core.verbs import suggest as suggest
from gdm_core.verbs import sweep as sweep

__version__: str
