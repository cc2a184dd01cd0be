"""Segments with labels: semi-Markov chains (S. Sarawagi and W. Cohen, NIPS 2004).

    F(x, y; w) = sum_j [ sum_{t in s_j} <u_{y_j}, Phi(x^t)>
                         + <a_{y_j}, Phi(x^{b_j})> + <z_{y_j}, Phi(x^{e_j - 1})>
                         + d_{e_j - b_j, y_j} + sum_{q in Q(x, b_j, e_j)} p_{q, y_j} ]
                 + sum_j v_{y_j y_{j + 1}} [+ start_{y_1} + stop_{y_m}]

over the segments s_j = [b_j, e_j) of y with labels y_j: of all tokens, of the first and of the last
one, of the length, and of the whole text of a segment, its phrases Q. With a window r, Phi(x^t)
holds those of the tokens t - r .. t + r side by side: the first and the last token then see the
context before and after the segment.

P(y | x) = exp(F(x, y)) / Z(x) over all segmentations: the semi-Markov random field of Sarawagi and
Cohen. What Delta raises are the tokens, so that the loss has to be additive for that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.chains import chain_inputs
from jaxstruct.chains.token_features import Window, add_tokens, in_windows, token_gram, token_scores
from jaxstruct.core.checks import (
    check_choice,
    check_flag,
    check_record,
    checked_dtype,
    checked_size,
    text_of,
)
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
from jaxstruct.core.problem import make_problem
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.scores import inf_unless
from jaxstruct.core.semiring import Levels
from jaxstruct.core.types import AnyArray, Array, PyTree, Static
from jaxstruct.segments import example_checks, losses
from jaxstruct.segments.losses import SegmentLoss
from jaxstruct.segments.oracles import decoding
from jaxstruct.segments.oracles.decoding import forward, k_best, trace_back, viterbi
from jaxstruct.segments.potentials import (
    SegmentPotentials,
    SegmentTheta,
    is_allowed,
    score,
    segment_potentials,
    token_parts,
)


def _log_loss(allowed: Partial, theta: SegmentTheta, y: Array) -> Array:
    """-log P(y | x). The parts of F(y) are taken off the tokens before the sum over segmentations:
    log Z and F(y) would be large and nearly equal, and their difference coarse in float32."""
    tokens = theta.tokens.at[:, 0].add(-token_parts(theta, y)[:, None])
    potentials, length = allowed(theta._replace(tokens=tokens))
    possible = is_allowed(potentials, y)
    return inf_unless(possible, decoding.log_partition(potentials, length))


def _marginals(allowed: Partial, theta: SegmentTheta) -> Marginals:
    """[T, L, S] the probability of the segment with first token t, length l + 1 and label s."""
    found = decoding.marginals(*allowed(theta))
    return Marginals(found.segments, found.log_partition, positions(theta.length))


def _k_best(allowed: Partial, theta: SegmentTheta, k: int) -> tuple[Array, Array]:
    potentials, length = allowed(theta)
    found = decoding.k_best(potentials, length, k)
    return found.codes, found.score


def _sample(allowed: Partial, theta: SegmentTheta, key: Array) -> Array:
    potentials, length = allowed(theta)
    return decoding.sample(potentials, length, key)


def _most_segmentations(sizes: Static, inputs: PyTree) -> int:
    labels, longest = sizes.value
    counts = [1]
    for _ in range(int(np.max(inputs.length, initial=0))):
        counts.append(labels * sum(counts[-longest:]))
    return counts[-1]


def segment_inference(labels: int, longest: int, allowed: Partial, raised: Partial) -> Inference:
    """The inference of segmentations.

    Args:
      labels: S. longest: L. allowed: theta -> (`SegmentPotentials`, length).
      raised: (theta, y_true) -> theta whose score is F(y) + Delta(y_true, y); it raises ValueError
        where the loss is not additive.
    """
    own = Inference(
        *(Partial(one, allowed) for one in (_log_loss, _marginals, _k_best, _sample)),
        most_outputs=Partial(_most_segmentations, Static((labels, longest))),
    )
    return with_raised(own, raised)


class SegmentInput(NamedTuple):
    """One input sequence, padded to T positions; `segment_inputs` makes a batch of them.

    Fields:
      features: [T, d], or SparseFeatures of [T, m] leaves; zeros on padding. Or `Ragged` stores.
      length: int32 scalar.
      phrases: [T, M, P] int32, up to P phrases of the segment with first token t and length l + 1,
        f (their number) for none.
      gram: [T, T] <Phi(x^t), Phi(x^s)>; None where only prediction is wanted.
      same: [T, M, P] int32, for each phrase the place among all T M P of the first one like it;
        None where gram is.
    """

    features: PyTree
    length: AnyArray
    phrases: AnyArray
    gram: Any = None
    same: Any = None


class _Segments(NamedTuple):
    """What the functions of a problem are bound to. allowed: [L, S] bool."""

    loss: SegmentLoss
    window: Window
    allowed: Array


def segment_inputs(
    features: PyTree, length: Any = None, phrases: AnyArray | Ragged | None = None
) -> SegmentInput:
    """A batch of n sequences: ragged, or padded to T positions.

    Args:
      features, length: as in `jaxstruct.chains.chain_inputs`, dense or sparse.
      phrases: of the same kind as features: [n, T, M, P] int32, or a `Ragged` of rows [M, P]; None
        for none.

    Raises:
      ValueError: as `chain_inputs`; phrases are not of the tokens of features.
    """
    x = chain_inputs(features, length)
    leaf = jax.tree.leaves(x.features)[0]
    stores = isinstance(leaf, Ragged)
    if phrases is None:
        none = np.zeros((*(leaf.rows.shape[:1] if stores else leaf.shape[:2]), 0, 0), np.int32)
        phrases = Ragged(none, leaf.offsets) if stores else none
    own, given = (
        one.lengths if isinstance(one, Ragged) else np.shape(one)[:2] for one in (leaf, phrases)
    )
    if isinstance(phrases, Ragged) != stores or not np.array_equal(own, given):
        raise ValueError(
            "phrases must be of the tokens of features, a Ragged where those are, got "
            f"{text_of(phrases)} beside {text_of(leaf)}"
        )
    return _with_training(SegmentInput(x.features, x.length, phrases), x.gram)


def _with_training(x: SegmentInput, gram: AnyArray | None = None) -> SegmentInput:
    """Padded inputs with what only training reads; ragged ones as they are."""
    if isinstance(x.phrases, Ragged):
        return x
    gram = token_gram(x.features) if gram is None else gram
    phrases = np.asarray(x.phrases)
    same = np.zeros(phrases.shape, np.int32)
    if same[:1].size:
        for i, one in enumerate(phrases):
            _, first, of_each = np.unique(one, return_index=True, return_inverse=True)
            same[i] = first[of_each].reshape(one.shape)
    return x._replace(gram=gram, same=same)


def _output_sizes(x: SegmentInput) -> int:
    """The positions of the codes are those of the tokens."""
    check_record("inputs", x, SegmentInput, "segment_inputs")
    return np.shape(jax.tree.leaves(x.features)[0])[1]


_PADDING = Padding(output_sizes=_output_sizes, complete=_with_training)


def _potentials(tables: _Segments, w: PyTree, x: SegmentInput) -> SegmentTheta:
    tokens = token_scores(w["tokens"], in_windows(x, tables.window).features)
    phrases = None
    if "phrases" in w:
        found = w["phrases"].at[x.phrases].get(mode="fill", fill_value=0)
        phrases = jnp.sum(found, axis=2)
    return SegmentTheta(
        tokens.reshape(len(tokens), 3, -1), w["lengths"], w["transitions"], w.get("start"),
        w.get("stop"), phrases, jnp.asarray(x.length, jnp.int32),
    )  # fmt: skip


def _add(tables: _Segments, w: PyTree, x: SegmentInput, u: SegmentTheta) -> PyTree:
    """w + A' u of a batch."""
    tokens = u.tokens.reshape(*u.tokens.shape[:2], -1)
    new = {"tokens": add_tokens(w["tokens"], in_windows(x, tables.window).features, tokens)}
    if u.phrases is not None:
        change = jnp.broadcast_to(u.phrases[..., None, :], (*x.phrases.shape, u.phrases.shape[-1]))
        new["phrases"] = w["phrases"].at[x.phrases].add(change, mode="drop")
    for name in ("lengths", "transitions", "start", "stop"):
        if name in w:
            new[name] = w[name] + jnp.sum(getattr(u, name), axis=0)
    return new


