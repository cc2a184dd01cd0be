"""Label sequences: chains of labels over tokens (thesis 4.4, JMLR 4.3).

F(x, y; w) = sum_t <u_{y^t}, Phi(x^t)> + eta sum_t v_{y^t y^{t+1}}                        (4.20)
             [+ start_{y^1} + stop_{y^l}]
             [+ eta sum_t z_{y^t y^{t+1} y^{t+2}}]                       label triples    (4.4.1)
             [+ sum_t <p_{y^t y^{t+1}}, Phi(x^t)>]     features of label pairs with inputs (4.4.1)

With a window r, Phi(x^t) holds those of the tokens t - r .. t + r side by side (4.4.1, "overlapping
features"). With kernel tokens u_s lives as coefficients on anchors and <Psi, Psi'> is (4.22);
nothing else changes, and features of the kernel are never formed.

P(y | x) = exp(F(x, y)) / Z(x) over the label sequences that the constraints allow: a conditional
random field. What Delta raises are the emissions, so that the loss has to be additive for that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.chains import example_checks as chain_checks
from jaxstruct.chains import label_parts
from jaxstruct.chains.differences import chain_differences
from jaxstruct.chains.label_parts import ChainTheta, combine, plane_scores
from jaxstruct.chains.losses import (
    ChainLoss,
    chain_loss,
    delta,
    level_losses_of_costs,
    position_costs,
    units_at,
)
from jaxstruct.chains.oracles import sums
from jaxstruct.chains.oracles.decoding import k_best, viterbi
from jaxstruct.chains.oracles.hamming_levels import best_of_levels
from jaxstruct.chains.potentials import (
    PADDING,
    ChainInput,
    ChainPotentials,
    Constraints,
    score_parts,
)
from jaxstruct.chains.token_features import (
    KernelTokens,
    Window,
    add_tokens,
    anchor_gram,
    in_windows,
    sequence_scores,
    token_gram,
    wants_gram,
)
from jaxstruct.core.checks import check_flag, check_record, checked_dtype, checked_size
from jaxstruct.core.contract import (
    Bounded,
    Inference,
    Marginals,
    Model,
    Oracles,
    Padding,
    Problem,
    Space,
    Truth,
)
from jaxstruct.core.derived_inference import positions, with_raised
from jaxstruct.core.labels import checked_completion
from jaxstruct.core.loss_functions import sum_of_costs
from jaxstruct.core.padding import ragged_leaves
from jaxstruct.core.problem import make_problem
from jaxstruct.core.scores import inf_unless
from jaxstruct.core.spec import array, checked_lengths
from jaxstruct.core.transposition import gram_action, sum_of_squares
from jaxstruct.core.types import Array, PyTree, Static


def _log_loss(allowed: Partial, theta: ChainTheta, y: Array) -> Array:
    """-log P(y | x) = log Z - F(y) of one chain; +inf where the constraints forbid y.

    The parts of F(y) are taken off the emissions before the sum over all label sequences. log Z and
    F(y) would be large and nearly equal, and their difference in float32 too coarse for a line
    search (on 300 Spanish sentences 8e-4 of 120; this way 1e-4).
    """
    potentials, length = allowed(theta)
    parts = score_parts(potentials, y, length)
    barred = (parts == -jnp.inf) & (jnp.arange(parts.shape[0]) < length)
    emissions = potentials.emissions - jnp.where(barred, 0, parts)[:, None]
    potentials = potentials._replace(emissions=emissions)
    return inf_unless(~jnp.any(barred), sums.log_partition(potentials, length))


def _marginals(allowed: Partial, theta: ChainTheta) -> Marginals:
    """[T, S] P(y^t = s)."""
    found = sums.marginals(*allowed(theta))
    return Marginals(found.labels, found.log_partition, positions(theta.length))


def _k_best(allowed: Partial, theta: ChainTheta, k: int) -> tuple[Array, Array]:
    potentials, length = allowed(theta)
    found = k_best(potentials, length, k)
    return found.labels, found.score


def _sample(allowed: Partial, theta: ChainTheta, key: Array) -> Array:
    potentials, length = allowed(theta)
    return sums.sample(potentials, length, key)


def _most_sequences(labels: Static, inputs: ChainInput) -> int:
    return labels.value ** int(np.max(inputs.length, initial=0))


def chain_inference(labels: int, allowed: Partial, raised: Partial) -> Inference:
    """The inference of a chain.

    Args:
      labels: S.
      allowed: theta -> (potentials with -inf where the constraints forbid, length).
      raised: (theta, y_true) -> theta whose score is F(y) + Delta(y_true, y); it raises ValueError
        where the loss is not additive.
    """
    own = Inference(
        *(Partial(one, allowed) for one in (_log_loss, _marginals, _k_best, _sample)),
        most_outputs=Partial(_most_sequences, Static(labels)),
    )
    return with_raised(own, raised)


ROWS = 64
"""Rows of a long token Gram matrix that are widened to floats at a time."""


class _Chain(NamedTuple):
    """The tables that the functions of a chain are bound to."""

    eta: Array
    loss: ChainLoss
    constraints: Constraints | None
    window: Window


def chain_inputs(
    features: PyTree, length: np.ndarray | None = None, gram: np.ndarray | None = None
) -> ChainInput:
    """A batch of n sequences: ragged, or padded to T positions.

    Args:
      features: a `Ragged` of n sequences of tokens [l, d]; or padded [n, T, d]. `SparseFeatures`
        and `KernelTokens` have leaves of either kind, their rows being [l, m] or [n, T, m].
      length: [n] integers in 0..T; None where features are ragged, which have it.
      gram: [n, T, T] <Phi(x^t), Phi(x^s)>; None: computed from dense or sparse features, and, for
        training, from ragged kernel rows. Of sequences of more than 128 positions it is never made.

    Raises:
      ValueError: features are none of these, lengths are no integers (floats are none) or do not
        fit, or gram is not [n, T, T]; gram is None and features are padded kernel rows; length or
        gram is given with ragged features; every token is an anchor, and the values of these are
        of no kernel.
    """
    if ragged_leaves(features):  # their Gram matrices wait for the padding, see `_with_gram`
        lengths = chain_checks.checked_stores(features)
        if gram is not None or (length is not None and not np.array_equal(length, lengths)):
            raise ValueError(
                "chain_inputs of ragged features takes no gram, and no length but theirs: leave "
                "both out"
            )
        chain_checks.check_anchor_kernel(features, lengths)
        return ChainInput(features, lengths.astype(np.int32), None)
    n, T = chain_checks.check_kind(features)
    if length is None:
        raise ValueError(
            f"length must be [n = {n}] integers in 0..{T} of padded features, got None: give it, "
            "or a jaxstruct.ragged of the sequences"
        )
    length = checked_lengths("length", length, n, 0, T)
    chain_checks.check_anchor_kernel(features, length)
    gram = token_gram(features) if gram is None and wants_gram(features) else gram
    if gram is not None:
        array("gram", gram, "n T T", None, {"n": n, "T": T})
    return ChainInput(features, length, gram)


def _with_gram(x: ChainInput) -> ChainInput:
    """Padded inputs with the Gram matrices that training reads, unless features are as good.

    Raises:
      ValueError: features are so large that their inner products are not finite.
    """
    if isinstance(x.features, KernelTokens):
        return x._replace(gram=anchor_gram(x.features))
    if not wants_gram(x.features):
        return x
    with np.errstate(over="ignore", invalid="ignore"):
        gram = token_gram(x.features)
    if not np.isfinite(gram).all():
        raise ValueError(
            f"inner products of tokens overflow {gram.dtype}: scale inputs.features down"
        )
    return x._replace(gram=gram)


def _output_sizes(x: ChainInput) -> int:
    """The positions of the labels are those of the tokens."""
    check_record("inputs", x, ChainInput, "chain_inputs")
    return np.shape(jax.tree.leaves(x.features)[0])[1]


_PADDING = Padding(output_sizes=_output_sizes, complete=_with_gram)


def _potentials(tables: _Chain, w: PyTree, x: ChainInput) -> ChainTheta:
    x = in_windows(x, tables.window)
    emissions = sequence_scores(w["emissions"], x.features)
    transitions = tables.eta * w["transitions"]
    if "pairs" in w:
        T, S = emissions.shape
        scores = sequence_scores(w["pairs"], x.features)[: T - 1]
        transitions = transitions[None] + scores.reshape(T - 1, S, S)
    triples = tables.eta * w["triples"] if "triples" in w else None
    return ChainTheta(emissions, transitions, w.get("start"), w.get("stop"), triples, x.length)


def _add(tables: _Chain, w: PyTree, x: ChainInput, u: ChainTheta) -> PyTree:
    """w + A' u of a batch."""
    x = in_windows(x, tables.window)
    new = {"emissions": add_tokens(w["emissions"], x.features, u.emissions)}
    axes = tuple(range(u.transitions.ndim - 2))
    new["transitions"] = w["transitions"] + tables.eta * jnp.sum(u.transitions, axis=axes)
    if "pairs" in w:
        B, T, S = u.emissions.shape
        flat = u.transitions.reshape(B, T - 1, S * S)
        changes = jnp.pad(flat, ((0, 0), (0, 1), (0, 0)))  # the last token begins no pair
        new["pairs"] = add_tokens(w["pairs"], x.features, changes)
    for name in ("start", "stop"):
        if name in w:
            new[name] = w[name] + jnp.sum(getattr(u, name), axis=0)
    if u.triples is not None:
        new["triples"] = w["triples"] + tables.eta * jnp.sum(u.triples, axis=0)
    return new


