"""Export & reproduce: what a page shows, to take along. pages/lab/export.py offers it."""

from pages.ui.exports import legend
from pages.ui.exports.address import install, link, slug
from pages.ui.exports.code import Fit, Recipe, notebook, script
from pages.ui.exports.pictures import figure_html, plain_score, report_html
from pages.ui.exports.save import save_picture
from pages.ui.exports.tables import parquet

__all__ = [
    "Fit",
    "Recipe",
    "figure_html",
    "install",
    "legend",
    "link",
    "notebook",
    "parquet",
    "plain_score",
    "report_html",
    "save_picture",
    "script",
    "slug",
]
