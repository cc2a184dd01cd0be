"""Inputs that have no output: functions of arrays refuse them by number, of data they get None."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import jaxstruct as js
from jaxstruct.models import BadRecord, NoOutput, TrainedModel
from jaxstruct.models.stream import predict_stream
from jaxstruct.models.trained import trained
from tests.lib.refusals import refused

PHRASES = js.chains.Constraints(  # B I* E, of the labels B, E and I
    transitions=np.array([[1, 0, 0], [0, 1, 1], [1, 0, 0]], bool),
    start=np.array([0, 1, 1], bool),
    stop=np.array([1, 0, 1], bool),
)
PAIRS = {("a", "p"): ["f"], ("b", "q"): ["g"]}
TWO_OF_THREE = {("a", "p"): ["f"], ("b", "p"): ["g"], ("c", "q"): ["g"], ("c", "r"): ["f"]}


class Case(NamedTuple):
    """A model, data, which of them have no output, and why the first has none."""

    model: TrainedModel
    data: Any
    none: list[int]
    reason: str


def words(*texts: str) -> list:
    return [[[letter] for letter in text] for text in texts]


@cache
def case(name: str) -> Case:
    if name == "trees":
        data = js.trees.prepare("(S (A a) (B b)) (S (A a) (S (A a) (B b)))")
        new, none, reason = [["A", "B"], ["B", "A"], ["A"]], [1, 2], "no tree"
    elif name == "matchings":
        data = js.assignments.prepare([PAIRS], [[("a", "p"), ("b", "q")]])
        new, none, reason = [PAIRS, TWO_OF_THREE], [1], "pairs allow 2 at once, and .* has 3"
    else:
        order = int(name[-1])
        data = js.chains.prepare(
            words("be", "bie"), [["B", "E"], ["B", "I", "E"]], order=order, constraints=PHRASES
        )
        new, none = words("be", "b", "bbb", "e", "i" * 30), [1, 3]
        reason = "the constraints allow no labels of a sequence of length 1"
    rng = np.random.default_rng(1)
    w = data.problem.initial_weights
    return Case(
        trained(data, jax.tree.map(lambda x: rng.normal(size=x.shape).astype(x.dtype), w)),
        new, none, reason,
    )  # fmt: skip


CHAINS = ("chain 1", "chain 2")
EVERY = (*CHAINS, "trees", "matchings")


@pytest.mark.parametrize("name", EVERY)
def test_none_or_a_refusal_by_choice(name: str) -> None:
    """Others get what they get alone; a refusal names the first, and why."""
    model, data, none, reason = case(name)
    found = model.predict(data)
    assert [i for i, one in enumerate(found) if one is None] == none
    some = [one for i, one in enumerate(data) if i not in none]
    assert model.predict(some, no_output="raise") == [one for one in found if one is not None]
    message = rf"inputs\[{none[0]}\] has no output: .*{reason}"
    with refused(message, error=NoOutput) as caught:
        model.predict(data, no_output="raise")
    assert caught.value.which.tolist() == none
    assert model.predict([data[none[0]]]) == [None]
    refused("no_output is 'mark'; choose one of", model.predict, data, no_output="mark")


@pytest.mark.parametrize("name", EVERY)
def test_a_stream_says_so_in_the_place(name: str) -> None:
    model, data, none, reason = case(name)
    found = list(predict_stream(model, data, batch=4))
    bad = [one for one in found if isinstance(one, BadRecord)]
    assert [one.number for one in bad] == none
    assert all(one.reason.startswith("has no output: ") for one in bad)
    assert all("such inputs" not in one.reason for one in bad)
    stream = predict_stream(model, data, on_error="raise")
    refused(f"record {none[0]}: .*no output", list, stream)
    assert [one for one in found if not isinstance(one, BadRecord)] == [
        one for one in model.predict(data) if one is not None
    ]


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("of", ["predict", "k_best", "sample", "marginals", "log_losses"])
def test_functions_of_arrays_name_the_sequence(name: str, of: str) -> None:
    """Padded or ragged, in whichever bucket it is, before anything compiles."""
    model, data, _, reason = case(name)
    problem, weights, inputs = model.on(data)
    more = {
        "predict": (), "k_best": (), "marginals": (), "sample": (jax.random.key(0),),
        "log_losses": (js.ragged([np.zeros(len(one), np.int32) for one in data], -1),),
    }[of]  # fmt: skip
    function = js.predict if of == "predict" else getattr(js.confidence, of)
    tempered = {} if of in ("predict", "k_best") else {"temperature": 1.0}
    bare = problem._replace(check=jax.tree_util.Partial(lambda inputs, outputs: None))
    if of == "predict":  # as where a program of one's own decodes
        found = js.predict(bare, weights, inputs, batch=4)
        assert [len(labels) for labels in found] == [2, 0, 3, 0, 30]
    refused(
        rf"inputs\[1\] has no output: {reason}: .*2 such inputs", function, problem, weights,
        inputs, *more, error=NoOutput, **tempered,
    )  # fmt: skip


def test_lengths_without_labels_are_those_of_enumeration() -> None:
    """Random rules, some of which allow only every second or third length."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        rules = js.chains.Constraints(
            rng.random((3, 3)) < 0.75, rng.random(3) < 0.6, rng.random(3) < 0.6
        )
        problem = js.chains.chain(1, 3, constraints=rules)
        x = js.chains.chain_inputs(np.zeros((7, 6, 1), np.float32), np.arange(7))
        wrong = [n for n in range(1, 7) if not any(_fits(rules, y) for y in every(n))]
        if not wrong:
            problem.check(x, None)
            continue
        with refused("has no output", error=NoOutput) as caught:
            problem.check(x, None)
        assert caught.value.which.tolist() == wrong


