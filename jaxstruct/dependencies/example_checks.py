"""Checks of features, sentences, heads and trees, on the host before anything compiles.

Heads are a list of l integers, 0 for the root and 1..l for words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from jaxstruct.core.checks import check_record, checked_size
from jaxstruct.core.contract import Truth
from jaxstruct.core.labels import checked_completion
from jaxstruct.core.spec import array, checked_lengths, refuse
from jaxstruct.dependencies.features import ArcFeatures
from jaxstruct.dependencies.potentials import Parse, TreeKind

Heads: TypeAlias = Sequence[int] | np.ndarray


def fault_of(heads: Heads) -> str:
    """Why heads are no tree with one word on the root; "" if they are one."""
    above = np.concatenate([[0], np.asarray(heads, int)])
    at, words = above[1:], len(heads)
    if not words:
        return "it has no word"
    if at.min() < 0 or at.max() > words:
        return f"a head is not in 0..{words}, the words"
    roots = int(np.sum(at == 0))
    if roots != 1:
        return f"{roots} words hang on the root (head 0), not one"
    for _ in range(words.bit_length()):  # heads of 2, 4, 8 .. steps up
        above = above[above]
        at = above[1:]
    if at.any():
        return f"word {int(np.flatnonzero(at)[0]) + 1} hangs on a circle"
    return ""


def crossing_arcs(heads: Heads) -> np.ndarray:
    """[l] bool: the words whose arc crosses another one; none of a projective tree."""
    ends = np.stack([np.asarray(heads), np.arange(1, len(heads) + 1)])
    low, high = ends.min(axis=0), ends.max(axis=0)
    inside = (low[:, None] < low[None]) & (low[None] < high[:, None]) & (high[:, None] < high[None])
    return np.any(inside | inside.T, axis=1)


def lifted(heads: Heads) -> list[int]:
    """The heads of a projective tree near a given one, by moving arcs up.

    As long as arcs cross, the shortest that does hangs on the head of its head (J. Nivre and J.
    Nilsson, Pseudo-projective dependency parsing, ACL 2005); the word on the root stays the only
    one there.

    Raises:
      ValueError: the heads are no tree.
    """
    fault = fault_of(heads)
    if fault:
        raise ValueError(f"heads: {fault}")
    found = np.array(heads)
    while (crossing := crossing_arcs(found)).any():
        movable = crossing & (found > 0)
        movable[movable] &= found[found[movable] - 1] > 0
        child = np.arange(1, len(found) + 1)
        lengths = np.where(movable, np.abs(found - child), len(found) + 1)
        word = int(np.argmin(lengths))
        found[word] = found[found[word] - 1]
    return found.tolist()


ADVICE = (
    "take projective=False, leave the sentence out, or lift its arcs with "
    "jaxstruct.dependencies.lifted"
)


def check_features(features: ArcFeatures, labelled: bool) -> None:
    """Raise ValueError unless these are features of arcs, with labels if trees have some."""
    check_record("features", features, ArcFeatures, "jaxstruct.dependencies")
    if len(features.columns) != len(features.sizes) or not features.templates:
        raise ValueError(
            f"features need a size for each of the columns {features.columns} and a template of "
            f"arcs, got sizes {features.sizes} and templates {features.templates}"
        )
    for name in ("table", "label_table", "labels"):
        checked_size(f"features.{name}", getattr(features, name))
    if not labelled and (features.label_templates or features.labels != 1):
        raise ValueError("features have templates of labels, which trees without labels never read")
    if labelled and not features.label_templates:
        raise ValueError("features need label_templates for trees with labels")
    if features.size >= 2**31:
        raise ValueError(f"features have {features.size} weights: lower table or label_table")


def check_sentences(features: ArcFeatures, inputs: Any, kind: type) -> None:
    """Raise ValueError unless inputs are padded sentences of these columns."""
    check_record("inputs", inputs, kind, "sentence_inputs")
    sizes = {"columns": len(features.columns)}
    tokens = array("inputs.tokens", inputs.tokens, "n T columns", sizes=sizes)
    checked_lengths("inputs.length", inputs.length, sizes["n"], 1, sizes["T"])
    refuse(
        "inputs.tokens", tokens, (tokens < 0) | (tokens >= np.array(features.sizes)),
        lambda i, word, at: f"0..{features.sizes[at] - 1}, the texts of {features.columns[at]!r}",
    )  # fmt: skip


def checked_completions(lengths: Any, outputs: Truth, labels: int | None) -> Parse:
    """The trees of `Truth`s; ValueError unless they agree with the tables beside them."""
    y, known = outputs
    check_record("outputs.numbers", known, Parse, "jaxstruct.dependencies")
    checked_completion(Truth(y.heads, known.heads), np.shape(known.heads)[-1], lengths)
    if labels is not None:
        checked_completion(Truth(y.labels, known.labels), labels, lengths)
    return y


def check_trees(lengths: Any, outputs: Any, kind: TreeKind) -> None:
    """Raise ValueError unless outputs are trees of the sentences, of that kind."""
    check_record("outputs", outputs, Parse, "jaxstruct.dependencies")
    if (outputs.labels is not None) != kind.labelled:
        raise ValueError("outputs have labels where the problem has none, or the other way round")
    sizes = {"n": len(lengths)}
    heads = array("outputs.heads", outputs.heads, "n T", sizes=sizes)
    for name, high in (("heads", sizes["T"] + 1), ("labels", kind.labels)):
        given = getattr(outputs, name)
        if given is not None:
            array(f"outputs.{name}", given, "n T", "integers", sizes, range(high), length=lengths)
    for i, length in enumerate(lengths):
        fault = fault_of(heads[i, :length])
        if fault:
            raise ValueError(f"outputs.heads[{i}] is no tree: {fault}")
        if kind.projective and crossing_arcs(heads[i, :length]).any():
            raise ValueError(f"outputs.heads[{i}] has arcs that cross: {ADVICE}")
