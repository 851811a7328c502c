"""A classifier of moments that is learned from a few marked frames: a regularised logistic regression and random trees,
averaged. Kept as plain arrays, so that a saved model answers to the bit what the fitted one does. It sees each channel of a
moment, and its running mean and spread around it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import interpolated, running_sum

Array = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

SECONDS = (0.36, 1.03, 3.03, 9.03)  # 11, 31, 91 and 271 frames at 30 a second
GAP_SECONDS = 30.0  # a hidden part is most likely between where it was last seen and where it is seen next
_LEAST_SAMPLES = (3, 7, 15, 31)  # for recordings with few samples a second
_LIMIT = 8.0  # standard deviations; what lies beyond is an outlier
TREES = 40
_LEAST_LEAF = 3
_SHARE_OF_ROWS = 0.6  # that a tree sees
# Of the logistic regression, against the mean loss of a row: strong, so that what tells animals apart is not learned.
_INVERSE_PENALTY = 0.3
_UNKNOWN = -1e4  # score of a word that no row has
_FLOOR = 1e-3  # no word is impossible: what was never marked there may still occur


def window_lengths(rate_hz: float) -> tuple[int, ...]:
    """Odd numbers of samples."""
    return tuple(
        max(least, 2 * int(seconds * rate_hz / 2) + 1) for seconds, least in zip(SECONDS, _LEAST_SAMPLES, strict=True)
    )


def longest_gap(rate_hz: float) -> int:
    """Samples."""
    return max(1, round(GAP_SECONDS * rate_hz))


def window_features(
    y: npt.NDArray[Any], windows: tuple[int, ...], longest: int, rows: npt.NDArray[np.intp] | None = None
) -> Array:
    """[rows, N (1 + 2 windows)] of a standardised trial [T, N].

    longest  gaps of so many samples lie on a straight line; what is hidden for longer is 0, the channel's mean
    """
    clipped = np.clip(np.asarray(y, np.float32), -_LIMIT, _LIMIT)
    known = np.isfinite(clipped)
    if longest and not known.all():
        near = ~known & (_gaps(known) <= longest)
        clipped = np.where(near, interpolated(clipped), clipped).astype(np.float32)
        known |= near
    values = np.where(known, clipped, 0.0)
    at = np.arange(len(y)) if rows is None else rows
    sums, squares, counts = running_sum(values), running_sum(np.square(values)), running_sum(known)
    columns = [values[at]]
    for window in windows:
        low, high = np.maximum(at - window // 2, 0), np.minimum(at + window // 2 + 1, len(y))
        n = np.maximum(counts[high] - counts[low], 1)
        mean = (sums[high] - sums[low]) / n
        columns += [mean, np.sqrt(np.maximum((squares[high] - squares[low]) / n - mean**2, 0.0))]
    return np.concatenate(columns, axis=1, dtype=np.float32)


def _gaps(known: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """[T, N] samples from the value seen before to the one seen after, more than T where one of them is not there."""
    n = len(known)
    at = np.arange(n)[:, None]
    before = np.maximum.accumulate(np.where(known, at, -2 * n), axis=0)
    after = np.minimum.accumulate(np.where(known, at, 3 * n)[::-1], axis=0)[::-1]
    return np.asarray(after - before - 1)


@dataclass(frozen=True, eq=False)
class WordClassifier:
    """weight [F, C], bias [C] of the regression; nodes of all trees end to end, `roots` where each begins.

    A node asks whether `feature` is at most `threshold` and goes on at `left` or `right`; a leaf has feature -1.
    """

    weight: Array
    bias: Array
    roots: Ints
    feature: Ints
    threshold: Array
    left: Ints
    right: Ints
    share: Array  # [nodes, C] of each word

    @staticmethod
    def balanced(words: npt.NDArray[np.int64], n_words: int) -> npt.NDArray[np.float64]:
        """[R] weights that add up to one, and to the same for every word that there is."""
        count = np.bincount(words, minlength=n_words)
        weight: npt.NDArray[np.float64] = 1 / (np.count_nonzero(count) * count[words])
        return weight

    @classmethod
    def fit(
        cls,
        x: Array,
        words: npt.NDArray[np.int64],
        row_weight: npt.NDArray[np.float64],
        n_words: int,
        n_trees: int,
        seed: int,
    ) -> WordClassifier:
        """From features [R, F], words [R], at least two of them, and how much each row counts [R], one in all."""
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression

        present = np.unique(words)
        weight, bias = np.zeros((x.shape[1], n_words), np.float32), np.full(n_words, _UNKNOWN, np.float32)
        line = LogisticRegression(C=_INVERSE_PENALTY, max_iter=100, tol=1e-3).fit(x, words, sample_weight=row_weight)
        scored = present[1:] if len(present) == 2 else present  # of two words, the second alone has a score
        bias[present] = 0.0
        weight[:, scored], bias[scored] = line.coef_.T, line.intercept_
        forest = RandomForestClassifier(
            n_trees,
            min_samples_leaf=_LEAST_LEAF,
            max_samples=max(1, round(_SHARE_OF_ROWS * len(words))),
            random_state=seed,
        ).fit(x, words, sample_weight=row_weight * len(words))
        parts = [tree.tree_ for tree in forest.estimators_]
        sizes = [part.node_count for part in parts]
        roots = np.cumsum([0, *sizes[:-1]])
        root = np.repeat(roots, sizes)  # of the tree that each node is of

        def end_to_end(name: str) -> npt.NDArray[Any]:
            return np.concatenate([getattr(part, name) for part in parts])

        left = end_to_end("children_left")
        share = np.zeros((sum(sizes), n_words), np.float32)
        share[:, present] = end_to_end("value")[:, 0]
        return cls(
            weight,
            bias,
            roots.astype(np.int32),
            np.where(left < 0, -1, end_to_end("feature")).astype(np.int32),
            end_to_end("threshold").astype(np.float32),
            (left + root).astype(np.int32),
            (end_to_end("children_right") + root).astype(np.int32),
            share / share.sum(axis=1, keepdims=True),
        )

    def probabilities(self, x: Array) -> npt.NDArray[np.float64]:
        """[R, C] of each word."""
        scores = (x @ self.weight + self.bias).astype(np.float64)
        scores -= scores.max(axis=1, keepdims=True)
        line = np.exp(scores)
        line /= line.sum(axis=1, keepdims=True)
        mixed = (_floored(line) + _floored(self._votes(x))) / 2
        return mixed

    def _votes(self, x: Array) -> npt.NDArray[np.float64]:
        """[R, C] mean over the trees."""
        node = np.repeat(self.roots[None], len(x), axis=0)  # [R, trees]
        row, tree = np.indices(node.shape).reshape(2, -1)
        while len(row):
            here = node[row, tree]
            inner = self.feature[here] >= 0
            row, tree, here = row[inner], tree[inner], here[inner]
            below = x[row, self.feature[here]] <= self.threshold[here]
            node[row, tree] = np.where(below, self.left[here], self.right[here])
        total = np.zeros((len(x), self.share.shape[1]))
        for leaf in node.T:
            total += self.share[leaf]
        return total / len(self.roots)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """What a file keeps."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _floored(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    raised = np.maximum(p, _FLOOR)
    return raised / raised.sum(axis=1, keepdims=True)
