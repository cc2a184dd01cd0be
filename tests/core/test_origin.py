"""A problem is the package's own only where every function of it is, bound ones too."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

import jaxstruct as js
from jaxstruct.core.origin import callers_level, is_of_package
from tests.lib.refusals import refused
from tests.trees import structure_cases as trees


def level_loss(level, length):
    return jnp.sqrt(level / jnp.maximum(length, 1))


def test_shipped_structures_are_of_the_package():
    for problem in (
        js.multiclass.multiclass(3, 4),
        js.chains.chain(3, 4, order=2),
        js.alignments.pairwise_alignment(4),
        js.trees.weighted_grammar(trees.grammar(0)),
    ):
        assert is_of_package(problem)


def test_a_function_of_somebody_else_is_found_wherever_it_is():
    problem = js.chains.chain(3, 4)
    assert not is_of_package(js.chains.chain(3, 4, loss=level_loss))
    own = problem.model._replace(decode=Partial(lambda theta: theta))
    assert not is_of_package(problem._replace(model=own))
    bound = Partial(problem.model.loss.func, Partial(level_loss))
    assert not is_of_package(problem._replace(model=problem.model._replace(loss=bound)))
    nameless = Partial(np.add)  # __module__ is None in some of NumPy's functions
    space = problem.space._replace(squared_norm=nameless)
    assert not is_of_package(problem._replace(space=space))


def test_only_the_packages_own_are_not_tried_at_the_door():
    x, y = np.eye(3, dtype=np.float32), np.arange(3)
    problem = js.multiclass.multiclass(3, 3)
    lying = problem.model._replace(loss=Partial(lambda a, b: jnp.where(a == b, 0.5, 1.0)))
    refused("loss", lambda: js.fit(problem._replace(model=lying), x, y))
    unchecked = js.Settings(checked_examples=0)
    js.fit(problem._replace(model=lying), x, y, settings=unchecked, max_passes=2)
    assert js.fit(problem, x, y, settings=js.Settings(checked_examples=4)).status.solved


def test_a_warning_is_laid_at_the_door_of_the_caller():
    """As many frames up as there are of the package."""
    ours = {"__name__": "jaxstruct.made_up", "callers_level": callers_level}
    exec("def inner(): return callers_level()\ndef outer(): return inner()", ours)
    assert (callers_level(), ours["inner"](), ours["outer"]()) == (1, 2, 3)