def _gram_action(tables: _Segments, phrases: int, x: SegmentInput, u: SegmentTheta) -> SegmentTheta:
    """A_x A_x' u through the inner products of tokens, and through which phrases are the same."""
    if x.gram is None:
        raise ValueError("inputs lack what training reads: make them by segment_inputs")
    gram = in_windows(x, tables.window).gram
    flat = u.tokens.reshape(len(u.tokens), -1)
    u = u._replace(tokens=(gram.astype(flat.dtype) @ flat).reshape(u.tokens.shape))
    if u.phrases is None:
        return u
    real, S = (x.phrases < phrases)[..., None], u.phrases.shape[-1]
    each = jnp.where(real, u.phrases[..., None, :], 0)
    sums = jnp.zeros((x.same.size, S), each.dtype).at[x.same.reshape(-1)].add(each.reshape(-1, S))
    return u._replace(phrases=jnp.sum(jnp.where(real, sums[x.same], 0), axis=2))


def _allow(tables: _Segments, theta: SegmentTheta) -> tuple[SegmentPotentials, Array]:
    """(potentials with -inf where a label takes no segments of a length, length)."""
    return segment_potentials(theta, tables.allowed), theta.length


def _raised(
    tables: _Segments, theta: SegmentTheta, y_true: Array | Truth, scale: Array | float = 1
) -> SegmentTheta:
    """theta whose score is F(y) + scale Delta(y_true, y)."""
    tables.loss.check_additive()
    costs = losses.code_costs(tables.loss, y_true, theta.tokens.shape[2])
    inside, first = jnp.moveaxis(costs, 2, 0)
    raised = jnp.stack([inside, first - inside, jnp.zeros_like(first)], axis=1)
    return theta._replace(tokens=theta.tokens + scale * raised)