def every(length: int):
    return map(np.array, itertools.product(range(3), repeat=length))


def _fits(rules: js.chains.Constraints, y: np.ndarray) -> bool:
    barred = rules.transitions[y[:-1], y[1:]].any()
    return not (barred or rules.start[y[0]] or rules.stop[y[-1]])


def test_true_labels_that_break_the_rules_are_named() -> None:
    """The first token and its labels, in names where there are some, else in numbers."""
    sequences = words("be", "bbe", "ee")
    for labels, match in (
        (["BE", "BBE", "BE"], r"labels\[1\] breaks the constraints: token 1 has the label 'B', "
         r"which may not follow 'B' \(1 such labels"),
        (["BE", "BIE", "EE"], r"labels\[2\] .* token 0 has the label 'E', which no sequence may be"
         r".*\(1 such"),
        (["BI", "BII", "BE"], r"labels\[0\] .* token 1 has the label 'I', .* may end .*\(2 such"),
    ):  # fmt: skip
        names = [list(one) for one in labels]
        refused(match, js.chains.prepare, sequences, names, classes="BEI", constraints=PHRASES)
    free = js.chains.prepare(sequences, [list("BE"), list("BBE"), list("BE")], classes="BEI")
    strict = free.encoding.problem(constraints=PHRASES)
    with refused(r"outputs\[1\] .* token 1 has the label 0, which may not follow 0 \(1 such"):
        js.fit(strict, free.inputs, free.outputs, C=1.0)
    short = free.encoding.inputs(words("b")), free.encoding.outputs([["B"]])
    refused(r"inputs\[0\] has no output: .*length 1", js.fit, strict, *short, C=1.0)


@pytest.mark.thorough
def test_a_score_counts_what_has_no_output() -> None:
    y = [("a", "p"), ("b", "q")]
    matcher = js.estimators.SetMatcher(C=1.0).fit([PAIRS], [dict(y)])
    assert matcher.predict([TWO_OF_THREE, PAIRS]) == [None, y]
    refused(r"inputs\[0\] has no", matcher.predict, [TWO_OF_THREE], no_output="raise")
    assert matcher.score([PAIRS, TWO_OF_THREE], [y, [("a", "p"), ("c", "q")]]) == 2 * 2 / 6
