"""Trees of phrases over words. No function here recurses, so depth is bounded by memory only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

from jaxstruct.core.messages import text_of

T = TypeVar("T")

OUTER_LABELS = ("", "ROOT", "TOP", "S1")
"""Labels of the bracket that a treebank puts around a sentence; it is no constituent."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A node and all below it: a constituent over children, or a leaf, which is (tag, word).

    Trees are equal when their labels, words and shapes are. (Of the standard library, pickle and
    deepcopy recurse and fail on very deep trees; the bracketed text does not.)

    Fields:
      label: the category of a constituent, or the part-of-speech tag of a leaf.
      children: at least one, left to right; empty exactly at a leaf.
      word: the token of a leaf, None elsewhere.

    Raises:
      ValueError: both children and a word, or neither; a label or a word that is no str, a child
        that is no Tree.
    """

    label: str
    children: tuple[Tree, ...] = ()
    word: str | None = None

    def __post_init__(self) -> None:
        """Refuses what is neither a constituent nor a leaf."""
        if not isinstance(self.label, str):
            raise ValueError(f"label: got {kind_of(self.label)}, expected a str")
        if self.word is not None and not isinstance(self.word, str):
            raise ValueError(f"word: got {kind_of(self.word)}, expected a str, or None")
        wrong = [child for child in self.children if not isinstance(child, Tree)]
        if wrong:
            raise ValueError(f"children: got {kind_of(wrong[0])} among them, expected Trees")
        if bool(self.children) == (self.word is not None):
            both = "children and the word " + repr(self.word) if self.children else "neither"
            raise ValueError(
                f"Tree {self.label!r}: got {both}, expected children (a constituent) or a word "
                "(a leaf)"
            )

    @property
    def is_leaf(self) -> bool:
        """Whether this is a tag over a word."""
        return self.word is not None

    def __eq__(self, other: object) -> bool:
        """Whether labels, words and shape agree."""
        if not isinstance(other, Tree):
            return NotImplemented
        if self is other:
            return True
        pairs = zip_longest(_outline(self), _outline(other))
        return all(mine == theirs for mine, theirs in pairs)

    def __hash__(self) -> int:
        """A hash of labels, words and shape."""
        return hash(tuple(_outline(self)))

    def __repr__(self) -> str:
        """The label and, at a leaf, the word, else the number of leaves: short at any depth."""
        inside = repr(self.word) if self.is_leaf else f"<{len(leaves(self))} leaves>"
        return f"Tree({self.label!r}, {inside})"


class Constituent(NamedTuple):
    """A label over the tokens begin .. end - 1."""

    label: str
    begin: int
    end: int


def kind_of(value: object) -> str:
    """Returns the name of the type of a value, as error messages have it."""
    return type(value).__name__


def check_tree(tree: object, name: str = "tree") -> None:
    """Raises a ValueError unless this is a Tree."""
    if not isinstance(tree, Tree):
        raise ValueError(
            f"{name}: got {kind_of(tree)}, expected one Tree of jaxstruct.trees; read_tree makes "
            "it of a bracketed text, such as str() of a tree of NLTK"
        )


def is_of_nltk(value: object) -> bool:
    """Whether this is a tree of NLTK: a list of children with a method `label`."""
    return isinstance(value, list) and callable(getattr(value, "label", None))


def of_nltk(tree: Any, name: str) -> Tree:
    """A tree of NLTK as a Tree; a label over one text is a leaf, (tag, word).

    Raises:
      ValueError: a leaf is no text, or stands beside others, so that it has no tag of its own.
    """
    order, made = [tree], {}
    for node in order:  # parents first
        below = [child for child in node if not is_of_nltk(child)]
        if below and (len(node) > 1 or not isinstance(below[0], str)):
            raise ValueError(
                f"{name} has {text_of(below[0])} below {node.label()!r}: expected one word as text "
                "below each tag, (TAG word)"
            )
        order.extend([] if below else node)
    for node in reversed(order):
        leaf = node and isinstance(node[0], str)
        below = {"word": node[0]} if leaf else {"children": tuple(made[id(one)] for one in node)}
        made[id(node)] = Tree(node.label(), **below)
    return made[id(tree)]


def _outline(tree: Tree) -> Iterator[tuple[str, str | None, int]]:
    """Preorder with the numbers of children, which determines a tree."""
    return ((node.label, node.word, len(node.children)) for node in preorder(tree))


def preorder(tree: Tree) -> list[Tree]:
    """Returns every node, one after the other: a parent first, then its children from the left.

    Raises:
      ValueError: this is no Tree.
    """
    check_tree(tree)
    waiting, found = [tree], []
    while waiting:
        found.append(waiting.pop())
        waiting.extend(reversed(found[-1].children))
    return found


def fold(tree: Tree, combine: Callable[[Tree, list[T]], T]) -> T:
    """Works a tree up from its leaves: combine(node, results of its children), left to right."""
    results: list[T] = []
    for node in reversed(preorder(tree)):
        first = len(results) - len(node.children)
        parts = results[first:][::-1]
        del results[first:]
        results.append(combine(node, parts))
    return results[0]


def leaves(tree: Tree) -> list[Tree]:
    """Returns the leaves, left to right."""
    return [node for node in preorder(tree) if node.is_leaf]


def words(tree: Tree) -> tuple[str, ...]:
    """Returns the yield: the words, left to right."""
    return tuple(leaf.word for leaf in leaves(tree) if leaf.word is not None)


def tags(tree: Tree) -> tuple[str, ...]:
    """Returns the part-of-speech tags, left to right."""
    return tuple(leaf.label for leaf in leaves(tree))


def node_spans(tree: Tree) -> list[tuple[Tree, int, int]]:
    """Returns (node, begin, end) of every node in preorder, leaves included."""
    order, ends, spans = preorder(tree), [], []
    begin = len([node for node in order if not node.children])
    for node in reversed(order):
        first = len(ends) - len(node.children)
        begin -= not node.children
        ends[first:] = [ends[first] if node.children else begin + 1]  # that of its last child
        spans.append((node, begin, ends[first]))
    return spans[::-1]


def constituents(tree: Tree) -> list[Constituent]:
    """Returns the labelled spans of all nodes above the tags, in preorder.

    A chain X over Y gives two constituents of one span.
    """
    return [
        Constituent(node.label, begin, end)
        for node, begin, end in node_spans(tree)
        if not node.is_leaf
    ]
