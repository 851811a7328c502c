"""Measurements of fitted models. Figures are elsewhere."""
