"""Numbers of the paper and of its released code. Our own numbers are measured."""

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
# The authors' code (yiliuw/GDM, lindermanlab/ssm, pdLDS 0.14) on simulations with their arguments: ten seeds under the
# notebooks' protocol, and 100 draws of an untrained encoder.
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
# From the authors' notebooks: one real race of about 21,000 samples, 16 segments, another driver.
RELEASED_F1 = (
    "GDM, K = 3: 0.58 to 0.66 · K = 4: 0.43 to 0.72 · K = 8: 0.70 to 0.73 · K = 9: 0.74, 50 to 102 s per fit on a GPU; "
    "rSLDS, K = 2 to 10: 0.04 to 0.44"
)
# CalMS21, K = 5, test trials pooled: from the authors' notebooks (the paper shows them as a figure), and the majority class
# on the same frames.
CALMS21 = {
    "GDM": ("0.83", "0.83", "0.592"),
    "GDM with a GRU": ("0.88", "0.88", "0.553"),
    "rSLDS": ("0.66", "0.68", "0.07 to 0.60 per trial"),
    "majority class": ("", "", "0.597"),
}
