"""GDM Studio as one installs it: the command `gdm`, the dashboard it opens, and the loaders under a name of their own.

    from gdm_studio.datasets import nascar, formula1, tables

The dashboard's own code (app.py, pages, datasets, assets) has short top-level names in a checkout. Installed, it lies in
one private folder of this package, so that nobody's `datasets`, `pages` or `tests` is taken away.
"""
