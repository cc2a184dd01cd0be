"""Which problems count as tested, and who called the package."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxstruct as js
from experiments.machines.homologues import homologue_search
from jaxstruct.core.checks import callers_level, warn
from jaxstruct.core.problem import is_tested
from tests.lib.refusals import refused
from tests.trees import structure_cases as trees


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
    assert js.fit(problem, x, y, settings=js.Settings(checked_examples=4)).status.solved


def test_a_warning_names_the_line_of_the_caller():
    """As many frames up as there are of the package."""
    ours = {"__name__": "jaxstruct.made_up", "callers_level": callers_level}
    exec("def inner(): return callers_level()\ndef outer(): return inner()", ours)
    assert (callers_level(), ours["inner"](), ours["outer"]()) == (1, 2, 3)
    with pytest.warns(UserWarning, match="words") as warned:
        warn("words")
    assert warned[0].filename == __file__
