"""Classifier of single samples: a logistic regression, a random forest and soft states, stored as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ModelFileError

Array = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

LEAST_LEAF = 3
SHARE_OF_ROWS = 0.6  # used by each tree
INVERSE_PENALTY = 0.3  # strong, to avoid learning differences between animals
REGRESSION_SHARE = 2 / 3  # weight of the regression against the forest
FLOOR = 1e-3  # least probability of a class
PRIOR_SHARE = 0.01  # of all labelled samples, added to the class counts of each state


@dataclass(frozen=True, eq=False)
class Classifier:
    """Coefficients of the regression, concatenated nodes of all trees, and classes of states.

    weight, bias      [F, C] and [C]
    roots             [trees] first node of each tree
    feature           [nodes] feature that a node compares with its threshold; -1 for a leaf
    left, right       [nodes] next node
    share             [nodes, C] class probabilities in a leaf
    classes_of_state  [K, C] class probabilities in a state of the base model; K is 0 without one
    """

    weight: Array
    bias: Array
    roots: Ints
    feature: Ints
    threshold: Array
    left: Ints
    right: Ints
    share: Array
    classes_of_state: Array

    @classmethod
    def fit(
        cls, x: Array, states: Array, labels: npt.NDArray[np.int64], n_classes: int, n_trees: int, seed: int
    ) -> Classifier:
        """Fit features [R, F] and soft states [R, K] to labels [R], weighting classes equally."""
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression

        present, count = np.unique(labels, return_counts=True)
        row_weight = 1 / (len(present) * count[np.searchsorted(present, labels)])
        weight, bias = np.zeros((x.shape[1], n_classes), np.float32), np.full(n_classes, -1e4, np.float32)
        regression = LogisticRegression(C=INVERSE_PENALTY, max_iter=100, tol=1e-3)
        regression.fit(x, labels, sample_weight=row_weight)
        scored = present[1:] if len(present) == 2 else present  # of two classes, only the second has coefficients
        bias[present] = 0.0
        weight[:, scored], bias[scored] = regression.coef_.T, regression.intercept_
        forest = RandomForestClassifier(
            n_trees,
            min_samples_leaf=LEAST_LEAF,
            max_samples=max(1, round(SHARE_OF_ROWS * len(labels))),
            random_state=seed,
        ).fit(x, labels, sample_weight=row_weight * len(labels))
        trees = [tree.tree_ for tree in forest.estimators_]
        sizes = [tree.node_count for tree in trees]
        roots = np.cumsum([0, *sizes[:-1]])
        root = np.repeat(roots, sizes)

        def join(name: str) -> npt.NDArray[Any]:
            return np.concatenate([getattr(tree, name) for tree in trees])

        left = join("children_left")
        share = np.zeros((sum(sizes), n_classes), np.float32)
        share[:, present] = join("value")[:, 0]
        count = states.T @ (row_weight[:, None] * np.eye(n_classes)[labels]) + PRIOR_SHARE / (
            max(1, states.shape[1]) * n_classes
        )
        return cls(
            weight,
            bias,
            roots.astype(np.int32),
            np.where(left < 0, -1, join("feature")).astype(np.int32),
            join("threshold").astype(np.float32),
            (left + root).astype(np.int32),
            (join("children_right") + root).astype(np.int32),
            share / share.sum(axis=1, keepdims=True),
            (count / count.sum(axis=1, keepdims=True)).astype(np.float32),
        )

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Classifier:
        """Restore a classifier from `to_arrays`, or raise ModelFileError for damaged trees."""
        found = cls(**arrays)
        at = np.flatnonzero(found.feature >= 0)
        next_nodes = np.stack([found.left[at], found.right[at]])
        if (
            (next_nodes <= at).any()
            or (next_nodes >= len(found.feature)).any()
            or (found.feature >= len(found.weight)).any()
        ):
            raise ModelFileError("The trees of this label model are damaged. Fit it again.")
        return found

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def predict_log_proba(self, x: Array, states: Array) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return log probabilities [R, C] of each class given features, and given states."""
        from scipy.special import softmax

        # In double precision, because products in single precision differ in the last bit with the place in memory.
        line = softmax(x.astype(np.float64) @ self.weight + self.bias, axis=1)
        mean = REGRESSION_SHARE * _with_floor(line) + (1 - REGRESSION_SHARE) * _with_floor(self._votes(x))
        return np.log(mean), np.log(states.astype(np.float64) @ self.classes_of_state + FLOOR)

    def _votes(self, x: Array) -> npt.NDArray[np.float64]:
        """Return the mean vote [R, C] of all trees."""
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


def _with_floor(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    raised = np.maximum(p, FLOOR)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
