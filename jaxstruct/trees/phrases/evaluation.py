"""Labelled precision, recall and F1 of trees as the program EVALB defines them (Sekine, Collins).

A constituent is (label, begin, end). Of sentence i, g_i is the number of constituents of the right
tree, p_i that of the predicted tree, and m_i that of both (as multisets). Then

    recall = sum_i m_i / sum_i g_i,    precision = sum_i m_i / sum_i p_i,
    F1 = 2 precision recall / (precision + recall).

Tags are no constituents. A deleted tag takes its token away; begins and ends count the tokens that
stay. Any other deleted label takes only its bracket away. A constituent without tokens is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np

from jaxstruct.core.checks import as_list, check_record
from jaxstruct.data.bracketing import TRACE, plain_label
from jaxstruct.data.trees import OUTER_LABELS, Tree, check_tree, leaves, node_spans

AnyTree = TypeVar("AnyTree", Tree, Tree | None)

VALID, ERROR, SKIPPED = 0, 1, 2
"""The status of a sentence, numbered as in EVALB."""


class Measure(NamedTuple):
    """What counts as a constituent, and as the same.

    Fields:
      labelled: whether labels must agree; if not, only spans do.
      deleted: labels that are deleted: tags with their tokens, constituents without.
      equal: label -> the label that it counts as.
    """

    labelled: bool = True
    deleted: tuple[str, ...] = OUTER_LABELS
    equal: Mapping[str, str] = MappingProxyType({})


PUNCTUATION = (",", ":", "``", "''", ".")
"""The tags that COLLINS.prm deletes."""

ALL_TOKENS = Measure()
"""All tokens and constituents count, the outer bracket excepted."""

COLLINS = Measure(
    deleted=(*OUTER_LABELS, TRACE, *PUNCTUATION), equal=MappingProxyType({"PRT": "ADVP"})
)
"""As COLLINS.prm: no punctuation, no traces, PRT is ADVP. (There TOP is the only outer label.)"""


class Scores(NamedTuple):
    """Counts of n sentences, [n] int64 each; of one that is not valid all but `gold` are 0.

    Fields:
      status: VALID, ERROR (the tokens that count differ) or SKIPPED (no prediction, or one without
        tokens that count).
      matched: m_i.
      gold: g_i.
      predicted: p_i.
    """

    status: np.ndarray
    matched: np.ndarray
    gold: np.ndarray
    predicted: np.ndarray

    @property
    def exact(self) -> np.ndarray:
        """[n] bool, whether the sentence is valid and m_i = g_i = p_i."""
        same = (self.matched == self.gold) & (self.matched == self.predicted)
        return same & (self.status == VALID)


class Summary(NamedTuple):
    """Measures of a set of sentences, between 0 and 1; 0 where EVALB would divide by zero.

    Fields:
      precision, recall, f1: micro-averaged.
      exact: the share of sentences with m_i = g_i = p_i.
      valid, errors, skipped: numbers of sentences.
    """

    precision: float
    recall: float
    f1: float
    exact: float
    valid: int
    errors: int
    skipped: int


def score(
    gold: Sequence[Tree], predicted: Sequence[Tree | None], measure: Measure = ALL_TOKENS
) -> Scores:
    """Compares n predicted trees with the right ones.

    Args:
      gold: the right trees.
      predicted: as many trees over the same words; None where the parser found none.
      measure: what counts.

    Raises:
      ValueError: the numbers of trees differ.
    """
    gold, predicted = _checked("gold", gold), _checked("predicted", predicted)
    check_record("measure", measure, Measure, "ALL_TOKENS and COLLINS")
    if len(gold) != len(predicted):
        raise ValueError(f"predicted: got {len(predicted)} trees, expected {len(gold)}")
    rows = [_counts(right, made, measure) for right, made in zip(gold, predicted, strict=True)]
    return Scores(*np.array(rows, np.int64).reshape(len(rows), 4).T)


def _checked(name: str, trees: Sequence[AnyTree]) -> list[AnyTree]:
    """Trees; those that are predicted may be None."""
    listed = as_list(name, trees, "a list of Trees")
    for row, tree in enumerate(listed):
        if tree is not None or name == "gold":
            check_tree(tree, f"{name}[{row}]")
    return listed


def summarise(scores: Scores, *, failed_are_wrong: bool = False) -> Summary:
    """Returns the measures of all sentences together.

    Args:
      scores: of n sentences.
      failed_are_wrong: what happens to sentences that are not valid. False, as in EVALB: they count
        nowhere, so a parser gains by failing on hard ones. True: their right constituents count
        as missed, and they are not exact.
    """
    valid = scores.status == VALID
    counted = np.ones_like(valid) if failed_are_wrong else valid
    matched, made = scores.matched[valid].sum(), scores.predicted[valid].sum()
    precision = _ratio(matched, made)
    recall = _ratio(matched, scores.gold[counted].sum())
    return Summary(
        precision=precision,
        recall=recall,
        f1=_ratio(2 * precision * recall, precision + recall),
        exact=_ratio(scores.exact.sum(), counted.sum()),
        valid=int(valid.sum()),
        errors=int((scores.status == ERROR).sum()),
        skipped=int((scores.status == SKIPPED).sum()),
    )


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def count_constituents(tree: Tree, measure: Measure) -> Counter[tuple[str, int, int]]:
    """Returns the multiset of (label, begin, end) that count; without labels these are "".

    Function tags and indices are cut off (NP-SBJ counts as NP), as EVALB does.
    """
    kept = [leaf.label not in measure.deleted for leaf in leaves(tree)]
    before = [0, *accumulate(kept)]
    found: Counter[tuple[str, int, int]] = Counter()
    for node, begin, end in node_spans(tree):
        label = plain_label(node.label)
        if node.is_leaf or label in measure.deleted or before[begin] == before[end]:
            continue
        name = measure.equal.get(label, label) if measure.labelled else ""
        found[name, before[begin], before[end]] += 1
    return found


def _counts(gold: Tree, predicted: Tree | None, measure: Measure) -> tuple[int, int, int, int]:
    """(status, m, g, p) of one sentence."""
    right = count_constituents(gold, measure)
    made_words = [] if predicted is None else _count_words(predicted, measure)
    if predicted is None or not made_words:
        return SKIPPED, 0, right.total(), 0
    if made_words != _count_words(gold, measure):
        return ERROR, 0, right.total(), 0
    made = count_constituents(predicted, measure)
    return VALID, (right & made).total(), right.total(), made.total()


def _count_words(tree: Tree, measure: Measure) -> list[str]:
    kept = [leaf for leaf in leaves(tree) if leaf.label not in measure.deleted]
    return [leaf.word for leaf in kept if leaf.word is not None]
