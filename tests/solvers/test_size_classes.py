"""Data of one size class share programs; what is compiled at all; how many slots there are."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxstruct as js
from jaxstruct import Settings, fit, predict
from jaxstruct.core.compiling import programs_traced
from jaxstruct.core.contract import of_planes
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.n_slack import run
from jaxstruct.solvers.n_slack.run import capacity_of
from jaxstruct.solvers.n_slack.task import FEW_ROWS, batches_of_class, fewest_batches
from jaxstruct.solvers.objective.formulations import FORMULATIONS
from jaxstruct.solvers.prepare import prepare_run
from tests.lib.refusals import refused
from tests.solvers.cases import FULL, case_for, random_case
from tests.trees import structure_cases as tree_cases

S, D = 3, 5


def chains(seed, n, longest, size=D):
    rng = np.random.default_rng(seed)
    labels = [rng.integers(0, S, length) for length in [longest, *rng.integers(1, 7, n - 1)]]
    tokens = [rng.normal(size=(len(y), size)).astype(np.float32) + y[:, None] for y in labels]
    return js.chains.chain(size, S), js.chains.chain_inputs(js.ragged(tokens)), js.ragged(labels)


def classes(seed, n, _):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, S, n)
    x = rng.normal(size=(n, D)).astype(np.float32) + y[:, None]
    return js.multiclass.multiclass(D, S), x, y


def texts(seed, n, longest):
    rng = np.random.default_rng(seed)
    table = (rng.random((n, 60)) < 0.04) * rng.normal(size=(n, 60)).astype(np.float32)
    table[:, 8:] = 0
    table[0, :longest] = 1
    rows = js.from_scipy(scipy.sparse.csr_matrix(table))
    return js.multiclass.multiclass(60, S), rows, rng.integers(0, S, n)


def trees(seed, n, _):
    own, all_trees = tree_cases.grammar(0), tree_cases.trees(seed=0)
    some = [all_trees[i % len(all_trees)] for i in range(seed, seed + n)]
    x = js.trees.sentence_inputs(own, [js.trees.tags(tree) for tree in some])
    y = js.trees.tree_outputs([js.trees.encode(own, tree).tree for tree in some])
    return js.trees.weighted_grammar(own), x, y


def alignments(seed, n, longest):
    rng = np.random.default_rng(seed)
    firsts = [rng.integers(0, 4, length) for length in [longest, *rng.integers(3, 8, n - 1)]]
    inputs = js.alignments.alignment_inputs(firsts, [first[1:] for first in firsts])
    operations = [np.arange(len(first)) == 0 for first in firsts]
    outputs = js.alignments.alignment_outputs([own.astype(int) for own in operations])
    return js.alignments.pairwise_alignment(4), inputs, outputs


def graphs(seed, n, longest):
    """Paths, cycles, stars and nodes apart, of other shapes for every seed."""
    rng = np.random.default_rng(seed)
    sizes = [longest, *rng.integers(1, 7, n - 1)]
    labels = [rng.integers(0, S, V) for V in sizes]
    cells = [rng.normal(size=(len(y), D)).astype(np.float32) + 2 * y[:, None] for y in labels]
    path = [np.stack([np.arange(V - 1), np.arange(1, V)], axis=1) for V in sizes]
    kinds = (
        lambda V, own: own if V < 3 else np.concatenate([own, [[V - 1, 0]]]),
        lambda V, own: np.stack([np.zeros(V - 1, int), np.arange(1, V)], axis=1),
        lambda V, own: own[:0],
    )
    edges = [path[0], *(kinds[rng.integers(3)](V, own)
                        for V, own in zip(sizes[1:], path[1:], strict=True))]  # fmt: skip
    return js.graphs.graph_labelling(D, S), js.graphs.graph_inputs(cells, edges), js.ragged(labels)


OUTPUT_TYPES = {each.__name__: each for each in (chains, classes, texts, trees, alignments, graphs)}


def assert_one_optimum(whole, found):
    """Of two trainings of one problem, whatever their oracle may have missed."""
    for one, other in ((whole, found), (found, whole)):
        assert one.status in (js.Status.CONVERGED, js.Status.INEXACT_ORACLE)
        assert one.dual <= other.primal * (1 + 1e-6)
    assert found.certificate.primal_found == pytest.approx(whole.certificate.primal_found, rel=3e-3)


def test_other_data_of_the_class_compile_nothing(compiled) -> None:
    def train(seed, n, longest, C=1.0):
        problem, x, y = chains(seed, n, longest)
        del compiled[:]
        found = js.fit(problem, x, y, "svm1_margin", C * n, tolerance=0.05)
        js.predict(problem, found, x)
        return found.status, [name for name in compiled if "threefry" not in name]

    train(0, 9, 8)
    del compiled[:]
    jax.jit(lambda x: x + 1)(np.float32(0))
    assert compiled  # the listener is called; other tests may have made all of a first training
    for others in ((1, 12, 7), (2, 10, 6), (3, 12, 8, 0.3)):
        status, again = train(*others)
        assert status == js.Status.CONVERGED and again == [], again


@pytest.mark.parametrize("output_type", ["trees", "graphs", "classes", "texts"])
def test_other_data_of_the_class_are_of_its_shapes(output_type, compiled) -> None:
    """All that programs of a training are compiled for; predictions are made."""
    found = []
    for seed, n, longest in ((0, 9, 8), (1, 12, 7), (2, 10, 6), (3, 12, 8)):
        problem, x, y = OUTPUT_TYPES[output_type](seed, n, longest)
        del compiled[:]
        run = prepare_run(problem, x, y)
        js.predict(problem, problem.initial_weights, x)
        assert not (found and compiled), compiled
        leaves, structure = jax.tree.flatten((run.problem, run.task))
        shapes = [(leaf.shape, leaf.dtype) for leaf in map(np.asarray, leaves)]
        found.append((shapes, structure, run.settings, run.oracle))
    assert all(one == found[0] for one in found)


def _counting(problem, x, y):
    """A function that trains, and says how many programs that took."""

    def train(formulation, C=1.0, start=None):
        before = programs_traced()
        found = js.fit(problem, x, y, formulation, 20 * C, tolerance=0.05, start=start)
        assert found.status == js.Status.CONVERGED
        return found, programs_traced() - before

    return train


def test_formulations_other_C_and_warm_starts_share_programs() -> None:
    """Two programs: oracle and sweeps; the first warm start has one that makes w again."""
    size = D + 3  # of tokens that no other test has
    train, first, other = _counting(*chains(0, 20, 6, size)), "svm2_slack", "svm2_margin"
    found, count = train(first)
    assert count == 2
    assert train(other)[1] == 0
    assert train(first, C=0.3)[1] == 0
    later, count = train(first, C=1.3, start=found)
    assert count <= 1
    assert train(first, C=1.7, start=later)[1] == 0
    assert train(other, start=train(other, C=0.7)[0])[1] == 0


def test_what_sums_planes_of_a_grammar_knows_no_loss() -> None:
    """Another loss needs an oracle of its own, and no other program."""
    own = tree_cases.grammar(0)
    grammars = (js.trees.weighted_grammar(own, loss=loss) for loss in ("node_f1", "zero_one"))
    one, other = (jax.tree.structure(of_planes(grammar, 16)) for grammar in grammars)
    assert one == other


def test_few_examples_in_small_batches_are_of_one_class() -> None:
    """Batches of one, say, as algorithm 1 has them: 1 example or 20, the programs are the same."""
    for batch in (1, 2, 4, 8):
        fewest = fewest_batches(batch)
        found = {batches_of_class(n, batch, 1, fewest) for n in range(batch, FEW_ROWS + 1)}
        assert found == {(FEW_ROWS // batch, batch)}
        assert batches_of_class(FEW_ROWS + 1, batch, 1, fewest) > (FEW_ROWS // batch, batch)
    assert fewest_batches(FEW_ROWS + 1) == fewest_batches(64) == 1


@pytest.mark.parametrize("group", [1, 4, 16])
def test_the_classes_of_numbers_of_rows(group) -> None:
    """Whole groups, room for all, little too much, and the class of a class is itself."""
    for n in range(1, 3000):
        count, size = batches_of_class(n, 64, group)
        assert count * size >= n and size % group == 0 and size <= 64
        assert count == 1 or size == 64
        assert count * size <= max(1.5 * n + 64, 16)
        assert batches_of_class(count * size, 64, group) == (count, size)
    assert len({batches_of_class(n, 64, group) for n in range(1, 3000)}) <= 24


@pytest.mark.parametrize("way", ["enumerated", "grown"])
def test_set_up_compiles_nothing(way, compiled):
    """Of a first fit, sets that grow, a warm start and predictions only the programs compile."""
    case = random_case(0, d=12 if way == "grown" else 11, k=3)  # shapes of their own
    settings = Settings(variant="subspace", working_sets=way, capacity=2)
    compiled.clear()
    problem = case.problem("float32")
    first = fit(problem, case.x, case.y, "svm1", 10.0, settings=settings, max_passes=4)
    again = fit(problem, case.x, case.y, "svm1", 1.0, settings=settings, max_passes=2, start=first)
    predict(problem, again, case.x)
    assert first.statistics.capacity > 2
    programs = {"sweeps_pass", "oracle_pass", "weights_of_multipliers", "decode_batch"}
    programs |= {"enumerated_working_sets"} if way == "enumerated" else set()
    # The copy of the working sets ("map") has no shape that d changes: another test may have it.
    found = {name.removeprefix("jit(").removesuffix(")") for name in compiled} - {"map"}
    assert found == programs


def test_the_second_run_compiles_nothing():
    """Whatever the values: C, formulation, tolerances, losses, data, weights, n up to padding."""
    d, settings = 6, FULL._replace(working_sets="enumerated", warm_passes=2)
    case = random_case(0, d=d, k=3)  # shapes that nothing else has compiled

    def compilations(case, formulation="svm1", C=1.0, **options):
        solution = case.fit(formulation, C, "float32", settings=settings, max_passes=4, **options)
        return solution.statistics.compilations

    assert compilations(case) > 0
    assert compilations(case) == 0
    for formulation in FORMULATIONS:
        assert compilations(case_for(formulation, seed=1, d=d, k=3), formulation, C=37.0) == 0
    assert compilations(case, tolerance=1e-4) == 0
    assert compilations(case, tolerance=None, epsilon=0.5) == 0
    assert compilations(case._replace(loss=2.5 * (1 - np.eye(3)))) == 0
    assert compilations(random_case(7, d=d, k=3, n=10)) == 0
    assert compilations(case, example_weights=np.linspace(0, 2, 12)) == 0
    assert compilations(case, min_margin=0.1) == 0


def test_prediction_is_the_same_in_any_batch():
    case = random_case(0, n=70, d=6, k=3)
    problem = case.problem("float32")
    weights = {"weights": np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)}
    scores = case.x @ weights["weights"].astype(float)
    for batch in (1024, 16, 1):
        found = predict(problem, weights, case.x.astype(np.float32), batch=batch)
        np.testing.assert_array_equal(found, scores.argmax(axis=1))
        assert found.shape == (70,)
    refused("inputs is empty", predict, problem, weights, case.x[:0])


def _of(*shape, dtype=np.int32):
    return jax.ShapeDtypeStruct(shape, dtype)


def _unlisted(k=4):
    """A problem that cannot list its outputs."""
    problem = multiclass(5, k)
    return problem._replace(oracles=problem.oracles._replace(all_outputs=None))


def _slots(problem, n, itemsize=4, length=(), **settings):
    return capacity_of(problem, Settings(**settings), (_of(n, *length),), itemsize)


def _fits(slots, n, itemsize, integers=1):
    """Whether the planes and Gram blocks of n examples stay within the room."""
    return n * (slots * 4 * integers + slots**2 * itemsize) <= run.FIRST_BYTES


@pytest.mark.parametrize("itemsize", [4, 8])
@pytest.mark.parametrize("length", [1, 50, 1000])
def test_slots_are_what_the_room_holds(length, itemsize):
    """The largest power of two from 8 to 64 that fits; 8 where none does."""
    random, seen = np.random.default_rng(0), set()
    for n in (10 ** random.uniform(0, 7, 60)).astype(int).tolist():
        sizes = [s for s in (64, 32, 16) if _fits(s, n, itemsize, length)]
        wanted = sizes[0] if sizes else 8
        assert _slots(_unlisted(), n, itemsize, (length,)) == wanted
        seen.add(wanted)
    assert seen == {8, 16, 32, 64}


def test_buckets_share_the_room(monkeypatch):
    monkeypatch.setattr(run, "FIRST_BYTES", 100 * (64 * 4 * 1000 + 64 * 64 * 4))
    for sizes, wanted in (((50, 50), 64), ((50, 51), 32), ((51, 50), 32)):
        buckets = tuple(_of(n, 1000) for n in sizes)
        assert capacity_of(_unlisted(), Settings(), buckets, 4) == wanted


def test_no_more_slots_than_hold_every_output():
    """The least power of two that does, where the structure lists its outputs, but at least 8."""
    for k, wanted in ((2, 8), (8, 8), (9, 16), (16, 16), (17, 32), (33, 64), (64, 64), (1000, 64)):
        assert _slots(multiclass(5, k), 10) == wanted
        assert _slots(_unlisted(k), 10) == 64


def test_settings_say_how_many_and_how_many_at_most():
    for slots in (2, 100, 512):
        assert _slots(_unlisted(), 9, capacity=slots) == slots
    for most, wanted in ((2, 2), (5, 5), (32, 32), (64, 64), (512, 64)):
        assert _slots(_unlisted(), 10, max_capacity=most) == wanted
    assert _slots(_unlisted(), 10**7, max_capacity=4) == 4
    assert _slots(multiclass(5, 3), 10, max_capacity=4) == 4


def test_outputs_of_several_leaves_are_all_counted():
    n = next(n for n in range(1000, 10**6, 1000) if not _fits(64, n, 4, 30))
    pair = {"one": _of(n, 10), "two": _of(n, 20)}
    assert capacity_of(_unlisted(), Settings(), (pair,), 4) == 32
    assert capacity_of(_unlisted(), Settings(), ({"one": pair["one"]},), 4) == 64
