"""What `chain` refuses before anything compiles: wrong options, and values of the examples.

Everything here runs in numpy on the host, before anything compiles.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.chains.losses import ChainLoss
from jaxstruct.chains.potentials import Constraints
from jaxstruct.chains.token_features import KernelTokens, anchor_gram, token_gram
from jaxstruct.core import spec
from jaxstruct.core.checks import NoOutput, check_record, checked_number, checked_size, text_of
from jaxstruct.core.device import on_device
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.spec import array, refuse
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.kernels.input import check_positive_semidefinite

_KINDS = (
    ": chain_inputs(features, length, gram) takes a jaxstruct.ragged of n sequences [l, d], or "
    "padded numbers (SparseFeatures and KernelTokens: leaves of either kind)"
)
SEQUENCES = 64
"""Of so many sequences token Gram matrices are computed again by the validation, at most: of 30
tokens with 20 sparse features each in .02 s."""
_TOLERANCE = 1e-3
"""How far a given inner product may be off, in units of the norms: float32 sums are."""


def check_options(number_of_features: int, number_of_labels: int, order: int, eta: float) -> None:
    """Raise ValueError where a number that describes a chain is out of its range."""
    checked_size("number_of_features", number_of_features)
    checked_size("number_of_labels", number_of_labels, 2)
    if not isinstance(order, int) or order not in (1, 2):
        raise ValueError(f"order must be 1 or 2 (label triples), got {text_of(order)}")
    checked_number("eta", eta)


def checked_constraints(tables: Constraints | None, S: int) -> Constraints | None:
    """Constraints as arrays of JAX; ValueError unless they are bool tables [S, S], [S], [S]."""
    if tables is None:
        return None
    check_record("constraints", tables, Constraints, "jaxstruct.chains.Constraints")
    for name, table in tables._asdict().items():
        array(
            f"constraints.{name}", table, "S S" if name == "transitions" else "S", "bools", {"S": S}
        )
    return Constraints(*map(on_device, tables))


def check_kind(features: PyTree) -> tuple[int, int]:
    """(n, T) of features of n sequences, by their shapes alone.

    Raises:
      ValueError: they are not [n, T, d], sparse of [n, T, m] leaves, or kernel rows [n, T, m].
    """
    leaf = features[0] if isinstance(features, (SparseFeatures, KernelTokens)) else features
    sizes: dict[str, int] = {}
    array("features", leaf, "n T d", None, sizes, advice=_KINDS)
    return sizes["n"], sizes["T"]


def checked_stores(features: PyTree) -> np.ndarray:
    """[n] the lengths that all leaves of ragged features have.

    Raises:
      ValueError: a leaf is no Ragged, tokens are no vectors (anchors: numbers), or two leaves
        differ in a length.
    """
    kinds = (SparseFeatures, KernelTokens)
    named = features._asdict() if isinstance(features, kinds) else {"": features}
    first: np.ndarray | None = None
    for field, leaf in named.items():
        name = f"features.{field}" if field else "features"
        axes = 1 if field == "anchors" else 2
        if not isinstance(leaf, Ragged) or leaf.rows.ndim != axes:
            wanted = "[l] numbers" if axes == 1 else "[l, d] numbers, a row a token"
            if isinstance(features, SparseFeatures):
                wanted = "[l, m] numbers, a row a token (from_scipy with offsets makes them)"
            raise ValueError(f"{name} must be a Ragged of {wanted}, got {text_of(leaf)}")
        first = leaf.lengths if first is None else first
        if not np.array_equal(first, leaf.lengths):
            raise ValueError(f"{name} must have the tokens of features.{next(iter(named))}")
    assert first is not None, "at least one leaf"
    return first


def check_features(d: int, features: PyTree) -> dict[str, int]:
    """The sizes n and T of features of n sequences.

    Raises:
      ValueError: they are not [n, T, d], sparse with indices 0..d, or kernel rows on d anchors.
    """
    sizes = {"number_of_features": d}
    kernel = isinstance(features, KernelTokens)
    name = f"inputs.features{'.rows' * kernel}"
    spec.features(name, features.rows if kernel else features, "n T", sizes)
    if sizes["T"] < 1:
        raise ValueError("inputs need at least one (padded) position, got T = 0")
    return sizes


def check_gram(features: PyTree, gram: np.ndarray, length: np.ndarray) -> None:
    """Raise ValueError where gram [n, T, T] is not that of the tokens, of kernel rows those at the
    anchors. At most `SEQUENCES` sequences are looked at."""
    some = np.unique(np.linspace(0, len(gram) - 1, min(len(gram), SEQUENCES)).astype(int))
    part = jax.tree.map(lambda leaf: np.asarray(leaf)[some], features)
    kernel = isinstance(features, KernelTokens)
    with np.errstate(over="ignore", invalid="ignore"):  # which others refuse
        own = np.asarray((anchor_gram if kernel else token_gram)(part), np.float64)
        norms = np.sqrt(np.abs(np.einsum("ntt->nt", own)))
        off = np.abs(gram[some] - own) > _TOLERANCE * norms[:, :, None] * norms[:, None]
    real = np.arange(gram.shape[1]) < length[some, None]
    advice = "the matrix is of other features; leave gram out, and chain_inputs makes it"
    if kernel:
        advice = "that is inputs.features.rows at its anchor: give values of one kernel"

    def words(i: int, t: int, s: int) -> str:
        value = own[np.searchsorted(some, i), t, s]
        return f"{value:g}, the inner product of these tokens: {advice}"

    wrong = np.zeros(gram.shape, bool)
    wrong[some] = off & real[:, :, None] & real[:, None]
    refuse("inputs.gram", gram, wrong, words)


def check_anchors(features: KernelTokens, length: np.ndarray) -> None:
    """Raise ValueError unless every token is an anchor.

    One that is none has no coefficient that training could change.
    """
    (n, T, m), name = np.shape(features.rows), "inputs.features.anchors"
    anchors = array(name, features.anchors, "n T", sizes={"n": n, "T": T})
    real = np.arange(T) < length[:, None]
    words = f"one of the {m} anchors, as every token of a training sequence must be"
    refuse(name, anchors, real & ((anchors < 0) | (anchors >= m)), words)


def check_anchor_kernel(features: PyTree, length: np.ndarray) -> None:
    """Raise ValueError where tokens are all anchors, as those of training are, but of no kernel.

    Args:
      features: `KernelTokens`, padded or ragged, and others, which pass. length: [n].
    """
    if not isinstance(features, KernelTokens):
        return
    rows, anchors = (leaf.rows if isinstance(leaf, Ragged) else leaf for leaf in features)
    if not isinstance(features.rows, Ragged):
        real = np.arange(np.shape(rows)[1]) < length[:, None]
        if np.shape(anchors) != real.shape:  # which fit refuses
            return
        rows, anchors = np.asarray(rows)[real], np.asarray(anchors)[real]
    distinct, first = np.unique(anchors, return_index=True)
    if distinct.dtype.kind not in "iu" or not distinct.size:
        return
    if 0 <= distinct[0] and distinct[-1] < rows.shape[1]:
        gram = rows[first[:, None], distinct]
        check_positive_semidefinite(gram, "features.rows of the anchors that are tokens")


def check_labels(S: int, length: np.ndarray, outputs: object, sizes: dict[str, int]) -> np.ndarray:
    """Outputs [n, T], if they are labels 0..S-1 up to the length, and -1 after it."""
    return array(
        "outputs", outputs, "n T", "integers", sizes, (range(S), "labels"), length=length,
        advice=": see core.labels",
    )  # fmt: skip


def check_possible(tables: Constraints, length: np.ndarray) -> None:
    """Raise `NoOutput` where the constraints allow no label sequence of a length [n]."""
    wrong = np.flatnonzero(~_possible(tables, int(length.max(initial=0)))[length])
    if wrong.size:
        raise NoOutput(
            wrong, [f"the constraints allow no labels of a sequence of length {length[i]}: relax "
                    "them, or leave it out" for i in wrong],
        )  # fmt: skip


def _possible(tables: Constraints, longest: int) -> np.ndarray:
    """[longest + 1] bool, whether the constraints allow a label sequence of each length."""
    follows, start, stop = (~np.asarray(table) for table in tables)
    possible, ends = np.ones(longest + 1, bool), start
    for length in range(1, longest + 1):
        possible[length:] = (ends & stop).any()
        before, ends = ends, follows[ends].any(axis=0)
        if (ends == before).all():  # and so they are of all that are longer
            break
    return possible


def check_allowed(
    tables: Constraints,
    rows: np.ndarray,
    offsets: np.ndarray,
    place: str = "outputs",
    names: Sequence[str] | None = None,
) -> None:
    """Raise ValueError if a true output breaks the constraints.

    Args:
      rows: the labels of n sequences one after the other. offsets: [n + 1] where each begins.
      place: what the caller calls the n. names: [S] of labels; None for their numbers.
    """
    transitions, start, stop = map(np.asarray, tables)
    offsets = np.asarray(offsets)
    some = np.flatnonzero(np.diff(offsets) > 0)
    first, last = offsets[some], offsets[some + 1] - 1
    inside = np.ones(max(len(rows) - 1, 0), bool)
    inside[last[:-1]] = False
    follows = 1 + np.flatnonzero(transitions[rows[:-1], rows[1:]] & inside)
    begins, ends = first[start[rows[first]]], last[stop[rows[last]]]
    wrong = np.concatenate([begins, follows, ends])
    if not wrong.size:
        return
    at = int(wrong.min())
    i = int(np.searchsorted(offsets, at, side="right")) - 1
    shown = [str(s) if names is None else text_of(names[s]) for s in rows]
    if at in begins:
        rule = "which no sequence may begin with"
    elif at in follows:
        rule = f"which may not follow {shown[at - 1]}"
    else:
        rule = "which no sequence may end with"
    bad = len(np.unique(np.searchsorted(offsets, wrong, side="right")))
    raise ValueError(
        f"{place}[{i}] breaks the constraints: token {at - offsets[i]} has the label {shown[at]}, "
        f"{rule} ({bad} such {place}): repair the labels or drop the constraints"
    )


def check_level_loss(loss: ChainLoss, length: np.ndarray) -> None:
    """Raise ValueError unless a loss of the level is 0 at level 0 and finite, >= 0 elsewhere."""
    lengths = np.unique(length)
    levels = np.arange(lengths[-1] + 1)
    assert loss.of_level is not None, "a loss of the level"
    of_all = jax.vmap(jax.vmap(loss.of_level, (0, None)), (None, 0))
    losses = np.asarray(of_all(jnp.asarray(levels), jnp.asarray(lengths)))
    good = np.isfinite(losses) & np.where(levels == 0, losses == 0, losses >= 0)
    wrong = np.argwhere(~good & (levels <= lengths[:, None]))
    if wrong.size:
        i, level = wrong[0]
        raise ValueError(
            f"loss(level={level}, length={lengths[i]}) is {losses[i, level]}: a loss must be 0 at "
            "level 0 (also of an empty sequence, length 0), finite and >= 0 elsewhere"
        )
