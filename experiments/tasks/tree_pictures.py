"""Trees as pictures, alone or beside the right ones, with what differs in colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.lib.plots import STYLE, Plot
from jaxstruct.data.bracketing import plain_label, write_line
from jaxstruct.data.trees import Tree, constituents, fold, leaves, node_spans

INK, LINES, WRONG, MISSED, WORDS = "#1f1f1f", "#9a9a9a", "#c43c00", "#0072b2", "#555555"
TOKEN_INCHES, LEVEL_INCHES, CAPTION_INCHES = 0.62, 0.42, 0.5


class Case(NamedTuple):
    """A sentence with its right tree and what each method predicted, None for no parse."""

    gold: Tree
    predicted: tuple[Tree | None, ...]


class _Node(NamedTuple):
    """Where a node stands: its middle in tokens, and its level above the words."""

    text: str
    x: float
    y: float
    kind: str
    children: tuple[tuple[float, float], ...]
    mark: str = ""


def chosen_cases(
    gold: Sequence[Tree],
    answers: Sequence[Sequence[Tree | None]],
    errors: Sequence[np.ndarray],
    number: int,
) -> list[Case]:
    """Sentences in which the last method differs most from the first, in turn better and worse.

    Args:
      gold: [n] right trees. answers: of each method [n] trees.
      errors: of each method [n], how many constituents are wrong or missed in a sentence.
      number: how many at most. Where there are not so many that differ, the longest follow.
    """
    gain = np.asarray(errors[0]) - np.asarray(errors[-1])
    tokens = np.array([len(leaves(tree)) for tree in gold])
    better = [i for i in np.lexsort((-tokens, -gain)) if gain[i] > 0]
    worse = [i for i in np.lexsort((-tokens, gain)) if gain[i] < 0]
    order: list[int] = []
    for turn in range(max(len(better), len(worse))):
        order += [*better[turn : turn + 1], *worse[turn : turn + 1]]
    order += [i for i in np.argsort(-tokens, kind="stable") if gain[i] == 0]
    return [Case(gold[i], tuple(of[i] for of in answers)) for i in order[:number]]


def tree_pictures(cases: Sequence[Case], names: Sequence[str], title: str) -> Plot:
    """A sheet: a row for each sentence, the right tree on the left, then one for each method.

    A constituent that a method predicts and the right tree lacks is red and has a "?"; one of the
    right tree that some methods miss is blue and has a "*" with their numbers, so that the picture
    does without colours.

    Args:
      cases: sentences, at least one. names: of the methods. title: over the sheet.

    Raises:
      ValueError: no case, or another number of predictions than names.
    """
    if not cases:
        raise ValueError("cases: got none, expected at least one sentence")
    for case in cases:
        if len(case.predicted) != len(names):
            raise ValueError(f"cases: {len(case.predicted)} trees for {len(names)} names")
    panels = [[_gold_nodes(case), *(_own_nodes(case, i) for i in range(len(names)))]
              for case in cases]  # fmt: skip
    captions = ["right", *(f"{number}: {name}" for number, name in enumerate(names, 1))]
    figure = _sheet(panels, [captions] * len(cases), title)
    numbers = [
        {"right": write_line(case.gold)}
        | {
            name: None if tree is None else write_line(tree)
            for name, tree in zip(names, case.predicted, strict=True)
        }
        for case in cases
    ]
    return Plot(figure, {"title": title, "sentences": numbers})


def _counts(tree: Tree | None) -> Counter:
    """Constituents, function tags cut off."""
    found = [] if tree is None else constituents(tree)
    return Counter((plain_label(one.label), one.begin, one.end) for one in found)


def _gold_nodes(case: Case) -> list[_Node]:
    """Those that every method found are right, the others missed, by the methods of the mark."""
    nodes = _nodes(case.gold, _counts(case.gold), "missed")
    missed: list[list[int]] = [[] for _ in nodes]
    for number, tree in enumerate(case.predicted, 1):
        for place, node in enumerate(_nodes(case.gold, _counts(tree), "missed")):
            if node.kind == "missed":
                missed[place].append(number)
    return [
        node._replace(kind="missed", mark="*" + ",".join(map(str, methods))) if methods else node
        for node, methods in zip(nodes, missed, strict=True)
    ]


def _own_nodes(case: Case, method: int) -> list[_Node]:
    tree = case.predicted[method]
    return [] if tree is None else _nodes(tree, _counts(case.gold), "wrong")


def _nodes(tree: Tree, right: Counter, otherwise: str) -> list[_Node]:
    """All nodes in preorder; the words are nodes below their tags."""
    levels = _levels(tree)
    middles = {id(node): (begin + end - 1) / 2 for node, begin, end in node_spans(tree)}
    left, found = Counter(right), []
    for node, begin, end in node_spans(tree):
        x, y = middles[id(node)], levels[id(node)]
        if node.word is not None:
            found.append(_Node(node.label, x, y, "tag", ((x, 0.0),)))
            found.append(_Node(node.word, x, 0.0, "word", ()))
            continue
        key = plain_label(node.label), begin, end
        kind = "right" if left[key] > 0 else otherwise
        left[key] -= 1
        below = tuple((middles[id(child)], levels[id(child)]) for child in node.children)
        found.append(_Node(node.label, x, y, kind, below, MARKS.get(kind, "")))
    return found


def _levels(tree: Tree) -> dict[int, float]:
    """The level of every node: tags at 1, a parent one above its highest child."""
    levels: dict[int, float] = {}

    def note(node: Tree, parts: list[float]) -> float:
        levels[id(node)] = 1.0 + max(parts, default=0.0)
        return levels[id(node)]

    fold(tree, note)
    return levels


def _height(nodes: Sequence[_Node]) -> float:
    return max((node.y for node in nodes), default=1.0)


def _sheet(
    panels: Sequence[Sequence[Sequence[_Node]]], captions: Sequence[Sequence[str]], title: str
) -> Any:
    """A figure with a place for each tree, wide and high enough, and the trees in it."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    words = max(sum(node.kind == "word" for node in nodes) for row in panels for nodes in row)
    tokens, heights = max(words, 4), [max(_height(nodes) for nodes in row) for row in panels]
    inches = [height * LEVEL_INCHES + CAPTION_INCHES for height in heights]
    with rc_context({**STYLE, "axes.grid": False}):
        figure = Figure((tokens * TOKEN_INCHES * len(panels[0]) + 0.4, sum(inches) + 0.6))
        axes = figure.subplots(
            len(panels), len(panels[0]), squeeze=False, gridspec_kw={"height_ratios": inches}
        )
        for row, names, height, line in zip(panels, captions, heights, axes, strict=True):
            for nodes, name, place in zip(row, names, line, strict=True):
                place.set_xlim(-0.6, tokens - 0.4)
                _draw(place, nodes, height, name)
        figure.suptitle(title, x=0.01, ha="left", fontsize=14, parse_math=False)
    return figure


