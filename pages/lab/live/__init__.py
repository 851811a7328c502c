"""Live tuning: a control is released, the fit follows, and the page shows it."""

from pages.lab.live.panels import close_fit as close_fit
from pages.lab.live.panels import draw_panels as draw_panels
from pages.lab.live.panels import estimate_wait as estimate_wait
from pages.lab.live.panels import keep_colours as keep_colours
from pages.lab.live.panels import make_progress as make_progress
from pages.lab.live.panels import open_fit as open_fit
from pages.lab.live.panels import require_open_fit as require_open_fit
from pages.lab.live.panels import rerun_when_answered as rerun_when_answered
from pages.lab.live.panels import show_cancel as show_cancel
from pages.lab.live.panels import show_failure as show_failure
from pages.lab.live.panels import show_problem as show_problem
from pages.lab.live.panels import visitor as visitor
from pages.lab.live.queries import Query as Query
from pages.lab.live.session import FitSession as FitSession
from pages.lab.live.state import FitState as FitState
