"""The contract between structures and solvers: a problem is a NamedTuple of pure functions.

F(x, y; w) = <w, Psi(x, y)> = score(theta, y) with theta = potentials(w, x). Both maps are linear in
their first argument. A solver sees nothing else of a structure (thesis 3.5.1: "a very general and
well-defined interface independent of the choice of Psi"). Known potentials k(x), which nothing
learns, add K(x, y) = score(k(x), y) to F. The contract has four parts:

    model      what the structure is: potentials, score, decode, loss
    oracles    how the argmax of a constraint is found; an oracle may be inexact, see `Bounded`
    space      how planes are summed; all of it follows from the model by transposition
    inference  what else can be asked of it: log losses, marginals, the k best outputs, samples

theta may carry integers beside its potentials, such as the length of a sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax

from jaxstruct.core.sizes import PRICE, size_class
from jaxstruct.core.types import AnyArray, Array, PyTree, Static, static

Given: TypeAlias = Any
"""A function or None: `make_problem` fills the space, and says which oracles must be there."""


class Contenders(NamedTuple):
    """The best wrong output at every loss level of one example.

    Fields:
      losses: [L] Delta(y_i, .) of each level.
      scores: [L] best F among the outputs y != y_i of that level, -inf where there is none.
      trace: whatever `output` needs to build the output of one level.
      bounds: [L] at least the best F of each level, +inf where no bound is known; None where the
        scores are exact.
    """

    losses: Array
    scores: Array
    trace: PyTree
    bounds: Array | None = None


class Truth(NamedTuple):
    """A true output with real numbers that a loss reads, such as the costs of a decision.

    The loss, the oracles and the inference of a problem are handed the whole record as y_true, its
    `check` as outputs. All else sees the output alone: F and planes are of it, working sets hold
    it, oracles return what looks like it.

    Fields:
      output: y, integers. numbers: a pytree of real arrays; floats come in the dtype of the run.
    """

    output: PyTree
    numbers: PyTree


class Incomplete(NamedTuple):
    """True outputs of which a part is known: for `fit_latent` and `fit_random_field` alone.

    Fields:
      output: outputs of the right shapes, of which only the shapes are read.
      known: what is known of them, as `Model.restrict` or `Model.complete` reads it. Where labels
        are chosen it is bool with a last axis of the labels, true where one is possible, false on
        padding; an example is complete where no position has two.
    """

    output: PyTree
    known: PyTree


def output_of(y_true: PyTree) -> PyTree:
    """The true output, or outputs by bucket, without the numbers beside it."""
    return jax.tree.map(
        lambda node: node.output if isinstance(node, Truth) else node,
        y_true,
        is_leaf=lambda node: isinstance(node, Truth),
    )


class Bounded(NamedTuple):
    """What an inexact oracle returns in place of its output.

    Fields:
      output: the best y that it found.
      bound: scalar, at least the maximum that it was asked for; +inf where no bound is known.
    """

    output: PyTree
    bound: Array


class Model(NamedTuple):
    """What a structure is: functions of ONE example.

    Fields:
      potentials: (w, x) -> theta, linear in w; its floating-point leaves are potentials, its
        integers pass through.
      score: (theta, y) -> F, linear in theta; y are padded integers.
      decode: theta -> argmax_y F, ties to the lowest index.
      loss: (y_true, y) -> Delta >= 0, with Delta(y, y) = 0; y_true may be a `Truth`.
      known: x -> k(x), finite and shaped as theta, its integers not read; or None. `make_problem`
        then gives the model the potentials (w, x) -> A_x w + k(x), A_x w being those above:
        whoever asks a problem for theta has the known part in it, sums of planes have not.
      restrict: (theta, known) -> theta with -inf where an output does not agree with what is known
        (see `Incomplete`), so that decode and log_loss of it are over those that agree; or None.
      complete: (theta, known) -> argmax of F over the outputs that agree; by restrict and decode,
        or by agrees, where it is left out. Loss and oracles of such a problem take
        `Truth(y, known)`, too: of them Delta is >= 0, reads `known` alone and is 0 of every output
        that agrees.
      agrees: (known, y) -> bool, whether y agrees with what is known, some y does; or None. Where
        `Oracles.all_outputs` lists the outputs, complete (ties to the first of the list of
        decode(theta)) and the log_loss of a `Truth` follow.
    """

    potentials: Callable
    score: Callable
    decode: Callable
    loss: Callable
    known: Given = None
    restrict: Given = None
    complete: Given = None
    agrees: Given = None


class Oracles(NamedTuple):
    """How the most violated output of ONE example is found; each function may be left out.

    A formulation needs the maximum of H(y) = b(Delta) - s(Delta) (F(y_i) - F(y)) over y. Levels
    serve every formulation: contenders with output, or level_losses with best_by_level. The other
    two are shorter ways for some formulations. `loss_augmented_decode`, `best_wrong` and
    `best_by_level` may return a `Bounded`; `Contenders` may hold bounds.

    Fields:
      contenders: (theta, y_true) -> Contenders, over all y != y_true.
      output: (trace, level) -> y of that level.
      loss_augmented_decode: (theta, y_true, scale) -> argmax_y F + scale Delta over all y, y_true
        included. Where the loss is additive this is one plain decode.
      best_wrong: (theta, y_true) -> argmax of F over y != y_true; y_true where it is the only one.
      level_losses: y_true -> Delta[L] of the levels of `best_by_level`.
      best_by_level: (theta, y_true, offsets[L], slopes[L]) -> the best y != y_true of the level
        that maximises offsets + slopes F; y_true where there is none. Contenders and output in one
        program.
      best_above: (theta, y_true, k, above) -> (y[k], bool[k] which of them there are), the outputs
        of the largest F + Delta, of those above the scalar `above`, the best first; of equal Delta
        one is enough. For slack re-scaling: it finds what a search by `loss_augmented_decode`
        cannot.
      all_outputs: y_true -> y[K], every output with the true one first, for a small output space.
    """

    contenders: Given = None
    output: Given = None
    loss_augmented_decode: Given = None
    best_wrong: Given = None
    level_losses: Given = None
    best_by_level: Given = None
    best_above: Given = None
    all_outputs: Given = None


class LookedUp(NamedTuple):
    """A new output y of one example against the planes at hand, some of K slots.

    Fields:
      scores: [K] F of the planes. products: [K] <delta Psi(y_k), delta Psi(y)>. 0 in other slots.
      squared: |delta Psi(y)|^2.
      known: bool, whether y is one of them.
    """

    scores: Array
    products: Array
    squared: Array
    known: Array


class Differences(NamedTuple):
    """Planes by the parts at which those of an example differ, for training on a CPU.

    Most planes of an example share most of their parts, and only differences of F count. The
    functions are loops over parts in place of scatters.

    Fields:
      find: y[B, K] -> d[B], where the planes of each example differ; None where d are the planes.
      unpack: (w, inputs[n]) -> v, the weights as the next two read them; None where v is w.
      values: (v, inputs[n], d[n], index[B]) -> F[B, K] of the examples `index`, up to a constant an
        example.
      add: (v, inputs[n], d[n], index[B], c[B, K]) -> v + sum_b sum_k c_bk Psi(x_b, y_bk), where the
        c of an example sum to 0.
      pack: (v, inputs[n]) -> w; None where v is w.
      look_up: (theta, inputs[n], outputs[n, K], at, y_true, y, occupied[K]) -> LookedUp: the
        output y of example `at` against its planes in occupied slots; theta are its potentials.
        None where scores and Gram rows of batches are as good.
    """

    find: Given
    unpack: Given
    values: Given
    add: Given
    pack: Given
    look_up: Given


class Space(NamedTuple):
    """How planes are summed. What is left out follows from the model by transposition.

    A_x is the linear map potentials(., x), without known potentials. B counts the examples of a
    batch, K their planes.

    Fields:
      add: (w, x[B], u[B]) -> w + sum_b A_b' u_b.
      gram_action: (x, u) -> A_x A_x' u, the potentials of x after u was added at x.
      plane_scores: (theta, y[K]) -> F[K].
      combine: (theta, y[K], c[K]) -> sum_k c_k d score(., y_k) / d theta, shaped as theta.
      plane_values: (w, x[B], y[B, K]) -> F[B, K] straight from the weights, up to a constant an
        example (only differences of F within an example are used).
      add_planes: (w, x[B], y[B, K], c[B, K]) -> w + sum_b sum_k c_bk Psi(x_b, y_bk).
      plane_gram: (x, y_true, y[K], y) -> [K] <delta Psi(y_k), delta Psi(y)>.
      plane_norms: (x, y_true, y[K]) -> [K] |delta Psi(y_k)|^2.
      squared_norm: (w, x) -> |w|^2, or None under inputs x (kernel values) whose w are no
        orthonormal coordinates: say so, since left out it is the sum of the squares of w. With
        another add than the transpose, a run then ends in ROUNDING.
      differences: planes by where those of an example differ, or None.
    """

    add: Given = None
    gram_action: Given = None
    plane_scores: Given = None
    combine: Given = None
    plane_values: Given = None
    add_planes: Given = None
    plane_gram: Given = None
    plane_norms: Given = None
    squared_norm: Given = None
    differences: Given = None


class Marginals(NamedTuple):
    """Probabilities of the parts of outputs under P(y | x) = exp(F(x, y)) / Z.

    Fields:
      probabilities: of a structure's own shape, see `confidence.marginals`; 0 on padding.
      log_partition: log Z.
      sizes: a pytree as probabilities, of how many positions the leading axes of each leaf really
        have, int32 [number of such axes]; None where no leaf is padded.
    """

    probabilities: PyTree
    log_partition: AnyArray
    sizes: PyTree = None


@static
class InferenceFacts:
    """What is known of an `Inference` before anything is computed.

    Fields:
      convex: whether log_loss is convex in theta, so that its gradient gives a lower bound.
      exact: whether log_loss is -log P, and no approximation.
      advice: what to do where a function is None.
    """

    convex: bool = True
    exact: bool = True
    advice: str = ""


class Inference(NamedTuple):
    """What else can be asked of a structure: functions of ONE example; each may be left out.

    P(y | x) = exp(F(x, y)) / Z(x). Where `Oracles.all_outputs` lists the outputs, `make_problem`
    derives what is left out, and k_best for k <= 2 from `best_wrong` or `contenders`. A function
    raises ValueError while it is traced where this theta or this loss cannot be served.

    Fields:
      log_loss: (theta, y) -> -log P(y | x) = log Z(theta) - F(y; theta), differentiable in theta.
      marginals: theta -> Marginals.
      k_best: (theta, k) -> (outputs y[k], scores F[k]), the best first, k static; where there are
        fewer outputs -1 throughout and -inf.
      sample: (theta, key) -> y drawn from P.
      softmax_margin: (theta, y_true, mu) -> mu log sum_y exp((Delta(y_true, y) + F(y) -
        F(y_true)) / mu), differentiable in theta.
      augmented_k_best: (theta, y_true, k) -> (y[k], real bool[k]), the outputs of the largest
        Delta(y_true, y) + F(y), k static.
      most_outputs: (inputs[n], padded) -> at least as many outputs as any of them has, an integer
        found on the host: no larger k is computed.
      facts: see there.
    """

    log_loss: Given = None
    marginals: Given = None
    k_best: Given = None
    sample: Given = None
    softmax_margin: Given = None
    augmented_k_best: Given = None
    most_outputs: Given = None
    facts: InferenceFacts = InferenceFacts()


@static
class Padding:
    """What padding needs to know of a structure.

    Ragged inputs reach the functions of a model padded on the right with the `fill` of their store.
    A structure knows padding by a length that its inputs hold; outputs are -1 there. Functions
    should be module-level, so that a second problem made of them does not compile anew.

    Fields:
      price: padded positions that a further bucket must save, for it is compiled, too.
      output_sizes: padded inputs [n, ...] -> a pytree as the outputs, of how many positions each
        leaf is padded to, 0 for a leaf [n, ...] without such an axis; None where no leaf has one.
        Of a `Truth` it may say those of the output alone: ragged numbers beside it are padded to
        as many as its longest leaf.
      size: (the longest length in a bucket) -> what it is padded to.
      complete: padded inputs -> the same with what only training reads; None for nothing.
    """

    price: int = PRICE
    output_sizes: Callable[[PyTree], PyTree] | None = None
    size: Callable[[int], int] = size_class
    complete: Callable[[PyTree], PyTree] | None = None


class Problem(NamedTuple):
    """A structure as solvers see it; build it with `make_problem`.

    Every function is a `jax.tree_util.Partial`, so that a problem is itself a pytree: tables bound
    to the functions are arguments of a compiled solver, not constants in it, and two problems of
    equal shapes share one compiled program.

    Fields:
      initial_weights: the zero weights w, a pytree; its dtype is the dtype of the whole run.
      model, oracles, space: see there; of the space only squared_norm and differences
        may be None.
      check: (inputs, outputs) -> None, on the host before anything compiles; raises ValueError.
        outputs is None where inputs come alone, as in `predict`.
      padding: how ragged examples are padded.
      inference: what else can be asked; of it a function that the structure has not is None.
      tested: the functions of model, oracles and space where tests prove them, as `make_problem`
        with tested=True says, or none.
    """

    initial_weights: PyTree
    model: Model
    oracles: Oracles
    space: Space
    check: Callable
    padding: Padding = Padding()
    inference: Inference = Inference()
    tested: Static[tuple[Callable, ...]] = Static(())


def of_planes(problem: Problem, group: int) -> Problem:
    """What sums of planes read of a problem: problems of one space share the programs of those.

    Two losses of one structure, say; the rest is None.

    Args:
      group: how many examples are visited side by side. Those of more than one read whole planes.
    """
    none: Any = None
    unread = Model(none, none, none, none)
    space = problem.space if group == 1 else problem.space._replace(differences=None)
    return problem._replace(
        model=unread, oracles=Oracles(), space=space, check=none, padding=Padding(),
        inference=Inference(), tested=Static(()),
    )  # fmt: skip