def _restrict(theta: SegmentTheta, possible: Array) -> SegmentTheta:
    """theta without the segments that have a code which is not possible [T, 2 S].

    Tokens cannot forbid it, since a first token is one inside of a segment and more: segments do,
    as phrases of all lengths.
    """
    L = theta.lengths.shape[0]
    kept = losses.wrong_tokens(possible, L) == 0
    phrases = jnp.zeros_like(kept, theta.lengths.dtype)
    if theta.phrases is not None:
        phrases = phrases.at[:, : theta.phrases.shape[1]].set(theta.phrases)
    return theta._replace(phrases=jnp.where(kept, phrases, -jnp.inf))


def _decode(tables: _Segments, theta: SegmentTheta) -> Array:
    return viterbi(*_allow(tables, theta)).codes


def _loss_augmented(
    tables: _Segments, theta: SegmentTheta, y_true: Array | Truth, scale: Array
) -> Array:
    return _decode(tables, _raised(tables, theta, y_true, scale))


def _best_wrong(tables: _Segments, theta: SegmentTheta, y_true: Array) -> Array:
    """The better of the two best that is not y_true."""
    found = k_best(*_allow(tables, theta), 2)
    first, second = found.codes
    second = jnp.where(found.score[1] > -jnp.inf, second, y_true)
    return jnp.where(jnp.all(first == y_true), second, first)


def _best_by_level(
    tables: _Segments, theta: SegmentTheta, y_true: Array, offsets: Array, slopes: Array
) -> Array | Bounded:
    loss, (potentials, length) = tables.loss, _allow(tables, theta)
    if loss.name == "zero_one":
        return jnp.where(offsets[1] > -jnp.inf, _best_wrong(tables, theta, y_true), y_true)
    T, L, S = potentials.segments.shape
    if loss.name == "f1":
        kept = min(loss.most_segments, T)
        bounding = losses.bounding_pairs(kept, T)
        steps, targets = losses.pair_steps(loss, y_true, L, S), losses.pair_targets(kept)
        true = jnp.all(losses.pairs(kept) == jnp.sum(losses.counted(loss, y_true)), axis=1)
    else:
        steps = losses.wrong_tokens(losses.right_codes(y_true, S), L)
        targets = np.arange(L + 1)[:, None] + np.arange(T + 1)  # level h + c after c wrong tokens
        true, bounding = jnp.arange(T + 1) == 0, np.zeros(T + 1, bool)
    rule = Levels(targets)
    found = forward(rule, potentials, length, steps)
    real = ~true & (found.total > -jnp.inf)
    values = jnp.where(real, offsets + slopes * jnp.where(real, found.total, 0), -jnp.inf)
    own = jnp.where(bounding, -jnp.inf, values)
    level = jnp.argmax(own)
    y = trace_back(rule, potentials, length, found, level)
    y = jnp.where(own[level] > -jnp.inf, y, y_true)
    return Bounded(y, jnp.max(values)) if bounding.any() else y


