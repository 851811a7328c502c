"""Live tuning: a control is released, the picture changes, the fit follows."""

from gdm_core.analysis.matching import in_order as in_order
from pages.lab.live.answers import Answer as Answer
from pages.lab.live.pictures import Shown as Shown
from pages.lab.live.pictures import Wanted as Wanted
from pages.lab.live.screen import COLOURS as COLOURS
from pages.lab.live.screen import beforehand as beforehand
from pages.lab.live.screen import cancel_button as cancel_button
from pages.lab.live.screen import fit as fit
from pages.lab.live.screen import let_go as let_go
from pages.lab.live.screen import open_settings as open_settings
from pages.lab.live.screen import problem as problem
from pages.lab.live.screen import progress as progress
from pages.lab.live.screen import region as region
from pages.lab.live.screen import share_colours as share_colours
from pages.lab.live.screen import states_of as states_of
from pages.lab.live.screen import unanswered as unanswered
from pages.lab.live.screen import visitor as visitor
from pages.lab.live.screen import watch as watch
from pages.lab.live.session import Live as Live
