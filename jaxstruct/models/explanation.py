"""What a model has learned, by name: features of labels, transitions, rules, costs, support.

print(explain(model))                                      the largest weights
print(explain(model, solution=solution, example=3))        what holds example 3 in place
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from jaxstruct.alignments import alignment_costs
from jaxstruct.core.checks import check_record, checked_size, text_of
from jaxstruct.core.ragged import ragged
from jaxstruct.models.tables import Explanation, Matrix, Ranking, Support, Table
from jaxstruct.models.trained import TrainedModel
from jaxstruct.models.wings import wing_of
from jaxstruct.solvers.solution import Solution, support_outputs

MOST_COLUMNS = 12
"""Labels of which a matrix of pairs is shown whole; of more, its largest entries are."""
_CELL = 40  # letters of a name in a table
_OUTPUT = 80  # letters of an output


def explain(
    model: TrainedModel,
    *,
    largest: int = 8,
    solution: Solution | None = None,
    example: int | None = None,
    data: Any = None,
) -> Explanation:
    """What a model has learned, by the names of features, labels, rules and letters.

    Weights are shown as F counts them: of classes with output features W Lambda', of symmetric
    tables their symmetric part, of sets of labels t_11 + t_00 - t_01 - t_10 of each pair.

    Args:
      model: of `trained` or `load`.
      largest: how many weights are shown, the largest above 0 and the smallest below.
      solution: of `fit`, of the model's own training, to show an example's support outputs.
      example: which one, counted from 0 in the order of training.
      data: the training data, whose words, sequences or candidates the outputs are written with
        (trees, alignments, graphs of named nodes and candidates).

    Returns:
      An Explanation: of the weights, or of the example where one is named.

    Raises:
      ValueError: an argument does not fit; solution and example do not come together.
    """
    check_record("model", model, TrainedModel, "jaxstruct.trained")
    largest = checked_size("largest", largest)
    if (solution is None) != (example is None):
        raise ValueError("solution and example come together: give both, or neither")
    if solution is not None and example is not None:
        check_record("solution", solution, Solution, "jaxstruct.fit")
        table = _support(model, solution, checked_size("example", example, 0), data)
        return Explanation(repr(model), (table,))
    return Explanation(repr(model), tuple(_TABLES[wing_of(model.encoding).name](model, largest)))


def _ranking(title: str, names: Iterable[str], weights: Any, largest: int) -> Ranking:
    weights, names = np.asarray(weights, np.float64).ravel(), tuple(names)
    order = np.argsort(-weights, kind="stable")
    above = [i for i in order[:largest] if weights[i] > 0]
    below = [i for i in order[-largest:] if weights[i] < 0]
    shown = np.array([*above, *below], np.int64)
    return Ranking(title, tuple(names[i] for i in shown), weights[shown])


def _pairs(title: str, labels: tuple, values: Any, largest: int, joint: str = " -> ") -> Table:
    """A matrix of pairs of labels, or its largest entries where it is too wide to be read."""
    if len(labels) <= MOST_COLUMNS:
        return Matrix(title, labels, labels, np.asarray(values, np.float64))
    names = (f"{a}{joint}{b}" for a in labels for b in labels)
    return _ranking(title, names, values, largest)


def _labels(model: Any) -> tuple[str, ...]:
    classes = model.encoding.codec.classes
    return tuple(one if isinstance(one, str) else text_of(one, _CELL) for one in classes)


def _by_label(names: tuple[str, ...], labels: tuple[str, ...], w: Any, largest: int) -> list:
    """A ranking of the features of each label; w is [d, S]."""
    return [
        _ranking(f"features of {label}", names, w[:, s], largest) for s, label in enumerate(labels)
    ]


def _of_classes(model: Any, largest: int) -> list[Table]:
    w, features = model.weights["weights"], model.options.get("output_features")
    w = w if features is None else w @ np.asarray(features).T
    return _by_label(model.encoding.features.names, _labels(model), w, largest)


def _of_chains(model: Any, largest: int) -> list[Table]:
    w, labels, names = model.weights, _labels(model), model.encoding.features.names
    radius = model.options.get("window", 0)
    if radius:
        places = range(-radius, radius + 1)
        names = tuple(f"{name} [{at:+d}]" if at else name for at in places for name in names)
    tables = _by_label(names, labels, w["emissions"], largest)
    title = "transitions, from the label of a row to that of a column"
    tables.append(_pairs(title, labels, w["transitions"], largest))
    for name in ("start", "stop"):
        if name in w:
            tables.append(_ranking(f"{name} of a sequence", labels, w[name], largest))
    if "triples" in w:
        triples = (f"{a} {b} {c}" for a in labels for b in labels for c in labels)
        tables.append(_ranking("label triples", triples, w["triples"], largest))
    if "pairs" in w:
        both = (f"{name}: {a} {b}" for name in names for a in labels for b in labels)
        tables.append(_ranking("features of label pairs", both, w["pairs"], largest))
    return tables


def _of_trees(model: Any, largest: int) -> list[Table]:
    w, grammar = model.weights, model.encoding.grammar
    symbols, terminals = grammar.symbols, grammar.terminals
    rules = (f"{symbols[a]} -> {symbols[b]} {symbols[c]}" for a, b, c in grammar.binary_rules)
    words = (f"{symbols[a]} -> {terminals[t]}" for a, t in grammar.lexical_rules)
    return [
        _ranking("rules", rules, w["rules"], largest),
        _ranking("lexical rules", words, w["lexical"], largest),
        _ranking("roots", symbols, w["root"], largest),
    ]


def _of_alignments(model: Any, largest: int) -> list[Table]:
    del largest
    letters = tuple(model.encoding.alphabet.letters)
    costs = alignment_costs(float(model.options.get("symmetric", True)), model.weights)
    gaps = np.array([costs.gap_open, costs.gap_extend], np.float64)
    return [
        Matrix("substitution scores", letters, letters, np.asarray(costs.substitution, np.float64)),
        Ranking("costs of gaps", ("first letter", "each later letter"), gaps),
    ]


def _of_graphs(model: Any, largest: int) -> list[Table]:
    w, labels, encoding = model.weights, _labels(model), model.encoding
    both = bool(model.options.get("symmetric", False))
    tables = _by_label(encoding.nodes.names, labels, w["nodes"], largest)
    for kind, pairs in enumerate(w.get("pairs", ())):
        pairs = (pairs + pairs.T) / 2 if both else pairs
        number = f" of kind {kind}" if len(w["pairs"]) > 1 else ""
        title = f"edges{number}, the first end has the label of the row"
        tables.append(_pairs(title, labels, pairs, largest))
    if "edges" in w:
        S = len(labels)
        flat = w["edges"].reshape(-1, S, S)
        flat = (flat + np.swapaxes(flat, 1, 2)) / 2 if both else flat
        names = (
            f"{name}: {a} {b}" for name in encoding.edges.names for a in labels for b in labels
        )
        tables.append(_ranking("features of edges", names, flat, largest))
    return tables


def _of_sets(model: Any, largest: int) -> list[Table]:
    w, labels = model.weights, _labels(model)
    tables = _by_label(model.encoding.features.names, labels, w["labels"], largest)
    if "pairs" in w:
        first, second = np.triu_indices(len(labels), 1)
        t = w["pairs"]
        together = t[:, 1, 1] + t[:, 0, 0] - t[:, 0, 1] - t[:, 1, 0]
        values = np.zeros((len(labels),) * 2)
        values[first, second] = together
        if len(labels) <= MOST_COLUMNS:  # of a ranking each pair once
            values += values.T
        tables.append(_pairs("pairs of labels", labels, values, largest, " + "))
    return tables


def _of_candidates(model: Any, largest: int) -> list[Table]:
    names, w = model.encoding.features.names, model.weights["weights"]
    return [_ranking("features of candidates", names, w, largest)]


_TABLES: dict[str, Callable[[Any, int], list[Table]]] = {
    "multiclass": _of_classes,
    "chain": _of_chains,
    "weighted_grammar": _of_trees,
    "pairwise_alignment": _of_alignments,
    "graph_labelling": _of_graphs,
    "multi_label": _of_sets,
    "candidates": _of_candidates,
}


def _support(model: Any, solution: Solution, example: int, data: Any) -> Support:
    """The outputs of one example with alpha > 0."""
    if example >= len(solution.slack):
        raise ValueError(f"example is {example}, of {len(solution.slack)} (counted from 0)")
    found, wing = support_outputs(solution), wing_of(model.encoding)
    if isinstance(data, str):
        raise ValueError("data must be a list of examples, got one text: trees.read_trees makes it")
    own = [data[example]] if data is not None and wing.reads_data else None
    if wing.name in ("pairwise_alignment", "candidates") and own is None:
        raise ValueError(f"data must be given to write the outputs of a {wing.name}")
    which = np.flatnonzero(found.example == example)
    which = which[np.argsort(-found.alpha[which], kind="stable")]
    several = len(solution.state.sets.outputs) > 1
    outputs = [_output(found.output if several else (found.output,), at) for at in which]
    texts = [text_of(_decoded(model, output, own), _OUTPUT) for output in outputs]
    title = f"support outputs of example {example}, slack {float(solution.slack[example]):.4g}"
    return Support(title, tuple(texts), found.alpha[which], found.loss[which])


def _output(buckets: tuple, at: int) -> Any:
    """Output number `at` of all buckets together, with a leading axis of 1."""
    for bucket in buckets:
        size = len(jax.tree.leaves(bucket)[0])
        if at < size:
            return jax.tree.map(lambda leaf, at=at: np.asarray(leaf)[at : at + 1], bucket)
        at -= size
    raise AssertionError("support outputs are those of the buckets")


def _decoded(model: Any, output: Any, data: list | None) -> Any:
    """What one padded output stands for."""
    name = wing_of(model.encoding).name
    if name in ("chain", "graph_labelling"):
        S = len(model.encoding.codec.classes)
        output = ragged([output[0][output[0] >= 0] % S], -1)
    (one,) = model.encoding.decode(output) if data is None else model.encoding.decode(output, data)
    return one