def _gram_product(gram: Array, u: Array) -> Array:
    """K u [T, S]; a long K of narrow integers is widened some rows at a time, never whole."""
    T = gram.shape[0]
    if gram.dtype == u.dtype or T <= ROWS or T % ROWS:
        return gram @ u

    def of_rows(first: Array) -> Array:
        return jax.lax.dynamic_slice_in_dim(gram, first, ROWS).astype(u.dtype) @ u

    parts = jax.lax.map(of_rows, jnp.arange(0, T, ROWS))
    return parts.reshape(u.shape)


def _gram_action(tables: _Chain, zero: PyTree, x: ChainInput, u: ChainTheta) -> ChainTheta:
    """A_x A_x' u through the token Gram matrix (4.22), or without one through zero weights."""
    if x.gram is None:
        return gram_action(Partial(_add, tables), Partial(_potentials, tables), zero, x, u)
    x = in_windows(x, tables.window)
    squared = tables.eta**2
    transitions = squared * u.transitions
    if u.transitions.ndim == 3:
        mixed = jnp.einsum("ts,sab->tab", x.gram[:-1, :-1], u.transitions)
        transitions = squared * jnp.sum(u.transitions, axis=0)[None] + mixed
    triples = None if u.triples is None else squared * u.triples
    return u._replace(
        emissions=_gram_product(x.gram, u.emissions), transitions=transitions, triples=triples
    )


