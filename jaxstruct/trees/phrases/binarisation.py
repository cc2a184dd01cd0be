"""Chomsky normal form and back, without loss.

A binarised tree has two children at every constituent, and leaves. Two rewritings lead there:

- Chains: NP over NN becomes the one symbol NP+NN, over the word; S over VP over more than one child
  becomes S+VP. The separator joins the labels from the top down.
- Wide constituents, branching to the right: X over A B C D becomes three nodes. X stands over A and
  @X@A, @X@A over B and @X@A@B, @X@A@B over C and D. The mark starts each intermediate symbol.
  The symbol remembers X and the last h children that were split off, the nearest last (horizontal
  Markov order h; all of them if h is None). Branching to the left is the mirror image: X stands
  over @X@D and D.

Labels may hold neither separator nor mark, so the way back is certain for every h, 0 included.
Symbols that start with the mark are dissolved into their parent. The others are split at the
separator. A short h loses nothing of a tree. It makes different constituents share intermediate
symbols, so that a grammar read off such trees has fewer rules and accepts more trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxstruct.core.checks import check_choice, check_record, checked_size
from jaxstruct.data.trees import Tree, fold


class Binarisation(NamedTuple):
    """How trees are brought into Chomsky normal form.

    Fields:
      branching: "right" splits off children from the left, "left" from the right.
      memory: h, how many of the children split off an intermediate symbol remembers; None for all.
      separator: one character that joins the labels of a chain.
      mark: another one that starts an intermediate symbol and its parts.
    """

    branching: str = "right"
    memory: int | None = None
    separator: str = "+"
    mark: str = "@"


FULL = Binarisation()
"""To the right, with full memory: accepts exactly the constituents seen."""


def check_binarisation(options: Binarisation) -> None:
    """Raises a ValueError if an option is not as `Binarisation` states."""
    check_record("binarisation", options, Binarisation, "jaxstruct.trees.Binarisation")
    check_choice("branching", options.branching, ("right", "left"))
    if options.memory is not None:
        checked_size("memory", options.memory, 0)
    for name, text in (("separator", options.separator), ("mark", options.mark)):
        if not isinstance(text, str) or len(text) != 1 or text.isspace() or text in "()":
            raise ValueError(f"{name}: got {text!r}, expected one character, no blank or bracket")
    if options.separator == options.mark:
        raise ValueError(f"mark: got {options.mark!r}, expected another than the separator")


def binarise(tree: Tree, options: Binarisation = FULL) -> Tree:
    """Returns the tree in Chomsky normal form; `debinarise` with the same options gives it back.

    Raises:
      ValueError: an option is wrong; a label is empty or holds the separator or the mark.
    """
    check_binarisation(options)

    def normal(node: Tree, parts: list[Tree]) -> Tree:
        _check_label(node.label, options)
        if node.is_leaf:
            return node
        if len(parts) == 1:
            chain = f"{node.label}{options.separator}{parts[0].label}"
            return Tree(chain, parts[0].children, parts[0].word)
        return _branch(node.label, parts, options)

    return fold(tree, normal)


def debinarise(tree: Tree, options: Binarisation = FULL) -> Tree:
    """Returns the tree that `binarise` was given: intermediate symbols dissolved, chains restored.

    Only `separator` and `mark` matter here. Any tree over symbols of binarised trees is accepted,
    so a parser's output is, too.

    Raises:
      ValueError: an option is wrong; the root or a leaf has an intermediate symbol.
    """
    check_binarisation(options)

    def restore(node: Tree, parts: list[list[Tree]]) -> list[Tree]:
        children = [child for part in parts for child in part]
        labels = chain_labels(node.label, options)
        if not labels:
            if node.is_leaf:
                raise ValueError(f"tree: the leaf {node.word!r} has the symbol {node.label!r}")
            return children
        made = Tree(labels[-1], tuple(children), node.word)
        for label in reversed(labels[:-1]):
            made = Tree(label, (made,))
        return [made]

    found = fold(tree, restore)
    if len(found) != 1:
        raise ValueError(f"tree: its root has the intermediate symbol {tree.label!r}")
    return found[0]


def chain_labels(symbol: str, options: Binarisation) -> tuple[str, ...]:
    """Returns the labels that a symbol stands for, the top one first; none if intermediate."""
    if symbol.startswith(options.mark):
        return ()
    return tuple(symbol.split(options.separator))


def _branch(label: str, parts: Sequence[Tree], options: Binarisation) -> Tree:
    """A constituent of at least two parts as a comb of pairs."""
    right = options.branching == "right"
    order = list(parts) if right else list(parts)[::-1]
    names = [part.label for part in order]
    node = order[-1]
    for position in range(len(order) - 2, -1, -1):
        name = _intermediate(label, names[:position], options) if position else label
        pair = (order[position], node) if right else (node, order[position])
        node = Tree(name, pair)
    return node


def _intermediate(label: str, split_off: list[str], options: Binarisation) -> str:
    """The symbol of what is left of `label` after these children, the nearest of them last."""
    kept = len(split_off) if options.memory is None else min(options.memory, len(split_off))
    remembered = split_off[len(split_off) - kept :]
    return "".join(options.mark + part for part in (label, *remembered))


def _check_label(label: str, options: Binarisation) -> None:
    if not label:
        raise ValueError(
            "label: got an empty one, expected a name; take off the outer bracket with "
            "jaxstruct.data.bracketing.without_outer"
        )
    for name, text in (("separator", options.separator), ("mark", options.mark)):
        if text in label:
            raise ValueError(
                f"label: got {label!r}, which holds {text!r}, the {name} of new symbols: rename it "
                "in the trees"
            )
