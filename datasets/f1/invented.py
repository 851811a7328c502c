"""Twenty drivers of simulated races. None of them, and none of their teams, exists."""

from __future__ import annotations

from collections.abc import Sequence

from gdm_core.errors import ConfigError

# code, name, team, colour
DRIVERS = (
    ("APX", "Alma Apex", "Amber", "#e1a100"),
    ("BRK", "Bruno Brake", "Amber", "#e1a100"),
    ("CHI", "Cleo Chicane", "Birch", "#4f9d69"),
    ("DRF", "Dario Draft", "Birch", "#4f9d69"),
    ("ESS", "Edda Esses", "Cobalt", "#2454c4"),
    ("FLT", "Faro Flatout", "Cobalt", "#2454c4"),
    ("GRV", "Gwen Gravel", "Delta", "#8a5a44"),
    ("HPN", "Hugo Hairpin", "Delta", "#8a5a44"),
    ("INL", "Ines Inlap", "Ember", "#c4342b"),
    ("KRB", "Kato Kerb", "Ember", "#c4342b"),
    ("LNE", "Lena Lane", "Fjord", "#2a9fb0"),
    ("MRB", "Milo Marbles", "Fjord", "#2a9fb0"),
    ("NTR", "Nora Neutral", "Garnet", "#a02c5d"),
    ("OVR", "Otto Oversteer", "Garnet", "#a02c5d"),
    ("PTB", "Petra Pitboard", "Harbour", "#5b6b8c"),
    ("QLY", "Quinn Quali", "Harbour", "#5b6b8c"),
    ("RGL", "Rosa Racingline", "Iris", "#7b52ab"),
    ("SLK", "Samu Slick", "Iris", "#7b52ab"),
    ("TYR", "Tilda Tyrewear", "Jade", "#159a82"),
    ("UND", "Udo Undercut", "Jade", "#159a82"),
)


def chosen_drivers(drivers: int | Sequence[str]) -> tuple[tuple[str, str, str, str], ...]:
    if isinstance(drivers, int):
        if not 1 <= drivers <= len(DRIVERS):
            raise ConfigError(f"drivers is {drivers}; it must be between 1 and {len(DRIVERS)}, or a list of codes.")
        return DRIVERS[:drivers]
    known = {entry[0]: entry for entry in DRIVERS}
    if not drivers or (unknown := [code for code in drivers if code not in known]) or len(set(drivers)) != len(drivers):
        wrong = ", ".join(unknown) if drivers and unknown else "nobody, or somebody twice"
        raise ConfigError(f"drivers names {wrong}; the invented drivers are {', '.join(known)}, each once.")
    return tuple(known[code] for code in drivers)