def _plane_values(tables: _Chain, w: PyTree, x: ChainInput, y: Array) -> Array:
    if "pairs" not in w:
        return label_parts.plane_values(tables.eta, w, in_windows(x, tables.window), y)
    theta = jax.vmap(partial(_potentials, tables), (None, 0))(w, x)
    return jax.vmap(plane_scores)(theta, y)


def _add_planes(tables: _Chain, w: PyTree, x: ChainInput, y: Array, c: Array) -> PyTree:
    """w + sum c Psi of a batch of planes."""
    if "pairs" not in w:
        return label_parts.add_planes(tables.eta, w, in_windows(x, tables.window), y, c)
    theta = jax.vmap(partial(_potentials, tables), (None, 0))(w, x)
    return _add(tables, w, x, jax.vmap(combine)(theta, y, c))


def _squared_norm(w: PyTree, x: ChainInput) -> Array | None:
    return None if isinstance(x.features, KernelTokens) else sum_of_squares(w, x)


def _score(theta: ChainTheta, y: Array) -> Array:
    return plane_scores(theta, y[None])[0]


def _allow(tables: _Chain, theta: ChainTheta) -> tuple[ChainPotentials, Array]:
    """(potentials with -inf where the constraints forbid, length): what the oracles take."""
    potentials = ChainPotentials(*theta[:-1])
    if tables.constraints is not None:
        barred, zeros = tables.constraints, jnp.zeros_like(theta.emissions[0])
        start = zeros if theta.start is None else theta.start
        stop = zeros if theta.stop is None else theta.stop
        forbidden = barred.transitions
        if theta.transitions.ndim == 3:
            forbidden = jnp.broadcast_to(forbidden, theta.transitions.shape)
        potentials = potentials._replace(
            transitions=jnp.where(forbidden, -jnp.inf, theta.transitions),
            start=jnp.where(barred.start, -jnp.inf, start),
            stop=jnp.where(barred.stop, -jnp.inf, stop),
        )
    return potentials, theta.length


