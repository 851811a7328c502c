"""Probabilistic decomposed linear dynamical systems (p-dLDS)."""
