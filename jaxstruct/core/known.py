"""Known potentials beside those that are learned: theta = A_x w + k(x), of every structure.

    problem = js.known_problem(js.chains.chain(5, 3))
    inputs = js.known_inputs(problem, inputs, {"emissions": logits})
    solution = js.fit(problem, inputs, outputs)

They are the logits of a fixed network, the energies of a physical model, the scores of weights that
are frozen: K(x, y) = score(k(x), y) counts in F, and nothing of it is learned or regularised. A
structure of one's own may as well have its k(x) from inputs as they are, by `Model.known`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core import transposition
from jaxstruct.core.buckets import rows_of
from jaxstruct.core.checks import as_list, check_record, text_of
from jaxstruct.core.contract import Padding, Problem, Space
from jaxstruct.core.padding import padded_inputs, ragged_leaves
from jaxstruct.core.problem import is_tested, make_problem
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.spec import array, refuse
from jaxstruct.core.transposition import is_linear, linear_part, zero_potentials
from jaxstruct.core.types import Array, PyTree, Static, static

_PLACES = {
    "add": 1, "gram_action": 0, "plane_values": 1, "add_planes": 1, "plane_gram": 0,
    "plane_norms": 0, "squared_norm": 1, "unpack": 1, "values": 1, "pack": 1, "look_up": 1,
    "most_outputs": 0,
}  # fmt: skip
"""Which argument of the functions of a problem is an input."""
_DERIVED = (transposition.plane_gram, transposition.plane_norms)
"""Made anew of the functions that see inputs within, since solvers look into them."""


class Known(NamedTuple):
    """Inputs beside known potentials; `known_inputs` makes them.

    Fields:
      inputs: of the structure. potentials: the fields of theta by name, zeros where one is lacking;
        an array where theta is one.
    """

    inputs: PyTree
    potentials: PyTree


def _inner(x: Any) -> PyTree:
    check_record("inputs", x, Known, "jaxstruct.known_inputs")
    return x.inputs


def _inside(function: Callable, place: Static[int], *arguments: Any) -> Any:
    given = list(arguments)
    given[place.value] = _inner(given[place.value])
    return function(*given)


def _lifted(part: Any) -> Any:
    """A part of a problem whose functions take `Known` inputs."""

    def of(name: str, function: Any) -> Any:
        if function is None or name not in _PLACES:
            return function
        derived = getattr(function, "func", None) in _DERIVED
        return None if derived else Partial(_inside, function, Static(_PLACES[name]))

    return part._replace(**{name: of(name, own) for name, own in part._asdict().items()})


@static
class _OfPadding:
    """A function of `Padding` that takes `Known` inputs, and returns such where it completes."""

    function: Callable
    completes: bool

    def __call__(self, x: Known) -> Any:
        found = self.function(_inner(x))
        return x._replace(inputs=found) if self.completes else found


def _padding(given: Padding) -> Padding:
    sizes, complete = given.output_sizes, given.complete
    return Padding(
        given.price, sizes and _OfPadding(sizes, False), given.size,
        complete and _OfPadding(complete, True),
    )  # fmt: skip


def _named(theta: PyTree) -> dict[str, Any]:
    """The potentials of theta by name; of an array "potentials"."""
    fields = theta._asdict() if hasattr(theta, "_asdict") else theta
    fields = fields if isinstance(fields, Mapping) else {"potentials": theta}
    arrays = {name: leaf for name, leaf in fields.items() if hasattr(leaf, "dtype")}
    return {name: leaf for name, leaf in arrays.items() if is_linear(leaf)}


def _with_named(theta: PyTree, leaves: dict[str, Array]) -> PyTree:
    if hasattr(theta, "_replace"):
        return theta._replace(**leaves)
    return {**theta, **leaves} if isinstance(theta, Mapping) else leaves["potentials"]


def _fitted(leaf: Array, like: Array) -> Array:
    """A leaf in the shape that theta has at this padding: cut where it is zero, or zeros more."""
    cut = jnp.asarray(leaf, like.dtype)[tuple(slice(size) for size in like.shape)]
    more = zip(like.shape, cut.shape, strict=True)
    return jnp.pad(cut, [(0, wanted - found) for wanted, found in more])


def _known(potentials: Callable, zero: PyTree, x: Known) -> PyTree:
    theta = zero_potentials(potentials, zero, x)
    given = x.potentials if isinstance(x.potentials, Mapping) else {"potentials": x.potentials}
    names = _named(theta)
    return _with_named(
        theta, names | {name: _fitted(leaf, names[name]) for name, leaf in given.items()}
    )


def _check(check: Callable, inputs: Known, outputs: PyTree = None) -> None:
    check(_inner(inputs), outputs)


def known_problem(problem: Problem) -> Problem:
    """The problem over inputs that carry known potentials; see the module.

    Args:
      problem: of any structure, without known potentials.

    Returns:
      A Problem on `known_inputs`. Outputs, loss, oracles and weights are those of problem, and so
      are ties. Every solver serves it but svm0, whose margin no multiple of w proves.

    Raises:
      ValueError: problem is none, or has known potentials.
    """
    check_record("problem", problem, Problem, "make_problem")
    model, space, zero = problem.model, problem.space, problem.initial_weights
    if model.known is not None:
        raise ValueError("problem has known potentials: give the problem that it was made of")
    potentials = Partial(_inside, model.potentials, Static(1))
    differences = space.differences and _lifted(space.differences)
    own: Space = _lifted(space)._replace(differences=differences)
    facts = problem.inference.facts
    return make_problem(
        zero,
        model._replace(potentials=potentials, known=Partial(_known, potentials, zero)),
        problem.oracles,
        own,
        Partial(_check, problem.check),
        _padding(problem.padding),
        _lifted(problem.inference)._replace(facts=facts),
        tested=is_tested(problem),
    )


def known_inputs(problem: Problem, inputs: PyTree, known: Any) -> Known:
    """Inputs of a structure with the known potentials of each example.

    Args:
      problem: of `known_problem`.
      inputs: of n examples, ragged or padded, as the structure takes them.
      known: {name of a field of theta: n arrays}, each of the shape that the field has for this
        example, without padding; a list of n arrays where theta is an array. Fields that are
        lacking are 0. Of padded inputs arrays [n, ...] are of the shapes of theta.

    Raises:
      ValueError: a name is not of theta, or an array is not finite or of another shape.
    """
    if not isinstance(problem, Problem) or problem.model.known is None:
        raise ValueError(f"problem must be of jaxstruct.known_problem, got {text_of(problem)}")
    thetas = [_named(theta) for theta in _shapes_of_theta(problem, inputs)]
    alone = not isinstance(known, Mapping)
    given = {"potentials": known} if alone else dict(known)
    unknown = sorted(set(given) - set(thetas[0]))
    if unknown:
        raise ValueError(f"known names {unknown}: theta of this problem has {sorted(thetas[0])}")
    stores = [leaf.lengths for leaf in ragged_leaves(inputs)]
    n = rows_of(inputs)
    for name, leaf in given.items():
        if len(leaf) != n:
            raise ValueError(f"known[{name!r}] has {len(leaf)} examples, inputs have {n}")
    found = {
        name: _stacked(f"known[{name!r}]", leaf, [theta[name].shape for theta in thetas], stores)
        for name, leaf in given.items()
    }
    return Known(inputs, found["potentials"] if alone else found)


def _shapes_of_theta(problem: Problem, inputs: PyTree) -> list[PyTree]:
    """theta of an example as shapes; of a ragged one also at a larger size, so that axes of
    several lengths show."""
    stores, own = ragged_leaves(inputs), np.zeros(1, int)
    longest = np.array([leaf.lengths[0] for leaf in stores], int)
    sizes = [longest, 4 * longest + 32] if stores else [longest]  # of two size classes
    found = []
    for size in sizes:
        x = padded_inputs(problem.padding, inputs, own, size)
        x = jax.tree.map(lambda leaf: leaf[0], x)
        linear = linear_part(problem.model.potentials)
        found.append(jax.eval_shape(linear, problem.initial_weights, Known(x, None)))
    return found


def _stacked(
    name: str, leaves: Any, shapes: list[tuple[int, ...]], stores: list[np.ndarray]
) -> np.ndarray | Ragged:
    """One field of all examples: [n, ...], or a store where inputs are ragged in its first axis.

    Args:
      shapes: of the field in thetas of one or two paddings. stores: lengths of what is ragged.
    """
    fixed = np.array([len(set(sizes)) == 1 for sizes in zip(*shapes, strict=True)], bool)
    letters = (f"length{axis or ''}" for axis in range(len(fixed)))
    pairs = zip(fixed, map(str, shapes[0]), letters, strict=True)
    axes, arrays = " ".join(size if same else letter for same, size, letter in pairs), []
    for i, one in enumerate(as_list(name, leaves, "a list of n arrays")):
        arrays.append(array(f"{name}[{i}]", one, axes, "numbers"))
        refuse(f"{name}[{i}]", arrays[i], ~np.isfinite(arrays[i]), "finite numbers")
    sizes = np.array([one.shape for one in arrays], int).reshape(len(arrays), len(fixed))
    for axis in np.flatnonzero(~fixed):
        _check_lengths(name, int(axis), sizes[:, axis], stores)
    ragged = bool(fixed.size) and not fixed[0]
    most = np.max(sizes, axis=0, initial=0)
    rows = []
    for one in arrays:  # of two axes of several lengths the second is padded for all alike
        more = most - one.shape
        more[:1] = 0 if ragged else more[:1]
        rows.append(np.pad(one, [(0, size) for size in more]))
    if not ragged:
        return np.stack(rows)
    return Ragged(np.concatenate(rows), np.concatenate([[0], np.cumsum(sizes[:, 0])]))


def _check_lengths(name: str, axis: int, found: np.ndarray, stores: list[np.ndarray]) -> None:
    """Potentials of neighbours are one less than what they are neighbours of."""
    for own in stores:
        if np.array_equal(found, own) or np.array_equal(found, np.maximum(own - 1, 0)):
            return
    lengths = [own[:3].tolist() for own in stores]
    raise ValueError(
        f"{name} has {found[:3].tolist()}.. entries in axis {axis} of the first examples: inputs "
        f"have {lengths}"
    )
