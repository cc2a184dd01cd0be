"""The most violated output against enumeration, planes at hand, and calls that are counted."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct import Model, Oracles, Settings, fit, make_problem
from jaxstruct.chains.structure import chain, chain_inputs
from jaxstruct.multiclass.structure import multiclass
from jaxstruct.solvers.n_slack import oracle_pass
from jaxstruct.solvers.n_slack.oracle_pass import TILE, Batch, filled_slots, look_up_planes
from jaxstruct.solvers.n_slack.working_sets import bucket_of, empty_working_sets
from jaxstruct.solvers.objective.formulations import FORMULATIONS, penalty
from jaxstruct.solvers.objective.most_violated import most_violated, oracle_for
from jaxstruct.solvers.out_of_core.fit_in_blocks import fit_in_blocks
from tests.chains.enumeration import SETTINGS, N, enumerated, loss_in_numpy
from tests.chains.structure_cases import quick_jit
from tests.lib.refusals import refused
from tests.solvers.cases import decode, random_case, score


def required(formulation, loss, margins):
    """H(y) of algorithm 3, line 6 (and 1 - <w, dPsi> without a loss), written out."""
    root = np.sqrt(loss)
    return {
        "svm1_slack": (1 - margins) * loss,
        "svm1_margin": loss - margins,
        "svm2_slack": (1 - margins) * root,
        "svm2_margin": root - margins,
    }.get(formulation, 1 - margins)


def best_class(formulation, loss, theta, y):
    """(argmax over y != y_i with ties to the lowest class, H of all classes)."""
    rows = np.arange(len(y))
    H = required(formulation, loss[y], theta[rows, y][:, None] - theta)
    H[rows, y] = -np.inf
    return H.argmax(axis=1), H


@functools.partial(quick_jit, static_argnums=1)
def called(problem, oracle, terms, theta, y):
    """One program of all formulations."""
    call = functools.partial(most_violated, problem, oracle, terms)
    return jax.vmap(call)(theta, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_ties_go_to_the_lowest_class(x64, formulation, dtype):
    """Integer potentials and losses with integer roots: every H is exact, most cases tie."""
    random, ties = np.random.default_rng(0), 0
    for k in (2, 4, 5):
        loss = random.choice([0.0, 1.0, 4.0, 9.0], size=(k, k))
        np.fill_diagonal(loss, 0.0)
        theta = random.integers(-2, 3, (1500, k)).astype(dtype)
        y = random.integers(0, k, 1500).astype(np.int32)
        wanted, H = best_class(formulation, loss, theta.astype(float), y)
        problem = multiclass(1, k, loss=loss, dtype=dtype)
        terms = penalty(FORMULATIONS[formulation], 1.0, np.ones(1), 1, dtype)
        found = called(problem, "contenders", terms, theta, y)
        np.testing.assert_array_equal(found.output, wanted)
        np.testing.assert_array_equal(found.loss, loss[y, wanted])
        np.testing.assert_array_equal(found.value, H.max(axis=1))
        assert (np.asarray(found.output) != y).all() and found.value.dtype == dtype
        ties += ((H == H.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum()
    assert ties > 200


WITHOUT_LOSS = ("svm0", "svm1", "svm2")
ADDITIVE = [SETTINGS[0], SETTINGS[3]]


def answers(problem, oracle, formulation, chains, dtype="float64"):
    terms = penalty(FORMULATIONS[formulation], 1.0, np.ones(1), 1, dtype)
    found = called(problem, oracle, terms, chains.cast(dtype), chains.y)
    assert found.value.dtype == found.bound.dtype == found.loss.dtype == dtype
    return jax.tree.map(np.asarray, found)


def groups(setting, formulation, costs=None):
    """Of each length: (group, Delta [n, k], H [n, k], -inf where forbidden)."""
    chains = setting.chains()
    for group in enumerated(chains):
        y_true = chains.y[group.rows, : group.labels.shape[1]]
        if costs is None:
            delta = loss_in_numpy(setting.loss, y_true, group.labels)
        else:
            delta = costs[y_true[:, None], group.labels].sum(axis=2)
        margins = group.F[np.arange(len(group.rows)), group.truth][:, None] - group.F
        with np.errstate(invalid="ignore"):
            H = required(formulation, delta, margins)
        yield group, delta, np.where(group.F > -np.inf, H, -np.inf)


def check_exact(setting, oracle, formulation, found, tolerance=1e-9):
    """The output attains max H over y != y_i (or over all, y_i with H = 0, if augmented)."""
    for group, delta, H in groups(setting, formulation):
        truth = 0.0 if oracle == "loss_augmented_decode" else -np.inf
        H = np.where(group.level > 0, H, truth)
        value, reached = found.value[group.rows], group.at(H, found.output)
        np.testing.assert_allclose(value, H.max(axis=1), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(reached, H.max(axis=1), rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(found.bound[group.rows], value)
        np.testing.assert_allclose(found.loss[group.rows], group.at(delta, found.output), rtol=1e-6)


@pytest.mark.parametrize("setting", SETTINGS[:2], ids=lambda setting: setting.name)
def test_every_formulation(x64, setting):
    """With a loss that adds up and one that does not; of each setting `test_structure_oracles`."""
    problem, oracles = setting.problem(), set()
    for formulation, numbers in FORMULATIONS.items():
        oracle = oracle_for(problem, numbers)
        oracles.add(oracle)
        check_exact(
            setting, oracle, formulation, answers(problem, oracle, formulation, setting.chains())
        )
    assert ("loss_augmented_decode" in oracles) == (setting in ADDITIVE)
    assert "best_by_level" in oracles


def bracketed(found, group, H):
    """[n] (max H, the bound less it, whether the value is exact): value <= max H <= bound."""
    truth, value, bound = H.max(axis=1), found.value[group.rows], found.bound[group.rows]
    some = truth > -np.inf
    assert (value <= truth + 1e-9).all() and (np.isneginf(value) == ~some).all()
    assert (truth[some] <= bound[some] + 1e-9).all()
    np.testing.assert_allclose(group.at(H, found.output)[some], value[some], rtol=0, atol=1e-9)
    return truth, np.where(some, bound - np.where(some, truth, 0), 0), value >= truth - 1e-9


def searching(problem):
    """Without loss levels, so that slack re-scaling is searched for."""
    return problem._replace(oracles=problem.oracles._replace(level_losses=None, best_by_level=None))


@pytest.mark.parametrize("setting", ADDITIVE, ids=lambda setting: setting.name)
def test_search_brackets_the_truth(x64, setting):
    """value <= max H <= bound, for both slack re-scalings; most are exact."""
    problem = searching(setting.problem())
    for formulation in ("svm1_slack", "svm2_slack"):
        assert oracle_for(problem, FORMULATIONS[formulation]) == "searched"
        found, exact, tight = answers(problem, "searched", formulation, setting.chains()), 0, 0
        for group, delta, H in groups(setting, formulation):
            H[np.arange(len(H)), group.truth] = 0.0
            loss = group.at(delta, found.output)
            np.testing.assert_allclose(found.loss[group.rows], loss, rtol=1e-9)
            _, above, right = bracketed(found, group, H)
            exact, tight = exact + right.sum(), tight + (above <= 1e-9).sum()
        assert exact >= 0.95 * N and tight >= 0.5 * N


@pytest.mark.thorough
def test_levels_of_any_costs_bracket_the_truth(x64):
    """value <= max H <= bound where costs are no multiples of a unit; most are exact."""
    setting, costs = SETTINGS[5], np.array([[0, 0.31, 0], [1.7, 0, 1.1], [0, 0.83, 0]])
    chains = setting.chains().padded(2)
    problem = chain(1, 3, loss=costs, dtype="float64", constraints=chains.constraints)
    for formulation in ("svm1_slack", "svm2_slack"):
        assert oracle_for(problem, FORMULATIONS[formulation]) == "best_by_level"
        found = answers(problem, "best_by_level", formulation, chains)
        excess, exact = [], 0
        for group, _, H in groups(setting, formulation, costs):
            wrong = np.where(group.level > 0, H, -np.inf)
            truth, above, right = bracketed(found, group, wrong)
            exact += right.sum()
            excess += list(above[truth > 0] / truth[truth > 0])
        assert exact >= 0.95 * N and np.mean(excess) < 1e-2 and np.median(excess) < 1e-9


def test_the_shortest_way_is_chosen():
    """By what the structure offers; no decode and no search serves svm2_margin, sqrt(Delta) - m."""
    S, costs = 3, 1.5 * (1 - np.eye(3))

    def chosen(problem, name):
        return oracle_for(problem, FORMULATIONS[name])

    for name in FORMULATIONS:
        assert chosen(multiclass(2, 3), name) == "contenders"
        additive = dict.fromkeys(WITHOUT_LOSS, "best_wrong")
        additive["svm1_margin"] = "loss_augmented_decode"
        assert chosen(chain(2, S), name) == additive.get(name, "best_by_level")
        assert chosen(chain(2, S, loss=costs), name) == additive.get(name, "best_by_level")
        searched = searching(chain(2, S))
        if name == "svm2_margin":
            refused("svm2_margin needs the loss levels", chosen, searched, name)
            continue
        assert chosen(searched, name) == additive.get(name, "searched")
        zero_one = chain(2, S, loss="zero_one")
        assert chosen(zero_one, name) == ("best_wrong" if name in WITHOUT_LOSS else "best_by_level")


HELD, B, T, S = 6, 4, 5, 3
_look_up, _filled = jax.jit(look_up_planes), jax.jit(filled_slots)
_potentials = jax.jit(lambda problem, w, x: jax.vmap(problem.model.potentials, (None, 0))(w, x))


@jax.jit
def _whole(problem, theta, x, y_true, held, y):
    """F of the planes at hand, their inner products with that of y, and its squared norm."""
    scores = jax.vmap(problem.space.plane_scores)(theta, held)
    gram = jax.vmap(problem.space.plane_gram)(x, y_true, held, y)
    return scores, gram, jax.vmap(problem.space.plane_norms)(x, y_true, y[:, None])[:, 0]


def chains(random):
    x = chain_inputs(random.normal(size=(HELD, T, 4)), random.integers(1, T + 1, HELD))
    real = np.arange(T) < x.length[:, None]

    def draw(*shape):
        y = random.integers(0, S, (*shape, T))
        return np.where(real.reshape(HELD, *[1] * (len(shape) - 1), T), y, -1).astype(np.int32)

    return chain(4, S, dtype="float64"), x, draw


def classes(random):
    def draw(*shape):
        return random.integers(0, 50, shape).astype(np.int32)

    return multiclass(4, 50, dtype="float64"), random.normal(size=(HELD, 4)), draw


@pytest.mark.parametrize("slots, filled", [(20, 3), (20, 1), (20, 8), (20, 9), (20, 20), (5, 4)])
@pytest.mark.parametrize("output_type", [chains, classes])
def test_every_filled_slot_is_met(x64, output_type, slots, filled):
    """Scores and inner products of occupied slots, 0 in empty ones; a plane at hand is known."""
    random = np.random.default_rng([slots, filled])
    problem, x, draw = output_type(random)
    truth, held = draw(HELD), draw(HELD, slots)
    held[:, 0] = truth
    occupied = (random.random((HELD, slots)) < 0.7) & (np.arange(slots) < filled)
    occupied[:, 0] = True
    sets = bucket_of(empty_working_sets((truth,), slots, "float64"), 0)
    sets = sets._replace(outputs=held, occupied=occupied)
    w = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), problem.initial_weights)
    index = random.permutation(HELD)[:B]
    some = jax.tree.map(lambda leaf: np.asarray(leaf)[index], x)
    theta = _potentials(problem, w, some)
    y = draw(HELD)[index]
    y[1], y[2] = held[index[1], 0], held[index[2], slots - 1]  # known; known if occupied
    scores, lookup = _look_up(problem, sets, Batch(index, some, truth[index], theta), y, x)
    wanted, gram, own = _whole(problem, theta, some, truth[index], held[index], y)
    inside = occupied[index]
    np.testing.assert_allclose(np.where(inside, scores, 0), np.where(inside, wanted, 0), atol=1e-12)
    np.testing.assert_allclose(lookup.products, np.where(inside, gram, 0), atol=1e-12)
    np.testing.assert_allclose(lookup.squared, own, atol=1e-12)
    same = (held[index] == y[:, None]).reshape(B, slots, -1).all(axis=2) & inside
    np.testing.assert_array_equal(lookup.known, same.any(axis=1))
    assert lookup.known[1]
    last = np.max(np.where(inside, np.arange(slots) + 1, 0))
    assert _filled(inside) == last
    beyond = np.arange(slots) >= min(-(-last // TILE) * TILE, slots)
    assert not np.any(np.asarray(scores)[:, beyond])


K = 5
GROWN = Settings(checked_examples=0, variant="subspace", capacity=8)
ran = [0]


def _count(_: np.ndarray) -> None:
    ran[0] += 1


def _loss(y_true: jax.Array, y: jax.Array) -> jax.Array:
    return (y_true != y).astype(jnp.float32)


def _augmented(theta: jax.Array, y_true: jax.Array, scale: jax.Array) -> jax.Array:
    jax.debug.callback(_count, theta[0])
    return decode(theta + scale * (jnp.arange(K) != y_true))


MODEL = Model(lambda w, x: x @ w, score, decode, _loss)
ORACLES = Oracles(loss_augmented_decode=_augmented)
EXACT = make_problem(jnp.zeros((4, K)), MODEL, ORACLES)


def counted(train, n, problem=EXACT, **options):
    """(a training's statistics, how often the oracle ran in it)."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n, 4)).astype(np.float32)
    y = np.argmax(x @ random.normal(size=(4, K)) + random.normal(size=(n, K)), axis=1)
    ran[0] = 0
    found = train(problem, x, y.astype(np.int32), C=10.0, **options)
    jax.effects_barrier()
    return found.statistics, ran[0]


@pytest.mark.parametrize(
    "train, options",
    [
        (fit, {"settings": GROWN}),
        (fit, {"settings": GROWN._replace(certify_every=2), "tolerance": 0.01}),
        (fit_in_blocks, {"settings": GROWN, "blocks": 2}),
    ],
)
def test_what_is_counted_is_what_runs(train, options):
    """Whole batches: every call of every pass. Else rows of padding run too: 64 for 60."""
    blocks = options.get("blocks", 1)  # of as many rows
    statistics, calls = counted(train, 64 * blocks, **options)
    assert statistics.oracle_calls == calls > 0
    if blocks == 1:
        statistics, calls = counted(train, 60, **options)
        assert statistics.oracle_calls * 64 == calls * 60


def test_a_pass_writes_in_place():
    """Its temporary memory is that of a batch of 8: no array of all 1,024 examples is copied."""
    case, capacity = random_case(n=1024), 32
    task = case.task("svm1_margin", 1.0, batch=8, dtype="float32")
    sets = empty_working_sets(task.outputs, capacity, "float32")
    order, none = np.arange(1024, dtype=np.int32).reshape(-1, 8), np.int32(0)
    calls = oracle_pass.Calls((order,), ((none, np.int32(128)),), np.float32(0.1), none)
    problem, options = case.problem("float32"), oracle_pass.OracleOptions("contenders", 0)
    report = oracle_pass.empty_report(1024, 0, "float32")
    call = jax.jit(oracle_pass.oracle_pass, static_argnums=1, donate_argnums=(4, 5))
    given = problem, options, task, problem.initial_weights, sets, report, calls
    taken = call.lower(*given).compile().memory_analysis()
    assert taken.temp_size_in_bytes < sets.losses.nbytes
