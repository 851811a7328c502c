"""The 3-level mixture (paper, equation 2.2 and Appendix C)."""