COLOURS = {"right": INK, "wrong": WRONG, "missed": MISSED, "tag": INK, "word": WORDS}
MARKS = {"wrong": "?", "missed": "*"}
SIZE, FITTING = 8.5, 9
"""Of the letters, and how many of them stand side by side over a token."""


def _draw(place: Any, nodes: Sequence[_Node], height: float, name: str) -> None:
    place.set_axis_off()
    place.set_ylim(-0.6, height + 0.6)
    place.set_title(name, fontsize=11, color=WORDS, parse_math=False)
    if not nodes:
        place.text(0, height / 2, "no parse", color=WRONG, fontsize=11)
    for node in nodes:
        _draw_lines(place, node)
    for node in nodes:
        place.text(
            node.x, node.y, node.text + node.mark, ha="center", va="center",
            fontsize=SIZE * min(1, FITTING / len(node.text)), color=COLOURS[node.kind], zorder=2,
            fontweight="bold" if node.kind in MARKS else "normal",
            style="italic" if node.kind == "word" else "normal", parse_math=False,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2},
        )  # fmt: skip


def _draw_lines(place: Any, node: _Node) -> None:
    """A bar below the node over its children, and a line from the bar down to each of them."""
    if not node.children:
        return
    bar, ends = node.y - 0.5, [x for x, _ in node.children]
    how = {"color": LINES, "linewidth": 0.9, "zorder": 1}
    place.plot([node.x, node.x], [node.y, bar], **how)
    place.plot([min(*ends, node.x), max(*ends, node.x)], [bar, bar], **how)
    for x, y in node.children:
        place.plot([x, x], [bar, y], **how)
