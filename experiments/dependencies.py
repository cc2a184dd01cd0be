"""Dependency trees of GUM with gold tags: perceptron, SVM and random field, crossing arcs or none.

    python -m experiments.dependencies
    python -m experiments.dependencies --sentences=1000 --methods=perceptron,svm --trees=projective
    python -m experiments.dependencies --labels --methods=perceptron --parts=dev,test

All sentences take two to eight minutes a training on one core. UAS and LAS count every word,
punctuation too. Crossing arcs of training sentences are lifted for projective parsers; what is
predicted is measured against the trees as they are. A second table compares the parsers in pairs,
by the sentences of which one has more words right than the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from experiments.corpora.gum_dependencies import load_gum_dependencies
from experiments.lib import common, fields
from experiments.lib.options import flag
from experiments.lib.plots import Plot
from experiments.lib.progress import fitted
from experiments.lib.record import SECONDS, Stopwatch
from experiments.lib.report import LINE, Table, render, rows_table
from jaxstruct import Prepared, dependencies, predict
from jaxstruct.baselines import fit_random_field, perceptron
from jaxstruct.core.types import PyTree
from jaxstruct.data.conllu import Annotated
from jaxstruct.dependencies import lifted
from jaxstruct.evaluation import attachment, mcnemar

METHODS = ("perceptron", "svm", "crf")
TREES = ("projective", "any")
PARTS = ("dev", "test")
LONGEST_SHOWN = 12
COLUMNS = {
    "method": "method", "trees": "trees", "part": "part", ("UAS %", "train"): "train_uas",
    ("UAS %", "part"): "uas", "LAS %": "las", "whole trees %": "whole",
    **SECONDS, ("seconds", "processor"): "processor", "status": "status",
}  # fmt: skip


class Options(fields.Training):
    """The flags of this command."""

    path: str | None = flag(None, "The archive of GUM; default: see third_party_data.")
    sentences: int = flag(0, "The first so many training sentences; 0: all.", least=0)
    test_sentences: int = flag(0, "The first so many of a tested part; 0: all.", least=0)
    parts: Sequence[str] = flag(PARTS[:1], "What is tested on.", PARTS, some=True)
    methods: Sequence[str] = flag(METHODS, "Some of these.", METHODS, some=True)
    trees: Sequence[str] = flag(TREES, "Whether arcs may cross.", TREES, some=True)
    labels: bool = flag(False, "Whether arcs have labels.")
    c_over_n: float = flag(0.1, "C' = C / n of the SVM and the random field.", above=0)
    epochs: int = flag(5, "Passes of the perceptron at most.", least=1)
    max_passes: int = flag(15, "Rounds of the SVM at most.", least=1)
    max_iterations: int = flag(30, "Iterations of the random field at most.", least=1)
    tolerance: float = 5e-2


def run(options: Options) -> common.Outcome:
    """Train and test all parsers, print the table and write it.

    Raises:
      CorpusMissing: the corpus is not on this machine; the message says how to get it.
    """
    dtype = common.prepare(options)
    gum = load_gum_dependencies(Path(options.path) if options.path else None)
    train = gum.train[: options.sentences or None]
    parts = {part: getattr(gum, part)[: options.test_sentences or None] for part in options.parts}
    shown: dict[str, Any] = {}
    rows = common.finished_rows(options, _rows(options, dtype, train, parts, shown))
    sizes = (
        f"{len(own)} of {sum(len(each.words) for each in own)} words ({part})"
        for part, own in parts.items()
    )
    notes = [
        f"GUM (Universal Dependencies), gold tags: {len(train)} sentences to train, to test "
        f"{' and '.join(sizes)}; C' = {options.c_over_n:g}, {options.epochs} epochs of the "
        "perceptron, whose averaged weights are measured."
    ]
    table, pairs = rows_table("Dependency trees", COLUMNS, rows, notes), _pairs_table(rows)
    print(render(pairs, LINE) + "\n")
    plots = {"dependencies_tree": _picture(**shown)} if shown else {}
    return common.save(options, table, {"rows": rows, "pairs": pairs._asdict()}, plots)


def _tree(sentence: Annotated, projective: bool, labels: bool) -> list:
    heads = lifted(sentence.heads) if projective else list(sentence.heads)
    return list(zip(heads, sentence.relations, strict=True)) if labels else heads


def _rows(
    options: Options, dtype: str, train: Sequence[Annotated],
    parts: Mapping[str, Sequence[Annotated]], shown: dict[str, Any],
) -> Iterator[list[dict[str, Any]]]:  # fmt: skip
    """Of each training a row for each part."""
    for trees in options.trees:
        projective = trees == "projective"
        data = dependencies.prepare(
            [each.tokens for each in train],
            [_tree(each, projective, options.labels) for each in train],
            projective=projective, dtype=dtype,
            loss="labelled_hamming" if options.labels else "hamming",
        )  # fmt: skip
        for method in options.methods:
            watch = Stopwatch()
            weights, status = _trained(options, method, data)
            training = {"method": method, "trees": trees, "status": status}
            training |= watch.numbers(weights) | {"processor": watch.elapsed().process}
            seen = train[: max(map(len, parts.values()))]
            training["train_uas"] = 100 * attachment(*_parsed(options, data, weights, seen)).uas
            yield [
                training | {"part": part} | _measured(options, data, weights, test, shown)
                for part, test in parts.items()
            ]


def _trained(options: Options, method: str, data: Prepared) -> tuple[PyTree, Any]:
    """(weights, how the training ended)."""
    C = options.c_over_n * len(data.inputs.length)
    if method == "perceptron":
        machine = perceptron(*data, max_epochs=options.epochs, seed=options.seed)
        return machine.averaged, machine.status
    if method == "crf":
        field = fit_random_field(
            *data, C, tolerance=options.tolerance, max_iterations=options.max_iterations
        )
        return field.weights, field.status
    name = "svm1_margin"
    solution, _ = fitted(options, name, data, name, C, max_passes=options.max_passes)
    return solution.weights, solution.status


def _parsed(
    options: Options, data: Prepared, weights: PyTree, part: Sequence[Annotated]
) -> tuple[list, list]:
    """(the true trees, those predicted)."""
    inputs = data.encoding.inputs([each.tokens for each in part])
    found = data.encoding.decode(predict(data.problem, weights, inputs))
    return [_tree(each, False, options.labels) for each in part], found


def _measured(
    options: Options, data: Prepared, weights: PyTree, test: Sequence[Annotated],
    shown: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    trees, found = _parsed(options, data, weights, test)
    scores = attachment(trees, found)
    if not shown:
        shown.update(_one_to_show(test, trees, found))
    return {
        "uas": 100 * scores.uas, "las": None if scores.las is None else 100 * scores.las,
        "whole": 100 * scores.whole,
        "right": [
            sum(a == b for a, b in zip(*both, strict=True))
            for both in zip(trees, found, strict=True)
        ],
    }  # fmt: skip


def _pairs_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Sentences of which one parser of a part has more words right than another, and p."""
    lines = []
    for a, b in combinations(rows, 2):
        if a["part"] == b["part"]:
            of_a, of_b = np.array(a["right"]), np.array(b["right"])
            test = mcnemar(of_a > of_b, of_b > of_a)
            names = (f"{each['method']}, {each['trees']}" for each in (a, b))
            lines.append([a["part"], *names, test.only_a, test.only_b, f"{test.p_value:.2g}"])
    columns = ["part", "a", "b", ("sentences", "a better"), ("sentences", "b better"), "p"]
    notes = [
        "Words with the right head, and the right label where there are labels; sign test, "
        "two-sided."
    ]
    return Table("Dependency trees, pair by pair", columns, lines, notes)


