"""The model families: one folder each, behind the verbs of `base.StateModel`, listed in `registry`."""