def chain_potentials(problem: Problem, theta: ChainTheta) -> tuple[ChainPotentials, Array]:
    """The potentials of a chain's theta as the oracles take them.

    Args:
      problem: made by `chain`.
      theta: problem.model.potentials(w, x) of one input.

    Returns:
      (potentials, length), with -inf wherever the constraints of the problem forbid.

    Raises:
      ValueError: the problem is no chain.
    """
    if problem.model.decode.func is not _decode:
        raise ValueError("problem must be made by jaxstruct.chains.structure.chain")
    return _allow(problem.model.decode.args[0], theta)


def _augmented(
    tables: _Chain, theta: ChainTheta, y_true: Array | Truth, scale: Array
) -> tuple[ChainPotentials, Array]:
    """(potentials whose score is F(y) + scale Delta(y_true, y), length)."""
    potentials, length = _allow(tables, theta)
    y, possible = y_true if isinstance(y_true, Truth) else (y_true, None)
    costs = scale * position_costs(tables.loss, y, length, possible)
    return potentials._replace(emissions=potentials.emissions + costs), length


def _raised(tables: _Chain, theta: ChainTheta, y_true: Array | Truth) -> ChainTheta:
    """theta whose score is F(y) + Delta(y_true, y)."""
    tables.loss.check_additive()
    raised, _ = _augmented(tables, theta, y_true, jnp.ones((), theta.emissions.dtype))
    return theta._replace(emissions=raised.emissions)


def _restrict(theta: ChainTheta, possible: Array) -> ChainTheta:
    """theta without the labels that are not possible [T, S]; padding stays as it is."""
    beyond = jnp.arange(possible.shape[0]) >= theta.length
    emissions = jnp.where(possible | beyond[:, None], theta.emissions, -jnp.inf)
    return theta._replace(emissions=emissions)


def _decode(tables: _Chain, theta: ChainTheta) -> Array:
    found = viterbi(*_allow(tables, theta))
    if tables.constraints is None:
        return found.labels
    return jnp.where(found.score == -jnp.inf, PADDING, found.labels)


def _loss(tables: _Chain, y_true: Array | Truth, y: Array) -> Array:
    if not isinstance(y_true, Truth):
        return delta(tables.loss, y_true, y)
    tables.loss.check_additive()
    own = y_true.output
    costs = position_costs(tables.loss, own, jnp.sum(own >= 0), y_true.numbers)
    return sum_of_costs(costs, y)


