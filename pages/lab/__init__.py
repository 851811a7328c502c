"""Shared parts of pages with a fit: fit, view, tabs, card and export. A page adds its data, picture and scores.

docs/change.md lists what a page provides; tests/support/pendulum_page.py is a complete one.

view.read(now) returns one trial with its states (`states` in the order of colours, `state` for plot(), `note` for the caption).
view.query(name, function, ...) calls a function of the library with the fitted model on a worker.
"""

from pages.lab.card import query_scores as query_scores
from pages.lab.card import show_scorecard as show_scorecard
from pages.lab.curves import show_curves as show_curves
from pages.lab.dataset import Dataset as Dataset
from pages.lab.decoded import Decoded as Decoded
from pages.lab.decoded import Undecoded as Undecoded
from pages.lab.decoded import together as together
from pages.lab.explain import show_explanation as show_explanation
from pages.lab.export import show_export as show_export
from pages.lab.live.state import Measure as Measure
from pages.lab.live.state import PageSpec as PageSpec
from pages.lab.moment import show_clock as show_clock
from pages.lab.moment import show_moment as show_moment
from pages.lab.slider_preview import SliderPreview as SliderPreview
from pages.lab.slider_preview import preview as preview
from pages.lab.suggest import show_suggestion as show_suggestion
from pages.lab.tabs import show_dwell_times as show_dwell_times
from pages.lab.tabs import show_prediction as show_prediction
from pages.lab.tabs import show_shares as show_shares
from pages.lab.tabs import show_tabs as show_tabs
from pages.lab.tabs import show_transitions as show_transitions
from pages.lab.view import LAST_FIT as LAST_FIT
from pages.lab.view import View as View
from pages.lab.view import begin as begin
from pages.lab.view import choose_filtered as choose_filtered
from pages.lab.view import end as end
from pages.lab.view import picture as picture
