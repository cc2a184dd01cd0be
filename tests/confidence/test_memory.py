"""What calls of confidence take in memory: foretold, bounded, refused before anything compiles."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.confidence import batches, probabilities, ranking
from jaxstruct.core.compiling import programs_traced
from jaxstruct.core.device import memory_limit
from jaxstruct.solvers.validation.checks import checked_inputs
from tests.confidence.cases import case, ranked
from tests.confidence.test_ranking import assert_same
from tests.lib.refusals import refused
from tests.solvers.test_size_classes import trees


def _chains():
    x = np.zeros((16, 40, 3), np.float32)
    return js.chains.chain(3, 12), js.chains.chain_inputs(x, np.full(16, 40))


def _alignments():
    letters = [np.arange(40) % 4] * 8
    return js.alignments.pairwise_alignment(4), js.alignments.alignment_inputs(letters, letters)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "given, of",
    [(_alignments, "k_best"), (lambda: trees(0, 16, None)[:2], "k_best"), (_chains, "marginals")],
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
    before = js.confidence.k_best(*given[:3], k=3)
    (inputs,) = checked_inputs(given.problem, given.inputs).parts
    call = ranking.ranked_call(given.problem, given.weights, 3)
    n = jax.tree.leaves(inputs)[0].shape[0]
    monkeypatch.setattr(batches, "CALL_BYTES", call.bytes(inputs, 2))
    of_call = batches.Call.bytes

    def noted(call, inputs, number):
        rows.append(number)
        return of_call(call, inputs, number)

    monkeypatch.setattr(batches.Call, "bytes", noted)
    found = js.confidence.k_best(*given[:3], k=3)
    assert rows[0] >= n and rows[-1] < rows[0]
    assert of_call(call, inputs, rows[-1]) <= batches.CALL_BYTES
    assert_same(found.outputs, before.outputs)
    np.testing.assert_array_equal(found.scores, before.scores)


def test_more_than_there_is_is_refused_before_anything_runs(monkeypatch) -> None:
    given, outputs = case("chain"), ranked("chain").outputs[0]
    assert memory_limit() > 1e8
    monkeypatch.setattr(batches, "memory_limit", lambda: 1000)
    call, message = (given.problem, given.weights, given.inputs), "of the longest inputs takes"
    traced = programs_traced()
    refused(f"k_best: one {message}", js.confidence.k_best, *call, k=10**9)
    assert programs_traced() == traced  # its results alone are too large
    refused(f"k_best: one {message}", js.confidence.k_best, *call, k=6)
    refused(f"marginals: one {message}", js.confidence.marginals, *call)
    refused(f"sample: one {message}", js.confidence.sample, *call, jax.random.key(0), 10)
    refused(f"log_losses: one {message}", js.confidence.log_losses, *call, outputs)
    refused(f"fit_temperature: one {message}", js.confidence.fit_temperature, *call, outputs)


@pytest.mark.parametrize("name, k", [("tree", 10**6), ("chain", 1000)])
def test_no_more_is_computed_than_there_are_outputs(name, k) -> None:
    """What is beyond is one output of -1, as many times as it is asked for."""
    given, few = case(name), ranked(name)
    found = js.confidence.k_best(*given[:3], k=k)
    assert len(found.outputs) == found.scores.shape[1] == k
    K = len(few.outputs)
    assert_same(found.outputs[: K - 1], few.outputs[: K - 1])
    np.testing.assert_array_equal(found.scores[:, :K], few.scores)
    assert not found.mask[:, K:].any() and found.outputs[-1] is found.outputs[K + 1]