def _one_to_show(test: Sequence[Annotated], trees: list, found: list) -> dict[str, Any]:
    """The longest short sentence with one word or two that hang wrong; else the first one."""

    def interest(i: int) -> tuple[bool, int]:
        wrong = sum(a != b for a, b in zip(trees[i], found[i], strict=True))
        return (1 <= wrong <= 2, len(trees[i]))

    short = [i for i, tree in enumerate(trees) if len(tree) <= LONGEST_SHOWN] or [0]
    i = max(short, key=interest)
    heads = [
        [one[0] if isinstance(one, tuple) else one for one in tree] for tree in (trees[i], found[i])
    ]
    return {"words": list(test[i].words), "heads": heads[0], "predicted": heads[1]}


def _picture(words: list[str], heads: list[int], predicted: list[int]) -> Plot:
    """A parsed sentence: arcs above the words as predicted, and below them those that it misses."""
    from matplotlib.figure import Figure

    top = max(abs(head - word) for word, head in enumerate(predicted, 1))
    height = 0.55 * top + 2  # an arc is a quarter as high as it is long
    figure = Figure(figsize=(1.1 * len(words) + 1, height), layout="constrained")
    axes = figure.add_subplot()
    for word, (head, true) in enumerate(zip(predicted, heads, strict=True), 1):
        right = head == true
        _draw_arc(axes, head, word, 1, "0.3" if right else "red", top)
        if not right:
            _draw_arc(axes, true, word, -1, "tab:green", top)
        axes.text(word, 0, words[word - 1], ha="center", va="center", fontsize=11)
    axes.set(xlim=(0.3, len(words) + 0.7), ylim=(-0.75 * top - 0.9, 0.75 * top + 0.9))
    axes.set_title("Predicted arcs above (red: wrong), the right ones of these below")
    axes.axis("off")
    return Plot(figure, {"words": words, "heads": heads, "predicted": predicted})


def _draw_arc(axes: Any, head: int, word: int, side: int, colour: str, top: float) -> None:
    """An arrow from the head to the word; from above or below where the root is the head."""
    foot = 0.25 * side
    if head == 0:
        begin, bend = (word, side * (0.75 * top + 0.4)), "arc3,rad=0"
    else:
        begin, bend = (head, foot), f"arc3,rad={-0.45 * side * (1 if head < word else -1)}"
    axes.annotate(
        "", xy=(word, foot), xytext=begin,
        arrowprops={"arrowstyle": "-|>", "color": colour, "connectionstyle": bend},
    )  # fmt: skip
