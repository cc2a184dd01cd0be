"""Penn bracketing: (S (NP (DT the) (NN dog)) (VP (VBZ barks))), read and written.

The Penn Treebank puts an outer bracket without label around a sentence. Other treebanks call it
ROOT or TOP. One reader serves both. Treebanks escape brackets inside words (-LRB-, -RRB-), and the
escapes stay as they are.

Cleaning makes a treebank's trees into plain phrase structure, by rules each of which is optional.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from jaxstruct.core.messages import text_of
from jaxstruct.data.trees import OUTER_LABELS, Tree, check_tree, fold, kind_of

_PIECE = re.compile(r"[()]|[^ \t\r\n\f\v()]+")
_SHOWN = 100  # characters at either end of a long piece in a message
_UNWRITABLE = re.compile(r"[ \t\r\n\f\v()]|^$")


@dataclass(slots=True)
class _Open:
    """A bracket that is read but not closed: where it opened, label, word, children."""

    at: int
    label: str | None = None
    word: str | None = None
    children: list[Tree] = field(default_factory=list)


def read_trees(text: str, name: str = "text") -> tuple[Tree, ...]:
    """Returns the trees of a text, in order.

    tree = "(" label (tree tree ... | word) ")", with any white space between the pieces. Only an
    outermost bracket over trees may lack its label, which is then "".

    Args:
      text: any number of bracketed trees, none gives an empty tuple.
      name: what error messages call the text.

    Raises:
      ValueError: the text is not of this form; the message has the line and what was expected; it
        is no str.
    """
    if not isinstance(text, str):
        raise ValueError(
            f"text: got {kind_of(text)}, expected a str of bracketed trees; decode bytes, and read "
            "files, first"
        )
    trees: list[Tree] = []
    stack: list[_Open] = []
    for match in _PIECE.finditer(text):
        piece, at = match.group(), match.start()
        if piece == "(":
            _check_child(stack, text, name, at)
            stack.append(_Open(at))
        elif piece == ")":
            if not stack:
                raise _error(text, name, at, "')' closes nothing", "'('")
            node = _close(stack.pop(), not stack, text, name, at)
            (stack[-1].children if stack else trees).append(node)
        else:
            _add_word(stack, piece, text, name, at)
    if stack:
        found = f"the text ends inside of {_spoken(stack[-1])}"
        raise _error(text, name, stack[-1].at, found, f"{len(stack)} more ')'")
    return tuple(trees)


def read_tree(text: str, name: str = "text") -> Tree:
    """Returns the one tree of a text.

    Raises:
      ValueError: as `read_trees`; the text holds another number of trees.
    """
    trees = read_trees(text, name)
    if len(trees) != 1:
        raise ValueError(f"{name}: holds {len(trees)} trees, expected exactly one")
    return trees[0]


def _check_child(stack: list[_Open], text: str, name: str, at: int) -> None:
    """Refuses a tree behind a word, and a tree in a bracket without a label unless outermost."""
    if not stack:
        return
    parent = stack[-1]
    if parent.word is not None:
        found = f"'(' after the word {text_of(parent.word)}"
        raise _error(text, name, at, found, "')': a bracket holds one word or trees")
    if parent.label is None:
        if len(stack) > 1:
            raise _error(text, name, at, "'(' right after an inner '('", "a label")
        parent.label = ""


def _add_word(stack: list[_Open], piece: str, text: str, name: str, at: int) -> None:
    """A piece of text is the label if the bracket has none yet, else its word."""
    if not stack:
        raise _error(text, name, at, f"{text_of(piece)} outside of all brackets", "'('")
    top = stack[-1]
    if top.label is None:
        top.label = piece
    elif top.children:
        found = f"the word {text_of(piece)} after a tree in {_spoken(top)}"
        raise _error(text, name, at, found, "'(' or ')'")
    elif top.word is not None:
        found = f"a second word {text_of(piece)} in {_spoken(top)}"
        raise _error(text, name, at, found, "')'")
    else:
        top.word = piece


def _close(top: _Open, outermost: bool, text: str, name: str, at: int) -> Tree:
    if top.word is None and not top.children:
        found = f"{_spoken(top)} is empty"
        raise _error(text, name, at, found, "a word or trees before ')'")
    return Tree(top.label or "", tuple(top.children), top.word)


def _spoken(top: _Open) -> str:
    return f"the bracket {text_of(top.label)}" if top.label else "a bracket without label"


def _error(text: str, name: str, at: int, found: str, expected: str) -> ValueError:
    line = text.count("\n", 0, at) + 1
    if len(found) > 2 * _SHOWN:
        found = f"{found[:_SHOWN]} ... {found[-_SHOWN:]}"
    return ValueError(f"{name}:{line}: {found}, expected {expected}")


def write_line(tree: Tree) -> str:
    """Returns the tree on one line; `read_tree` gives it back.

    Raises:
      ValueError: a label or word is empty (other than the label of the root), or holds white space
        or a bracket, so that it could not be read again. This is no Tree.
    """
    check_tree(tree)
    return _line(tree, True)


def _line(tree: Tree, may_lack: bool) -> str:
    """The tree on one line; whether its root may lack a label."""
    pieces: list[str] = []
    waiting: list[Tree | str] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            pieces.append(item)
        elif item.is_leaf:
            pieces.append(_leaf_text(item))
        else:
            pieces.append(f"({_label_text(item, may_lack and item is tree)}")
            waiting.append(")")
            for child in reversed(item.children):
                waiting.extend((child, " "))
    return "".join(pieces)


def _leaf_text(leaf: Tree) -> str:
    if _UNWRITABLE.search(leaf.word or ""):
        raise ValueError(
            f"word: got {text_of(leaf.word)}, expected one without white space and brackets; "
            "escape brackets as -LRB- and -RRB-"
        )
    return f"({_label_text(leaf, False)} {leaf.word})"


def _label_text(node: Tree, may_lack: bool) -> str:
    if node.label == "" and may_lack:
        return ""
    if _UNWRITABLE.search(node.label):
        raise ValueError(
            f"label: got {text_of(node.label)}, expected one without white space and brackets, and "
            "not empty below the root"
        )
    return node.label


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
