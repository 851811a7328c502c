"""What is measured of a fitted model. Nothing here draws."""
