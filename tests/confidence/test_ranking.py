"""The k best of every structure; what calls of confidence take in memory."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxstruct as js
from experiments.machines.homologues import homologue_inputs, homologue_search
from jaxstruct.confidence import batches, probabilities, ranking
from jaxstruct.core.compiling import programs_traced
from jaxstruct.core.device import memory_limit
from jaxstruct.graphs.inputs import graph_inputs
from jaxstruct.graphs.multi_label import multi_label
from jaxstruct.graphs.structure import graph_labelling
from jaxstruct.solvers.validation.checks import checked_inputs
from tests.confidence.cases import LOG_LINEAR, MOST, NUMBER, case, one, own_structure, ranked
from tests.lib.equality import assert_same
from tests.lib.refusals import refused
from tests.solvers.test_size_classes import trees


@pytest.mark.parametrize("name", [*LOG_LINEAR, "local"])
def test_the_first_is_the_prediction_and_all_are_there(name) -> None:
    """Distinct outputs in falling order of F, as many as there are; margins and mask follow."""
    given = case(name)
    found, K = ranked(name), MOST.get(name, 8)
    assert_same(found.outputs[0], js.predict(*given[:3]), kinds=True)
    np.testing.assert_array_equal(found.mask, found.scores > -np.inf)
    np.testing.assert_array_equal(
        found.margins[found.mask],
        (found.scores[:, :1] - np.where(found.mask, found.scores, 0))[found.mask],
    )
    assert (found.margins[~found.mask] == np.inf).all() and (found.margins >= -1e-6).all()
    if given.count is not None:
        np.testing.assert_array_equal(found.mask.sum(axis=1), np.minimum(given.count, K))
    for i, own in enumerate(found.mask.sum(axis=1)):
        outputs = [one(found.outputs[j], i) for j in range(own)]
        assert len(set(outputs)) == own
        last = one(found.outputs[K - 1], i)
        assert own == K or not any(last), "nothing stands where there is no output"


@pytest.mark.parametrize("name", ["classes", "candidates", "sets"])
def test_scores_are_those_of_the_outputs(name) -> None:
    """By the joint feature map, which knows nothing of oracles."""
    given, found = case(name), ranked(name)
    features = jax.jit(partial(js.joint_feature, given.problem))
    for j in range(min(3, len(found.outputs))):
        for i in np.flatnonzero(found.mask[:2, j]):
            x, y = jax.tree.map(lambda leaf, i=i: leaf[i], (given.inputs, found.outputs[j]))
            psi = features(x, y)
            dots = jax.tree.map(np.vdot, psi, given.weights)
            assert float(sum(jax.tree.leaves(dots))) == pytest.approx(found.scores[i, j], abs=1e-5)


@pytest.mark.smoke
def test_ties_go_to_the_lowest() -> None:
    zero = jax.tree.map(jnp.zeros_like, case("classes").weights)
    found = js.confidence.k_best(case("classes").problem, zero, case("classes").inputs, k=3)
    for j in range(3):
        np.testing.assert_array_equal(found.outputs[j], np.full(5, j))
    assert (found.margins == 0).all()


def test_homologues_are_ranked_by_candidate() -> None:
    random = np.random.default_rng(0)
    problem = homologue_search(3)
    natives = [random.integers(0, 3, 4) for _ in range(3)]
    lists = [[random.integers(0, 3, 3) for _ in range(1 + i)] for i in range(3)]
    inputs = homologue_inputs(natives, lists)
    weights = jax.tree.map(
        lambda leaf: jnp.asarray(random.normal(size=leaf.shape), leaf.dtype),
        problem.initial_weights,
    )
    found = js.confidence.k_best(problem, weights, inputs, k=3)
    assert_same(found.outputs[0], js.predict(problem, weights, inputs), kinds=True)
    np.testing.assert_array_equal(found.mask.sum(axis=1), [1, 2, 3])
    ranked = np.stack([y.candidate for y in found.outputs], axis=1)
    assert [sorted(row[row >= 0]) for row in ranked] == [[0], [0, 1], [0, 1, 2]]
    with refused("problem has no marginals: a search of homologues takes"):
        js.confidence.marginals(problem, weights, inputs)


@pytest.mark.smoke
def test_two_best_of_a_structure_that_lists_nothing() -> None:
    whole, given = own_structure(), case("own")
    oracles = whole.oracles._replace(all_outputs=None)
    few = js.make_problem(whole.initial_weights, whole.model, oracles)
    two = js.confidence.k_best(few, given.weights, given.inputs, k=2)
    listed = js.confidence.k_best(whole, given.weights, given.inputs, k=2)
    np.testing.assert_allclose(two.scores, listed.scores)
    for a, b in zip(two.outputs, listed.outputs, strict=True):
        np.testing.assert_array_equal(a, b)
    with refused("k must be at most 2 for this problem, got 3: give"):
        js.confidence.k_best(few, given.weights, given.inputs, k=3)
    with refused("problem has no sample: give .*Oracles.all_outputs"):
        js.confidence.sample(few, given.weights, given.inputs, jax.random.key(0))
    alone = js.Oracles(loss_augmented_decode=lambda theta, y, scale: y)
    with refused("problem has no k_best: give make_problem"):
        best_only = js.make_problem(whole.initial_weights, whole.model, alone)
        js.confidence.k_best(best_only, given.weights, given.inputs, k=1)


def test_what_has_no_exact_oracle_says_what_to_do() -> None:
    nodes = js.ragged([np.ones((2, 4), np.float32)])
    edges = js.ragged([np.array([[0, 1]])], -1)
    bounded = graph_labelling(4, 2)
    with refused(r"inputs have no plans.*make them with plans=True"):
        js.confidence.k_best(bounded, bounded.initial_weights, graph_inputs(nodes, edges))
    relaxed = multi_label(4, 3, inference="relaxed")
    x = np.ones((2, 4), np.float32)
    with refused("whose outputs are marginals: give the problem of label"):
        js.confidence.k_best(relaxed, relaxed.initial_weights, x)
    many = multi_label(4, 18, inference="reweighted")
    with refused("problem has 18 labels with pairs, more sets than the"):
        js.confidence.k_best(many, many.initial_weights, x)
    alone = multi_label(4, 18, pairs=False, inference="reweighted")
    assert js.confidence.k_best(alone, alone.initial_weights, x, k=2).mask.all()


def test_arguments_are_checked() -> None:
    given = case("classes")
    with refused("k must be at least 1, got 0"):
        js.confidence.k_best(given.problem, given.weights, given.inputs, k=0)
    with refused("batch must be at least 1"):
        js.confidence.k_best(given.problem, given.weights, given.inputs, batch=0)
    with refused("weights must be a pytree as problem.initial_weights"):
        js.confidence.k_best(given.problem, {"other": 1}, given.inputs)


def test_zeros_of_either_sign_are_equal_scores() -> None:
    """The first of the k best is what `predict` returns, and ties are in the order of outputs."""
    x, classes = np.ones((1, 1), np.float32), np.array([[-0.0, 0.0, -1.0, -0.0]], np.float32)
    problem, w = js.multiclass.multiclass(1, 4), {"weights": classes}
    best = js.confidence.k_best(problem, w, x, k=4)
    assert [int(one[0]) for one in best.outputs] == [0, 1, 3, 2]
    assert js.predict(problem, w, x)[0] == best.outputs[0][0]


def long_chains():
    x = np.zeros((16, 40, 3), np.float32)
    return js.chains.chain(3, 12), js.chains.chain_inputs(x, np.full(16, 40))


def long_alignments():
    letters = [np.arange(40) % 4] * 8
    return js.alignments.pairwise_alignment(4), js.alignments.alignment_inputs(letters, letters)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "given, of",
    [
        (long_alignments, "k_best"),
        (lambda: trees(0, 16, None)[:2], "k_best"),
        (long_chains, "marginals"),
    ],
)
def test_the_bytes_that_the_compiler_lays_out(given, of) -> None:
    """Of tables, of charts, and where most of what the oracle computes is not asked for."""
    problem, inputs = given()
    (inputs,) = checked_inputs(problem, inputs).parts
    before = batches.bare(problem), problem.initial_weights
    if of == "k_best":
        call = ranking.ranked_call(problem, problem.initial_weights, 12)
    else:
        call = batches.Call("marginals", probabilities._marginals, before, (np.float32(1),))
    n = jax.tree.leaves(inputs)[0].shape[0]
    found = call.bytes(inputs, n)
    lowered = jax.jit(call.program.function).lower(*call.before, inputs, *call.after)
    laid_out = lowered.compile().memory_analysis()
    taken = laid_out.temp_size_in_bytes + laid_out.output_size_in_bytes
    assert 0.75 * taken < found < 1.25 * taken


def test_batches_are_split_so_that_a_call_stays_within_the_bytes(monkeypatch) -> None:
    given, rows = case("chain"), []
    before, k = ranked("chain"), 8
    (inputs,) = checked_inputs(given.problem, given.inputs).parts
    call = ranking.ranked_call(given.problem, given.weights, k)
    n = jax.tree.leaves(inputs)[0].shape[0]
    monkeypatch.setattr(batches, "CALL_BYTES", call.bytes(inputs, 2))
    of_call = batches.Call.bytes

    def noted(call, inputs, number):
        rows.append(number)
        return of_call(call, inputs, number)

    monkeypatch.setattr(batches.Call, "bytes", noted)
    found = js.confidence.k_best(*given[:3], k=k)
    assert rows[0] >= n and rows[-1] < rows[0]
    assert of_call(call, inputs, rows[-1]) <= batches.CALL_BYTES
    assert_same(found.outputs, before.outputs, kinds=True)
    np.testing.assert_allclose(found.scores, before.scores, rtol=1e-6)  # programs of two shapes


def test_more_than_there_is_is_refused_before_anything_runs(monkeypatch) -> None:
    chain, given, message = case("chain"), case("classes"), "of the longest inputs takes"
    call, outputs = given[:3], ranked("classes").outputs[0]
    assert memory_limit() > 1e8
    monkeypatch.setattr(batches, "memory_limit", lambda: 10)
    traced = programs_traced()
    refused(f"k_best: one {message}", js.confidence.k_best, *chain[:3], k=10**9)
    assert programs_traced() == traced  # its results alone are too large
    refused(f"k_best: one {message}", js.confidence.k_best, *call, k=3)
    refused(f"marginals: one {message}", js.confidence.marginals, *call)
    refused(f"sample: one {message}", js.confidence.sample, *call, jax.random.key(0), NUMBER)
    refused(f"log_losses: one {message}", js.confidence.log_losses, *call, outputs)
    refused(f"fit_temperature: one {message}", js.confidence.fit_temperature, *call, outputs)


def test_no_more_is_computed_than_there_are_outputs(k=1000) -> None:
    """What is beyond is one output of -1, as many times as it is asked for."""
    given, few = case("chain"), ranked("chain")
    found = js.confidence.k_best(*given[:3], k=k)
    assert len(found.outputs) == found.scores.shape[1] == k
    K = len(few.outputs)
    assert_same(found.outputs[: K - 1], few.outputs[: K - 1], kinds=True)
    np.testing.assert_array_equal(found.scores[:, :K], few.scores)
    assert not found.mask[:, K:].any() and found.outputs[-1] is found.outputs[K + 1]
    for own in map(case, ("chain", "tree")):  # of trees over any tokens
        assert max(own.count) <= own.problem.inference.most_outputs(own.inputs) < 50
