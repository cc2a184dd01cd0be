"""What the shared checks and declarations refuse, and what they show of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxstruct as js
from experiments.machines.homologues import homologue_search
from jaxstruct.core import checks, spec
from jaxstruct.core.checks import callers_level, warn
from jaxstruct.core.compiling import report_compiling_to
from jaxstruct.core.problem import is_tested
from jaxstruct.core.types import SparseFeatures
from tests.lib.refusals import refused
from tests.trees import structure_cases as trees


def test_sizes_numbers_flags_choices():
    assert checks.checked_size("k", np.int64(3)) == 3
    for value in (3.0, "3", None, True, np.array([3]), 0, -1):
        refused("k must be at least 1", checks.checked_size, "k", value)
    refused("k must be at most 4, got 5", checks.checked_size, "k", 5, most=4)
    assert checks.checked_number("c", np.float32(0.5)) == 0.5 and checks.checked_number("c", 0) == 0
    for value in (-1, np.nan, np.inf, "1", None, True, [1.0], 1j):
        refused("c must be finite and >= 0", checks.checked_number, "c", value)
    refused("c must be finite and > 0, got 0.0", checks.checked_number, "c", 0.0, strict=True)
    for value in (0, "no", None, np.array([True])):
        refused("f must be True or False", checks.check_flag, "f", value)
    checks.check_flag("f", np.True_)
    for value in (None, "d", ["a"]):
        refused("m is .*; choose one of .'a', 'b'.", checks.check_choice, "m", value, ("a", "b"))
    assert checks.checked_dtype(np.float32) == checks.checked_dtype("float32") == "float32"
    for value in ("float16", int, None, "number", 3):
        refused("dtype must be", checks.checked_dtype, value)


@pytest.mark.parametrize("shape", [(4, 3), (2, 2, 3)])
def test_features_named_twice(shape):
    """Sorted or not; entries of value 0 name nothing."""
    indices = np.tile(np.array([5, 0, 7]), (*shape[:-1], 1))
    values = np.ones(shape)
    checks.check_no_feature_twice("x", indices, values)
    indices[..., 1] = 7
    refused(r"x(\[0\])+ names feature 7 twice", checks.check_no_feature_twice, "x", indices, values)
    values[..., 2] = 0
    checks.check_no_feature_twice("x", indices, values)
    values[-1], indices[-1] = 1, 3
    refused("names feature 3 twice", checks.check_no_feature_twice, "x", indices, values)


def test_example_weights():
    assert checks.checked_example_weights(None, 2).tolist() == [1, 1]
    weights = checks.checked_example_weights([0, 2], 2)
    assert weights.tolist() == [0, 2] and weights.dtype == np.float64
    for value, match in (
        (["a", "b"], "must hold real numbers"),
        ([1, 2, 3], r"must be \[n = 2\], got shape \(3,\)"),
        ([1, -1], "finite, >= 0 and not all zero"),
        ([1, np.nan], "finite, >= 0 and not all zero"),
        ([0, 0], "finite, >= 0 and not all zero"),
    ):
        refused(f"example_weights .*{match}", checks.checked_example_weights, value, 2)


def test_records_lists_and_numbers():
    refused(r"p must be a dict \(see make\), got int 3", checks.check_record, "p", 3, dict, "make")
    for value in ("text", {"a": 1}, 3, None, np.float32(1)):
        refused("p must be a list of names, got", checks.as_list, "p", value, "a list of names")
    assert checks.as_list("p", (c for c in "ab"), "names") == ["a", "b"]
    for value in ("text", [[1], [1, 2]], [["a"]], 1j, len):
        refused("p must be numbers, got", checks.as_numbers, "p", value, "numbers")


VALUES = [
    "x" * 10_000, ["word"] * 100_000, {i: "y" * 50 for i in range(1000)}, [["a", "b"]] * 50,
    ("line\nbreak", 3), np.arange(3), object(), {"deep": [[[[1]]]]}, [np.zeros((50, 50))] * 20,
    10**400, range(10**9),
]  # fmt: skip


@pytest.mark.parametrize("limit", [16, 400])
def test_a_value_shows_on_one_line_of_at_most_the_limit(limit):
    for value in VALUES:
        line = checks.text_of(value, limit)
        assert 0 < len(line) <= limit and "\n" not in line


def test_small_values_show_as_they_are():
    for value in (None, 0.5, "CC", [1, 2], {"a": 1}, np.array([1, 2])):
        assert checks.text_of(value) == repr(value)
    for value, text in (([1], "list [1]"), (np.zeros((3, 4)), "ndarray float64 of shape (3, 4)")):
        assert checks.kind_and_text_of(value) == text
    assert "..." in checks.text_of("a" * 200, 40)


TABLE = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    ("value", "axes", "options", "match"),
    [
        (TABLE, "n", {}, r"x must be \[n\] integers, got int64 of shape \(2, 3\)"),
        (TABLE, "n 2", {}, r"x must be \[n, 2\] integers, got"),
        (TABLE, "n T", {"sizes": {"T": 4}}, r"x must be \[n, T = 4\] integers, got"),
        (TABLE, "T T-2", {}, r"x must be \[T, T-2\] integers"),
        (TABLE, "n T-2", {"sizes": {"T": 1}}, r"x must be \[n, T-2 = 0\] integers"),
        (TABLE, "S | n S S", {}, r"x must be \[S\] or \[n, S, S\] integers"),
        (TABLE / 2, "n T", {}, r"x must be .* integers, got float64 of"),
        (TABLE > 2, "n T", {}, "integers, got bool"),
        (TABLE, "n T", {"kind": "floats", "advice": "; do it"}, "floats, got .* 3.; do it"),
        (["a"], "n", {"kind": "numbers"}, "numbers, got <U1"),
        ([[1], [1, 2]], "n T", {}, r"x must be \[n, T\] integers, got \[\[1\], \[1, 2\]\]"),
        (TABLE, "", {"kind": None}, "x must be a scalar, got int64 of shape"),
        (None, "n", {"kind": None}, r"x must be \[n\], got None"),
        (TABLE, "n T", {"within": range(4)}, r"x\[1, 1\] is 4: expected 0..3 \(2 such\)"),
        (TABLE, "n T", {"within": (range(1, 9), "ids")}, "is 0: expected 1..8, ids .1 such"),
        (TABLE, "n T", {"within": range(9), "length": [3, 2]}, "is 5: expected -1 .padding."),
        (TABLE, "n T", {"within": range(1), "length": [1, 0]}, r"x\[0, 1\] is 1: expected -1"),
    ],
)  # fmt: skip
def test_arrays_that_are_refused(value, axes, options, match):
    refused(match, spec.array, "x", value, axes, **options)


def test_sizes_are_bound_and_good_arrays_come_back():
    sizes = {"d": 3}
    assert spec.array("x", TABLE.tolist(), "n d", sizes=sizes).tolist() == TABLE.tolist()
    spec.array("y", np.zeros((3, 3, 1)), "d n-0 1 | T d 1", "floats", sizes)
    assert sizes == {"d": 3, "n": 2, "T": 3}
    padded = np.array([[[0, 1]], [[-1, -1]]])
    spec.array("z", padded, "n 1 2", within=range(2), length=[1, 0])


def test_a_traced_array_is_looked_at_by_shape_and_kind():
    def traced(x):
        return spec.array("x", x, "n n", "integers", {}, range(1))

    assert jax.jit(traced)(jnp.ones((2, 2), int)).shape == (2, 2)
    refused(r"x must be \[n, n\] integers, got float32", jax.jit(traced), jnp.ones((2, 2)))
    refused(r"x must be \[n, n\] integers, got int32 of", jax.jit(traced), jnp.ones((2, 3), int))


@pytest.mark.parametrize(
    ("lengths", "match"),
    [
        ([1.0, 2.0], r"l must be \[n = 2\] integers, got float64"),
        ([True, False], "l must be .* got bool"),
        ([1, 2, 3], "l must be .* got int64 of shape"),
        ([[1], [1, 2]], r"l must be \[n = 2\] integers, got"),
        ([1, 2**32 + 3], r"l\[1\] is 4294967299: expected 0..5"),
        ([-1, 9], r"l\[0\] is -1: expected 0..5, the padded length \(2 such\)"),
        (None, "l must be"),
    ],
)
def test_lengths(lengths, match):
    refused(match, spec.checked_lengths, "l", lengths, 2, 0, 5)
    for dtype in (np.int64, np.uint8, np.int32):
        good = spec.checked_lengths("l", np.array([0, 5], dtype), 2, 0, 5)
        assert good.dtype == np.int32 and good.tolist() == [0, 5]


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([[1, 2**31]], r"a\[0, 1\] is 2147483648: expected .*, what 32 bits hold"),
        ([1, 2], r"a must be \[n, 2\] integers, got int64 of shape"),
        ([[0.5, 1]], "got float64"),
        ("text", "got 'text'"),
    ],
)
def test_integers_of_32_bits(value, match):
    assert spec.checked_int32("a", [[1, 2]], "n 2").dtype == np.int32
    refused(match, spec.checked_int32, "a", value, "n 2")


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([[0, 1], [-1, 0]], r"x\[1, 0\] is -1.0: expected finite numbers >= 0"),
        ([[0, np.inf], [1, 0]], r"x\[0, 1\] is inf: expected finite"),
        ([[0, np.nan], [1, 0]], r"x\[0, 1\] is nan: expected finite"),
        ([[0, 1], [1, 2]], r"x\[1, 1\] is 2.0: expected 0 on the diagonal"),
        ([["a"]], "numbers, got <U1 of shape .1, 1.; see"),
    ],
)
def test_costs(value, match):
    assert spec.costs("x", [2, 1], "n").dtype == np.float64
    refused(match, spec.costs, "x", value, "S S", advice="; see")


def test_features_dense_or_sparse():
    sizes = {"d": 4}
    spec.features("x", np.zeros((2, 3, 4)), "n T", sizes, "d")
    sparse = SparseFeatures(np.full((2, 3, 1), 4), np.zeros((2, 3, 1)))
    spec.features("x", sparse, "n T", sizes, "d")
    wide = np.zeros((2, 3, 5))
    refused(r"x must be \[n = 2, T = 3, d = 4\]", spec.features, "x", wide, "n T", sizes, "d")
    none = SparseFeatures(np.zeros((2, 3, 0), int), np.zeros((2, 3, 0)))
    spec.features("x", none, "n T", sizes, "d")
    few = SparseFeatures(*(leaf[:1] for leaf in sparse))
    refused(r"x.indices must be \[n = 2, T = 3", spec.features, "x", few, "n T", sizes, "d")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (dict(indices=np.full((2, 3), 0.5)), r"x.indices must be \[n, m\] integers, got float64"),
        (dict(indices=np.zeros(3, int)), r"x.indices must be \[n, m\] integers, got .* \(3,\)"),
        (dict(values=np.ones((2, 2))), r"x.values must be \[n = 2, m = 3\], got .* \(2, 2\)"),
        (dict(indices=np.array([[0, 1, 9], [0, 1, 2]])), r"is 9: expected 0..8, features, and 8"),
        (dict(indices=np.array([[0, 1, -1], [0, 1, 2]])), r"\[0, 2\] is -1: expected 0..8"),
        (dict(values=np.ones((2, 3))), r"x.values\[0, 2\] is 1.0: expected 0 where the index is 8"),
        (dict(indices=np.array([[3, 3, 8], [0, 1, 2]])), r"x.indices\[0\] names feature 3 twice"),
    ],
)
def test_sparse_features(change, match):
    good = dict(indices=np.array([[0, 7, 8], [0, 1, 2]]), values=np.array([[1, 2, 0], [1, 2, 3.0]]))
    spec.features("x", SparseFeatures(**good), "n", {"d": 8}, "d")
    refused(match, spec.features, "x", SparseFeatures(**good | change), "n", {"d": 8}, "d")


def level_loss(level, length):
    return jnp.sqrt(level / jnp.maximum(length, 1))


def test_structures_of_the_package_say_so_and_others_may():
    chain = js.chains.chain(3, 4)
    for problem in (
        js.multiclass.multiclass(3, 4),
        js.multiclass.kernel_multiclass(3, 4),
        chain,
        js.chains.chain(3, 4, order=2, loss=np.ones((4, 4)) - np.eye(4)),
        js.alignments.pairwise_alignment(4),
        homologue_search(4),
        js.trees.weighted_grammar(trees.grammar(0)),
        js.graphs.graph_labelling(3, 4),
        js.graphs.with_log_loss(js.graphs.graph_labelling(3, 4), "pseudo"),
        js.graphs.multi_label(3, 4),
        js.strings.joint_candidates(4),
        jax.tree.map(jnp.zeros_like, chain),
    ):
        assert is_tested(problem)
    own = chain.initial_weights, chain.model, chain.oracles, chain.space
    assert not is_tested(js.make_problem(*own)) and is_tested(js.make_problem(*own, tested=True))


def test_a_function_put_in_by_hand_is_found_wherever_it_is():
    problem = js.chains.chain(3, 4)
    assert not is_tested(js.chains.chain(3, 4, loss=level_loss))
    own = problem.model._replace(decode=Partial(lambda theta: theta))
    assert not is_tested(problem._replace(model=own))
    bound = Partial(problem.model.loss.func, Partial(level_loss))
    assert not is_tested(problem._replace(model=problem.model._replace(loss=bound)))
    space = problem.space._replace(squared_norm=Partial(np.add))
    assert not is_tested(problem._replace(space=space))


def test_a_tested_problem_is_not_tried_and_one_changed_by_hand_is():
    x, y = np.eye(3, dtype=np.float32), np.arange(3)
    problem = js.multiclass.multiclass(3, 3)
    lying = problem.model._replace(loss=Partial(lambda a, b: jnp.where(a == b, 0.5, 1.0)))
    refused("loss", lambda: js.fit(problem._replace(model=lying), x, y))
    unchecked = js.Settings(checked_examples=0)
    js.fit(problem._replace(model=lying), x, y, settings=unchecked, max_passes=2)
    said: list[str] = []
    with report_compiling_to(said.append):
        assert js.fit(problem, x, y, settings=js.Settings(checked_examples=4)).status.solved
    assert "oracle pass" in said and "sweeps pass" not in said, "sweeps read no loss"


def test_a_warning_names_the_line_of_the_caller():
    """As many frames up as there are of the package."""
    ours = {"__name__": "jaxstruct.made_up", "callers_level": callers_level}
    exec("def inner(): return callers_level()\ndef outer(): return inner()", ours)
    assert (callers_level(), ours["inner"](), ours["outer"]()) == (1, 2, 3)
    with pytest.warns(UserWarning, match="words") as warned:
        warn("words")
    assert warned[0].filename == __file__
