"""The Gumbel Dynamical Model (paper, sections 2 and 3)."""
