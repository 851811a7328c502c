"""What a design cannot say: refused where nothing can be said, else told beside the answer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.study.design import Design
from gdm_core.study.permutation import smallest_p
from gdm_core.study.sheet import listed

LEVEL = 0.05


def check_sizes(design: Design) -> None:
    word = design.unit_word
    if not len(design.units):
        raise DataError(f"No {word} has two of the values that are compared, so nothing can be paired.")
    if design.paired:
        if (n := len(np.unique(design.subjects))) < 2:
            raise DataError(
                f"Only one {word} can be paired; how much {word}s differ is unknown. At least 2 are needed."
            )
        return
    for j, factor in enumerate(design.factors):
        sizes = np.bincount(design.levels[:, j], minlength=len(factor.levels))
        single = [words for words, n in zip(factor.words, sizes, strict=True) if n < 2]
        if single and len(factor.levels) == 2:
            raise DataError(
                f"Of {factor.name} {single[0]!r} there is a single {word}, so how much {word}s of it differ is unknown and "
                f"nothing can be said of the group. Add {word}s, or compare other groups with where."
            )
        if len(sizes) >= (n := int(sizes.sum())) and not (factor.numeric and n > 2):
            raise DataError(
                f"{factor.name!r} has {len(sizes)} groups of {n} {word}s: each group needs more than one {word}. Join groups, or "
                "compare fewer with where."
            )


def limits_of(design: Design, trend: bool, n_permutations: int, n_rows: int) -> list[str]:
    """What this design cannot say, in sentences."""
    said: list[str] = []
    if len(design.factors) > 1:
        return said
    factor, word = design.factors[0], design.unit_word
    sizes = np.bincount(design.levels[:, 0], minlength=len(factor.levels))
    single = [words for words, n in zip(factor.words, sizes, strict=True) if n == 1]
    if single and not trend:
        said.append(
            f"A single {word} stands for {factor.name} {listed(single)}: of that group alone nothing can be said."
        )
    least, group = smallest_p(design.levels[:, 0], design.strata), _sizes(design)
    if least >= LEVEL:
        said += out_of_reach(design)
    elif n_rows > 1 and least * n_rows >= LEVEL:
        said.append(
            f"With {group} the smallest p possible is {least:.2g}: corrected for {n_rows} rows (Holm) none can be below {LEVEL:g}. "
            "Ask of fewer states or one measure."
        )
    if n_rows > 1 and n_rows / (n_permutations + 1) >= LEVEL:
        said.append(
            f"{n_permutations:,} permutations are too few for {n_rows} rows: corrected, no p can be below {LEVEL:g}."
        )
    if len(sizes) == 2 and not trend and min(sizes) > 1:
        detectable = _detectable(sizes, design.paired)
        said.append(
            f"A difference below {detectable:.1f} standard deviations between {word}s would be missed more often than in one study "
            "of five: no difference found does not mean none."
        )
    return said


def out_of_reach(design: Design) -> list[str]:
    """Why no p of this design can be below .05, in a sentence; none where one can."""
    least = smallest_p(design.levels[:, 0], design.strata)
    if least < LEVEL:
        return []
    return [f"This design cannot reach p < {LEVEL:g}: with {_sizes(design)} the smallest p possible is {least:.2g}."]


def _sizes(design: Design) -> str:
    if not design.paired:
        sizes = np.bincount(design.levels[:, 0], minlength=len(design.factors[0].levels))
        return f"{listed(sizes.tolist())} {design.unit_word}s in its groups"
    n = len(np.unique(design.subjects))
    return f"{n} pairs" if len(design.factors[0].levels) == 2 else f"{n} {design.unit_word}s"


def _detectable(sizes: npt.NDArray[np.int64], paired: bool) -> float:
    """The difference in standard deviations that a t test finds in four studies of five."""
    from statsmodels.stats.power import TTestIndPower, TTestPower

    asked = {"power": 0.8, "alpha": LEVEL}
    if paired:
        return float(TTestPower().solve_power(nobs=int(sizes[0]), **asked))
    return float(TTestIndPower().solve_power(nobs1=int(sizes[0]), ratio=sizes[1] / sizes[0], **asked))
