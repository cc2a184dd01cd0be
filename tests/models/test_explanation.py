"""What models have learned, by name, in every output type; support outputs; pictures."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from jaxstruct import Prepared, Solution, chains, fit, graphs, multiclass, support_outputs, trees
from jaxstruct.core.padding import padded
from jaxstruct.models import Matrix, Ranking, TrainedModel
from jaxstruct.models.explanation import explain
from jaxstruct.models.trained import trained
from jaxstruct.solvers.solution import FitDetails
from tests.estimators.cases import LABELS, WORDS
from tests.lib.refusals import refused
from tests.models.model_cases import CASES, SEQUENCES, TAGS, TREES, model_of


def _zeros(data: Prepared) -> dict[str, np.ndarray]:
    leaves = data.problem.initial_weights.items()
    return {key: np.zeros(leaf.shape, np.float32) for key, leaf in leaves}


def _table(model: TrainedModel, title: str, **options):
    (found,) = [one for one in explain(model, **options).tables if one.title.startswith(title)]
    return found


def test_the_largest_features_of_a_label_come_first_and_the_smallest_last() -> None:
    data = multiclass.prepare(np.eye(6), list("abcabc"), constant=0)
    w = np.zeros((6, 3), np.float32)
    w[:, 1] = [3, -1, 0, 2, -5, 1]
    model = trained(data, {"weights": w})
    found = _table(model, "features of b", largest=2)
    assert found.names == ("0", "3", "1", "4") and found.weights.tolist() == [3, 2, -1, -5]
    assert _table(model, "features of a").names == ()
    assert "features of a\n  (all are 0)" in str(explain(model))


def test_names_stay_on_one_line() -> None:
    data = multiclass.prepare([["a\nb"], ["x" * 200]], ["u\nv", "w"], constant=0)
    model = trained(data, {"weights": np.ones((2, 2), np.float32)})
    lines = str(explain(model)).splitlines()
    assert len(lines) == 9 and max(map(len, lines)) < 100 and "features of u v" in lines


def test_output_features_count() -> None:
    output_features, w = np.array([[1.0, 2], [0, -1]]), np.array([[1, 1], [0, 2]], np.float32)
    data = multiclass.prepare(
        np.eye(2), ["a", "b"], constant=0, output_features=output_features
    )  # fmt: skip
    model = trained(data, {"weights": w})
    assert _table(model, "features of a").weights.tolist() == [4, 3]
    assert _table(model, "features of b").weights.tolist() == [-1, -2]


def test_transitions_of_chains_and_windows() -> None:
    model = model_of("chain")
    found = _table(model, "transitions")
    assert isinstance(found, Matrix) and found.rows == found.columns == ("A", "('B', 1)")
    np.testing.assert_allclose(found.values, model.weights["transitions"])
    assert len(_table(model, "start").names) == 2
    data = chains.prepare(SEQUENCES, TAGS, window=1)
    w = _zeros(data)
    # The first name before, the second here, the third after.
    w["emissions"][[0, 4, 8], 0] = 1, 2, 3
    names = data.encoding.features.names
    found = _table(trained(data, w), "features of A")
    assert found.names == (f"{names[2]} [+1]", names[1], f"{names[0]} [-1]")


def test_many_labels_are_ranked_not_tabled() -> None:
    labels = [[*range(13)]]
    data = chains.prepare([np.eye(13)], labels)
    w = _zeros(data)
    w["transitions"][3, 5] = 1
    found = _table(trained(data, w), "transitions")
    assert isinstance(found, Ranking) and found.names == ("3 -> 5",)


def test_rules_costs_edges_and_sets_go_by_their_names() -> None:
    tree = model_of("weighted_grammar")
    rules = _table(tree, "rules", largest=100)
    assert "S -> NP VP" in rules.names and len(rules.names) == tree.weights["rules"].size
    assert any(name.startswith("NP+NN -> ") for name in _table(tree, "lexical", largest=99).names)
    costs = explain(model_of("pairwise_alignment")).tables
    assert costs[0].rows == tuple("ACGT") and (costs[0].values == costs[0].values.T).all()
    assert costs[1].weights[0] == costs[1].weights[1]  # linear gaps
    edges = _table(model_of("graph_labelling"), "features of edges").names
    assert any(name.startswith("w: ") for name in edges)
    sets = _table(model_of("multi_label"), "pairs of labels")
    t = model_of("multi_label").weights["pairs"]
    assert sets.values[0, 1] == pytest.approx(t[0, 1, 1] + t[0, 0, 0] - t[0, 0, 1] - t[0, 1, 0])


def test_symmetric_tables_are_shown_symmetric() -> None:
    data = graphs.prepare([(np.eye(2), [(0, 1)])], [["A", "B"]], symmetric=True)
    w = _zeros(data)
    w["pairs"][0, 0, 1] = 2
    assert _table(trained(data, w), "edges").values.tolist() == [[0, 1], [1, 0]]


def test_support_outputs_of_an_example() -> None:
    """Of as many sequences as `test_way_in` trains on; the last one has no token."""
    given, loss = ([*each[:23], []] for each in (WORDS, LABELS)), chains.label_weights([1, 5, 1])
    data = chains.prepare(*given, window=1, start_stop=True, loss=loss)
    solution = fit(*data, C=10.0)
    model = trained(data, solution)
    (table,) = explain(model, solution=solution, example=0).tables
    alone = support_outputs(solution)
    np.testing.assert_allclose(np.sort(table.alpha), np.sort(alone.alpha[alone.example == 0]))
    assert (np.diff(table.alpha) <= 0).all() and len(table.outputs) == len(table.alpha) > 0
    assert all(text.startswith("[") and text != str(LABELS[0]) for text in table.outputs)
    assert table.loss.min() >= 1 and "support outputs of example 0" in str(
        explain(model, solution=solution, example=0)
    )
    assert explain(model, solution=solution, example=23).tables[0].outputs == ()
    for options, message in (
        ({"example": 0}, "solution and example come together"),
        ({"solution": solution, "example": 24}, r"example is 24, of 24 \(counted from 0\)"),
        ({"largest": 0}, "largest must be at least 1"),
        ({"solution": 3, "example": 0}, "solution must be a Solution"),
    ):
        refused(message, explain, model, **options)
    refused("model must be a TrainedModel", explain, solution)


def _solution(outputs: object) -> Solution:
    """A solution whose one example has these outputs, [1, ...], and one slot that is empty."""
    slots = jax.tree.map(lambda leaf: np.stack([leaf[0], leaf[0]])[None], outputs)
    numbers = np.array([[0.5, 0.0]])
    sets = SimpleNamespace(
        multipliers=numbers, scales=np.ones((1, 2)), losses=np.ones((1, 2)), outputs=(slots,)
    )
    empty = Solution(*(None for _ in Solution._fields))
    state = SimpleNamespace(sets=sets)
    details = FitDetails(np.zeros(1, np.int64), "")
    return empty._replace(state=state, details=details, slack=np.zeros(1))


def _outputs(name: str) -> object:
    """The padded outputs of a case, as working sets hold them."""
    data = CASES[name][0]
    return padded(data.problem.padding, data.inputs, data.outputs)[1]


WRITTEN = {
    "multiclass": "'u'",
    "chain": "['A', ('B', 1), 'A']",
    "weighted_grammar": "Tree('S', <5 leaves>)",
    "pairwise_alignment": "('ACGT', 'AC-T')",
    "graph_labelling": "{'p': 'A', 'q': 'B', 'r': 'A'}",
    "multi_label": "{'u'}",
    "candidates": "'good'",
}


@pytest.mark.parametrize("name", WRITTEN)
def test_support_outputs_are_written_in_the_callers_terms(name: str) -> None:
    data, solution = CASES[name][1], _solution(_outputs(name))
    data = trees.read_trees(TREES) if name == "weighted_grammar" else data
    (table,) = explain(model_of(name), solution=solution, example=0, data=data).tables
    assert len(table.outputs) == 1 and table.alpha.tolist() == [0.5]
    assert table.outputs == (WRITTEN[name],)


def test_outputs_that_need_data_say_so() -> None:
    solution = _solution(_outputs("pairwise_alignment"))
    with refused("data must be given to write alignments"):
        explain(model_of("pairwise_alignment"), solution=solution, example=0)
