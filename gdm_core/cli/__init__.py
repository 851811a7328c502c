"""The command line, `python -m gdm_core`: one module a command."""
