"""What the paper and the code released with it say, each with its source, and what to make of it: why numbers differ, told
courteously. Ours are measured, never written here."""

from __future__ import annotations

# Table 1 of the paper: inferred state accuracy, mean and standard deviation over ten seeds.
PAPER = {
    "standard": {
        "SLDS (sticky)": "0.82 ± 0.13",
        "rSLDS (sticky)": "0.76 ± 0.10",
        "rSLDS (RO)": "0.96 ± 0.06",
        "p-dLDS": "0.74 ± 0.01",
        "GDM": "0.88 ± 0.10",
    },
    "soft": {
        "SLDS (sticky)": "0.32 ± 0.02",
        "rSLDS (sticky)": "0.33 ± 0.01",
        "rSLDS (RO)": "0.43 ± 0.09",
        "p-dLDS": "0.34 ± 0.02",
        "GDM": "0.70 ± 0.03",
    },
}
# The authors' own code (yiliuw/GDM, lindermanlab/ssm, pdLDS 0.14), run on simulations with their arguments, ten seeds, under the
# notebooks' protocol; and its encoder before any training, 100 draws.
RELEASED = {
    "standard": {
        "SLDS (sticky)": "0.776",
        "rSLDS (sticky)": "0.780",
        "rSLDS (RO)": "0.934 ± 0.135",
        "p-dLDS": "0.738 ± 0.007",
        "GDM": "0.894 ± 0.051",
        "GDM, untrained": "0.888 ± 0.053",
    },
    "soft": {
        "SLDS (sticky)": "0.322",
        "rSLDS (sticky)": "0.324",
        "rSLDS (RO)": "0.471 ± 0.103",
        "p-dLDS": "0.331 ± 0.014",
        "GDM": "0.685 ± 0.042",
        "GDM, untrained": "0.684 ± 0.039",
    },
}
# Printed in the authors' notebooks: one real race of some 21,000 samples, 16 segments, another driver.
RELEASED_F1 = (
    "GDM, K = 3: 0.58 to 0.66 · K = 4: 0.43 to 0.72 · K = 8: 0.70 to 0.73 · K = 9: 0.74, in 50 to 102 s a fit on a GPU; "
    "rSLDS, K = 2 to 10: 0.04 to 0.44"
)
# CalMS21, K = 5, test trials pooled: printed in the authors' notebooks (the paper shows them as a figure), and what saying the
# commonest behaviour at all times reaches on the same frames.
CALMS21 = {
    "GDM": ("0.83", "0.83", "0.592"),
    "GDM with a GRU": ("0.88", "0.88", "0.553"),
    "rSLDS": ("0.66", "0.68", "0.07 to 0.60 a trial"),
    "majority class": ("", "", "0.597"),
}
SENTENCES: dict[str, tuple[str, ...]] = {
    "table": (
        "Read a row from left to right: the paper, the code its authors released, and the models here under the same "
        "protocol and under one that draws a new track for every seed.",
        "The paper's measure asks ten neighbours what a state vector was called. A state vector that says where the car "
        "is serves that as well as one that knows the state: an encoder that was never trained reaches what the table "
        "reports for the GDM. So the last column asks more: one state for each true one.",
        "Ours is ahead on the soft track mostly because its posterior sees moves, not places alone; the paper's own "
        'form is in the library as preset="paper".',
    ),
    "nascar": (
        "What the paper found holds here, too: soft states blend where the track blends, and p-dLDS, whose weights may "
        "have any sign, does not find them.",
        "The ranges are measured: the caption says how many outcomes they hold.",
    ),
    "formula1": (
        "The paper's finding is that the GDM's states match the corners better than those of an rSLDS at small K.",
        "With more states this measure stops saying anything: untrained models reach as much or more, because many random "
        "stretches of the track are as good as learned ones to a neighbour search. Look at small K, and at what "
        "untrained models reach there.",
        "Laps here are simulated, so that they can ship; the Formula 1 page draws the same curve for any real race.",
    ),
    "usage": (
        "The paper notes that the GDM uses its states unequally: a few are dominant, the others blend in. The bars show "
        "it for the fit of Figure 3.",
    ),
    "mice": (
        "On CalMS21 saying the commonest behaviour at all times is right for 59.7 % of frames; no unsupervised model of "
        "the paper is past that, by this measure. Macro-F1, which Behaviour reports, counts every behaviour alike.",
        "Ours here are fitted on simulated mice, and are not to be held against the rows above them.",
    ),
}