def _loss_augmented(
    tables: _Chain, theta: ChainTheta, y_true: Array | Truth, scale: Array
) -> Array:
    return viterbi(*_augmented(tables, theta, y_true, scale)).labels


def _level_losses(tables: _Chain, y_true: Array) -> Array:
    if tables.loss.units is not None:
        return level_losses_of_costs(tables.loss, y_true)
    levels = jnp.arange(2 if tables.loss.kind.capped else y_true.shape[0] + 1)
    assert tables.loss.of_level is not None, "a loss of the level"
    losses = jax.vmap(tables.loss.of_level, (0, None))(levels, jnp.sum(y_true >= 0))
    return jnp.asarray(losses, tables.loss.kind.dtype)


def _best_by_level(
    tables: _Chain, theta: ChainTheta, y_true: Array, offsets: Array, slopes: Array
) -> Array | Bounded:
    wrong, (potentials, length) = jnp.arange(offsets.shape[0]) > 0, _allow(tables, theta)
    given = potentials, y_true, length, offsets, slopes, wrong
    if tables.loss.units is None:
        return best_of_levels(*given).labels
    place, exact = units_at(tables.loss, y_true.shape[0])
    costs = tables.loss.units[place][jnp.maximum(y_true, 0)]
    best = best_of_levels(*given, costs, tables.loss.kind.kinds[place])
    if exact:
        return best.labels
    return Bounded(best.labels, jnp.maximum(best.value, 0))  # below 0 a smaller loss has more


def _best_wrong(tables: _Chain, theta: ChainTheta, y_true: Array) -> Array:
    potentials, length = _allow(tables, theta)
    lines = jnp.zeros(2), jnp.ones(2), jnp.arange(2) > 0
    return best_of_levels(potentials, y_true, length, *lines).labels


def _initial_weights(
    d: int, S: int, order: int, start_stop: bool, pair_features: bool, dtype: str
) -> dict[str, Array]:
    shapes: dict[str, tuple[int, ...]] = {"emissions": (d, S), "transitions": (S, S)}
    if start_stop:
        shapes |= {"start": (S,), "stop": (S,)}
    if order == 2:
        shapes["triples"] = (S, S, S)
    if pair_features:
        shapes["pairs"] = (d, S * S)
    return {name: jax.device_put(np.zeros(shape, dtype)) for name, shape in shapes.items()}


def _check(
    tables: _Chain, d: int, S: int, inputs: ChainInput, outputs: np.ndarray | None = None
) -> None:
    """All checks of values. Each relies on those before it; outputs are given for training only."""
    check_record("inputs", inputs, ChainInput, "chain_inputs")
    sizes = chain_checks.check_features(d, inputs.features)
    kernel = isinstance(inputs.features, KernelTokens)
    if kernel and tables.window.radius:
        raise ValueError(
            "inputs.features are KernelTokens, which window cannot look into: window the tokens "
            "before taking the kernel (token_features.windowed), and leave window out of chain"
        )
    if inputs.gram is not None:
        array("inputs.gram", inputs.gram, "n T T", None, sizes)
    length = checked_lengths("inputs.length", inputs.length, sizes["n"], 0, sizes["T"])
    if tables.constraints is not None:
        chain_checks.check_possible(tables.constraints, length)
    if outputs is None:
        return
    if kernel:
        chain_checks.check_anchors(inputs.features, length)
    if inputs.gram is not None:
        chain_checks.check_gram(inputs.features, np.asarray(inputs.gram), length)
    if isinstance(outputs, Truth):
        tables.loss.check_additive()
        outputs = checked_completion(outputs, S, length)
    y = chain_checks.check_labels(S, length, outputs, sizes)
    if tables.constraints is not None:
        offsets = np.concatenate([[0], np.cumsum(length)])
        chain_checks.check_allowed(tables.constraints, y[y >= 0], offsets)
    if tables.loss.costs is None and not tables.loss.kind.capped:
        chain_checks.check_level_loss(tables.loss, length)


