"""Export & reproduce: what a page shows, to take along. pages/lab/export.py offers it."""

from pages.ui.exports import legend as legend
from pages.ui.exports.code import Fit as Fit
from pages.ui.exports.code import Recipe as Recipe
from pages.ui.exports.code import install as install
from pages.ui.exports.code import link as link
from pages.ui.exports.code import notebook as notebook
from pages.ui.exports.code import script as script
from pages.ui.exports.code import slug as slug
from pages.ui.exports.pictures import figure_html as figure_html
from pages.ui.exports.pictures import plain_score as plain_score
from pages.ui.exports.pictures import report_html as report_html
from pages.ui.exports.pictures import save_picture as save_picture