def _initial_weights(
    d: int, S: int, L: int, phrases: int, start_stop: bool, dtype: str
) -> dict[str, Array]:
    shapes: dict[str, tuple[int, ...]] = {
        "tokens": (d, 3 * S), "lengths": (L, S), "transitions": (S, S),
    }  # fmt: skip
    if phrases:
        shapes["phrases"] = (phrases, S)
    if start_stop:
        shapes |= {"start": (S,), "stop": (S,)}
    return {name: jax.device_put(np.zeros(shape, dtype)) for name, shape in shapes.items()}


def segmenter(
    number_of_features: int,
    number_of_labels: int,
    longest: int,
    *,
    number_of_phrases: int = 0,
    outside: int | None = None,
    window: int = 0,
    start_stop: bool = False,
    loss: str = "hamming",
    most_segments: int = 16,
    dtype: str = "float32",
) -> Problem:
    """Learn to divide sequences into segments with labels; see the module for F.

    Weights w = {"tokens": [(2 r + 1) d, 3 S] u, a and z side by side, "lengths": d [L, S],
    "transitions": v [S, S], the first index the earlier label, and as chosen "phrases": p [f, S],
    "start" [S], "stop" [S]}.

    Args:
      number_of_features: d of a token, dense or sparse (sparse padding has index d).
      number_of_labels: S >= 1.
      longest: L >= 1, tokens of a segment at most. Oracles take O(l S (L + S)) steps.
      number_of_phrases: f >= 0.
      outside: the label whose segments are single tokens and do not count in f1, such as O of IOB2;
        None where all labels are alike.
      window: r >= 0, how many neighbours on either side count with each token.
      start_stop: whether the first and the last segment have weights of their own.
      loss: "hamming" (tokens with a wrong code), "normalised_hamming", "zero_one" or "f1" (of
        segments), see `losses`.
      most_segments: N >= 1 of "f1", whose oracle costs (N + 1) (N + 2) / 2 times Viterbi. Exact
        for sequences padded to at most N tokens, of others bounded; those of training have fewer
        than N segments that count.
      dtype: "float32" or "float64".

    Returns:
      A Problem on `SegmentInput`s. Outputs are [T] int32 codes (`potentials`), -1 on padding.
      Decoding breaks ties as `viterbi` does.

    Raises:
      ValueError: an argument does not fit.
    """
    d, S = checked_size("number_of_features", number_of_features), number_of_labels
    S, L = checked_size("number_of_labels", S), checked_size("longest", longest)
    phrases, dtype = checked_size("number_of_phrases", number_of_phrases, 0), checked_dtype(dtype)
    check_flag("start_stop", start_stop)
    if outside is not None:
        outside = checked_size("outside", outside, 0, S - 1)
    span = Window(checked_size("window", window, 0), d)
    check_choice("loss", loss, losses.NAMES)
    kind = SegmentLoss(loss, outside, checked_size("most_segments", most_segments), dtype)
    allowed = np.ones((L, S), bool)
    if outside is not None:
        allowed[1:, outside] = False
    tables = _Segments(kind, span, jax.device_put(allowed))
    return make_problem(
        _initial_weights(span.blocks * d, S, L, phrases, start_stop, dtype),
        Model(Partial(_potentials, tables), score, Partial(_decode, tables),
              Partial(losses.delta, kind), restrict=_restrict),
        Oracles(
            loss_augmented_decode=Partial(_loss_augmented, tables) if kind.additive else None,
            best_wrong=Partial(_best_wrong, tables),
            level_losses=Partial(losses.level_losses, kind),
            best_by_level=Partial(_best_by_level, tables),
        ),
        Space(add=Partial(_add, tables), gram_action=Partial(_gram_action, tables, phrases)),
        Partial(_check, tables, d, phrases),
        _PADDING,
        segment_inference(S, L, Partial(_allow, tables), Partial(_raised, tables)),
        tested=True,
    )  # fmt: skip


def _check(
    tables: _Segments, d: int, phrases: int, inputs: SegmentInput, outputs: Any = None
) -> None:
    """All checks of values; outputs are given for training only."""
    check_record("inputs", inputs, SegmentInput, "segment_inputs")
    example_checks.check_inputs(d, phrases, len(tables.allowed), inputs, outputs is not None)
    if outputs is None:
        return
    length = np.asarray(inputs.length)
    if isinstance(outputs, Truth):
        tables.loss.check_additive()
        outputs = checked_completion(outputs, 2 * tables.allowed.shape[1], length)
    example_checks.check_codes(np.asarray(tables.allowed), length, outputs)
    if tables.loss.name == "f1":
        example_checks.check_counts(tables.loss, outputs)
