"""What to make of each table and figure: why numbers differ, told courteously."""

from __future__ import annotations

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
