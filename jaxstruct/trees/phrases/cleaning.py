"""Rules that make a treebank's trees into plain phrase structure, each of them optional."""

from __future__ import annotations

import re

from jaxstruct.trees.phrases.tree import OUTER_LABELS, Tree, fold

TRACE = "-NONE-"
"""The tag of what is understood but not said: traces, empty complementizers, ellipsis."""

_FUNCTION = re.compile(r"[-=]")


def clean(tree: Tree) -> Tree | None:
    """The tree by all rules below, one after the other; None if it holds nothing but traces."""
    left = without_traces(tree)
    return None if left is None else without_repetitions(without_outer(without_functions(left)))


def without_traces(tree: Tree) -> Tree | None:
    """Drops leaves tagged -NONE- and constituents left empty; None if all is dropped."""

    def kept(node: Tree, parts: list[Tree | None]) -> Tree | None:
        if node.is_leaf:
            return None if node.label == TRACE else node
        children = tuple(part for part in parts if part is not None)
        return Tree(node.label, children) if children else None

    return fold(tree, kept)


def without_functions(tree: Tree) -> Tree:
    """Cuts function tags and indices off all labels: NP-SBJ-1 and NP=2 become NP.

    A label is cut before its first - or =. Labels that start with - stay whole (-LRB-, -RRB-,
    -NONE-). A tag such as NN|JJ and a label such as ADVP|PRT (the annotator's "either") stay.
    """

    def cut(node: Tree, parts: list[Tree]) -> Tree:
        return Tree(plain_label(node.label), tuple(parts), node.word)

    return fold(tree, cut)


def plain_label(label: str) -> str:
    """Returns the label without function tags and indices; see `without_functions`."""
    found = _FUNCTION.search(label)
    return label[: found.start()] if found and found.start() else label


def without_outer(tree: Tree) -> Tree:
    """Takes off the outer bracket ("", ROOT, TOP, S1), as often as it is there.

    One over several trees cannot go, for they would fall apart; it stays, and is named ROOT if it
    has no label.
    """
    while tree.label in OUTER_LABELS and len(tree.children) == 1:
        tree = tree.children[0]
    return Tree("ROOT", tree.children, tree.word) if tree.label == "" else tree


def without_repetitions(tree: Tree) -> Tree:
    """Makes one X of a chain X over X (over X ..). A tag below a node of its name stays."""

    def merged(node: Tree, parts: list[Tree]) -> Tree:
        if len(parts) == 1 and not parts[0].is_leaf and parts[0].label == node.label:
            return parts[0]
        return Tree(node.label, tuple(parts), node.word)

    return fold(tree, merged)