def _space(tables: _Chain, initial_weights: PyTree, pair_features: bool) -> Space:
    differences = chain_differences(tables.eta, tables.window, initial_weights)
    return Space(
        add=Partial(_add, tables),
        gram_action=Partial(_gram_action, tables, initial_weights),
        plane_scores=plane_scores,
        combine=combine,
        plane_values=Partial(_plane_values, tables),
        add_planes=Partial(_add_planes, tables),
        squared_norm=_squared_norm,
        differences=None if pair_features else differences,  # these want all tokens
    )


def chain(
    number_of_features: int,
    number_of_labels: int,
    *,
    eta: float = 1.0,
    order: int = 1,
    start_stop: bool = False,
    pair_features: bool = False,
    window: int = 0,
    loss: str | Callable[[Array, Array], Array] | np.ndarray = "hamming",
    constraints: Constraints | None = None,
    dtype: str = "float32",
) -> Problem:
    """Label sequence learning; see the module for F.

    Weights w = {"emissions": u [d, S], "transitions": v [S, S], and as chosen "start" [S], "stop"
    [S], "triples": z [S, S, S], "pairs": p [d, S S]}; rows of v are the earlier label. With a
    window r there are (2 r + 1) d in place of d rows of u and p, block o = 0..2 r for the features
    of token t - r + o.

    Args:
      number_of_features: d, of dense or sparse tokens (sparse padding has index d), or the number m
        of anchors of KernelTokens.
      number_of_labels: S >= 2.
      eta: scale of the label interactions, >= 0 (4.20).
      order: 1, or 2 to add label triples.
      start_stop: whether the first and the last label have weights of their own.
      pair_features: whether tokens also have features with label pairs.
      window: r >= 0, how many neighbours on either side count with each token; a neighbour beyond
        the ends of the sequence has no features. Inputs stay those of single tokens, dense or
        sparse; kernel tokens are windowed before the kernel is taken.
      loss: "hamming", "normalised_hamming", "zero_one", a function (level, length) -> Delta of the
        number of wrong labels, or an [S, S] matrix of costs. Slack re-scaling is exact for costs
        that are multiples of a common unit, m units the largest, m <= 64 and m T <= 1024, at
        2 + m T levels; of other costs it has a bound that is close for few of them.
      constraints: label sequences that are no outputs. Inputs of a length of which they allow none
        are refused (`NoOutput`); `model.decode`, which cannot refuse, gives -1 throughout.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `ChainInput`s. Outputs are [T] int32 labels, -1 on padding. Decoding breaks ties
      as `viterbi` does.

    Raises:
      ValueError: an argument does not fit.
    """
    d, S, dtype = number_of_features, number_of_labels, checked_dtype(dtype)
    chain_checks.check_options(d, S, order, eta)
    check_flag("start_stop", start_stop)
    check_flag("pair_features", pair_features)
    span = Window(checked_size("window", window, 0), d)
    kind, rules = chain_loss(loss, S, dtype), chain_checks.checked_constraints(constraints, S)
    tables = _Chain(jax.device_put(np.asarray(eta, dtype)), kind, rules, span)
    zero = _initial_weights(span.blocks * d, S, order, start_stop, pair_features, dtype)
    return make_problem(
        zero,
        Model(
            Partial(_potentials, tables), _score, Partial(_decode, tables), Partial(_loss, tables),
            restrict=_restrict,
        ),
        Oracles(
            loss_augmented_decode=None if kind.costs is None else Partial(_loss_augmented, tables),
            best_wrong=Partial(_best_wrong, tables),
            level_losses=Partial(_level_losses, tables),
            best_by_level=Partial(_best_by_level, tables),
        ),
        _space(tables, zero, pair_features), Partial(_check, tables, d, S), _PADDING,
        chain_inference(S, Partial(_allow, tables), Partial(_raised, tables)),
        tested=not callable(loss),
    )  # fmt: skip
