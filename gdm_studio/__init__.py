"""The command `gdm`, the dashboard, figures, and the loaders as `gdm_studio.datasets`.

    from gdm_studio.datasets import nascar, formula1, tables

In a checkout the dashboard's code (app.py, pages, datasets, assets) is at the top level. An installation puts it into a
private folder of this package, where names such as `datasets` cannot clash with other packages.
"""
