"""Label sequences of which a part is known, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.chains.potentials import Constraints
from jaxstruct.core.contract import Incomplete
from tests.chains.oracles.truth import all_labelings
from tests.chains.structure_cases import allowed
from tests.lib.incomplete import check_completions
from tests.lib.refusals import refused

pytestmark = pytest.mark.usefixtures("x64")
S, N = 3, 12
COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
RULES = Constraints(np.eye(S, dtype=bool)[[1, 2, 0]], np.zeros(S, bool), np.arange(S) == 2)
"""Some pairs, and the last label at the end, are forbidden."""


def every(length: int) -> np.ndarray:
    """[K, length] the sequences that are outputs."""
    found = all_labelings(S, length)
    return found[allowed(RULES, found)]


def known_labels() -> list[list[set[int]]]:
    """Of N sequences of 1 to 4 tokens the labels that each token may have, those of an output
    among them."""
    random, found = np.random.default_rng(0), []
    for i in range(N):
        outputs = every(1 + i % 4)
        true = outputs[random.integers(len(outputs))].tolist()
        found.append([{s, *np.flatnonzero(random.random(S) < 0.5).tolist()} for s in true])
    return found


@pytest.mark.parametrize(("order", "loss"), [(1, "normalised_hamming"), (2, COSTS)])
def test_what_agrees_is_found_and_costs_nothing(order: int, loss) -> None:
    """And the likelihood is that of all that agree, whatever the loss."""
    known, random = known_labels(), np.random.default_rng(1)
    table = COSTS if loss is COSTS else 1 - np.eye(S)

    def outputs(i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        length = len(known[i])
        own, at = every(length), np.arange(length)
        possible = np.array([[s in may for s in range(S)] for may in known[i]])
        cheapest = np.array([table[sorted(may)].min(axis=0) for may in known[i]])
        delta = cheapest[at, own].sum(axis=1)
        delta = delta if loss is COSTS else delta / length
        return own, possible[at, own].all(axis=1), delta

    data = js.chains.prepare(
        [random.normal(size=(len(own), 2)) for own in known], known, classes=range(S),
        order=order, start_stop=True, constraints=RULES, loss=loss, dtype="float64",
    )  # fmt: skip
    check_completions(data, outputs, log_loss=order == 2, tolerance=1e-12)


SEQUENCES = [[["a"], ["b"], ["a"]], [["b"]], [["c"], ["a"]]]


def test_none_and_sets_of_labels_are_tables_of_what_is_possible() -> None:
    data = js.chains.prepare(SEQUENCES, [["x", None, {"x", "z"}], ["y"], [{"z"}, "y"]])
    assert data.encoding.codec.classes == ("x", "y", "z")
    assert isinstance(data.outputs, Incomplete)
    np.testing.assert_array_equal(
        data.outputs.known.rows, [[1, 0, 0], [1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 1], [0, 1, 0]]
    )
    assert data.outputs.known.offsets.tolist() == data.outputs.output.offsets.tolist()
    whole = js.chains.prepare(SEQUENCES, [["x", "y", "z"], ["y"], ["z", "y"]])
    assert isinstance(whole.outputs, js.Ragged)
    for labels, words in (
        ([["x", set(), "y"], ["y"], ["z", "y"]], r"labels\[0\]\[1\] is an empty set"),
        ([["x", None, "y"], [{"q"}], ["z", "y"]], r"labels\[1\]\[0\]: 'q' is none of the 3"),
        ([["x", np.nan, None], ["y"], ["z", "y"]], "got nan, a missing label"),
        ([[None] * 3, [None], [None] * 2], "got none"),
    ):
        known = "xyz" if "none of" in words else None
        refused(words, js.chains.prepare, SEQUENCES, labels, classes=known)


def test_what_no_output_agrees_with_is_refused() -> None:
    rules = Constraints(np.array([[0, 1], [0, 0]], bool), np.zeros(2, bool), np.zeros(2, bool))
    labels = [["x", None, "y"], ["y"], ["y", None]]  # x is never before y
    data = js.chains.prepare(SEQUENCES, labels, constraints=rules)
    refused(r"outputs\[0\] does not agree with what is known", js.fit_latent, *data)
