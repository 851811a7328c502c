"""Pure functions from arrays to figures. Each returns a `Figure` for `pages.ui.plot.plot`."""

from gdm_core.analysis.tables import entropy_of as entropy_of
from pages.ui.figures.base import Figure as Figure
from pages.ui.figures.base import names_of as names_of
from pages.ui.figures.base import note as note
from pages.ui.figures.curves import envelope as envelope
from pages.ui.figures.curves import heat as heat
from pages.ui.figures.curves import sweep as sweep
from pages.ui.figures.simplex import holding as holding
from pages.ui.figures.simplex import inside as inside
from pages.ui.figures.simplex import simplex as simplex
from pages.ui.figures.simplex import simplex_grid as simplex_grid
from pages.ui.figures.states import dwell as dwell
from pages.ui.figures.states import transition_map as transition_map
from pages.ui.figures.states import transition_matrix as transition_matrix
from pages.ui.figures.states import usage as usage
from pages.ui.figures.states import usage_by_segment as usage_by_segment
from pages.ui.figures.strips import FEW_COLUMNS as FEW_COLUMNS
from pages.ui.figures.strips import channel_strip as channel_strip
from pages.ui.figures.strips import entropy_strip as entropy_strip
from pages.ui.figures.strips import flickers as flickers
from pages.ui.figures.strips import one_hot as one_hot
from pages.ui.figures.strips import proportions as proportions
from pages.ui.figures.strips import state_strips as state_strips
from pages.ui.figures.strips import window_of as window_of
from pages.ui.figures.track import track as track
