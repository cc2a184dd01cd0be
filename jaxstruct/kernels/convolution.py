"""Convolution kernels: a sum over the ways two objects fall into parts (thesis 2.21).

Sources: Haussler, Convolution Kernels on Discrete Structures, 1999; Watkins, Dynamic Alignment
Kernels, 2000; thesis references [17, 48].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.checks import check_record, checked_size
from jaxstruct.core.types import AnyArray, Array, PyTree, Static
from jaxstruct.kernels.combine import as_kernel, as_kernels
from jaxstruct.kernels.strings import Strings, check_strings, marked_letters


class Parts(NamedTuple):
    """The r decompositions R^-1(x) of one object x into d components.

    Fields:
      components: d pytrees, each with a leading axis [r]: component c of every decomposition.
      weights: [r] 1 for a decomposition, 0 for padding; other numbers weigh it.
    """

    components: tuple[PyTree, ...]
    weights: AnyArray


def convolution_kernel(
    decompose: Callable, kernels: tuple[Callable, ...], x: PyTree, z: PyTree
) -> Array:
    """Returns K(x, x') of `convolution`: what that factory wraps."""
    own, other = (decomposed(decompose, kernels, part) for part in (x, z))
    values = jnp.ones(())
    for kernel, a, b in zip(kernels, own.components, other.components, strict=True):
        table = jax.vmap(lambda p, k=kernel, b=b: jax.vmap(lambda q: k(p, q))(b))(a)
        values = table * values
    return weighted_by(own.weights, values, other.weights)


def convolution(decompose: Callable[[Any], Parts], kernels: Sequence[Callable]) -> Partial:
    """Makes K(x, x') = sum over R^-1(x), R^-1(x') of prod_{c=1..d} K_c(x_c, x'_c) (2.21).

    A kernel wherever each K_c is one: a sum of tensor products of them (propositions 1 and 3).
    With weights v of the decompositions each term is multiplied by v v'. `gram_matrix` decomposes
    each object once and takes the components' own fast rules.

    Args:
      decompose: object x -> `Parts`, the same shapes for all objects of a set (padding has weight
        0; what it holds is not read). A pure function, or a Partial with leaves.
      kernels: the d kernels K_c, each a function of two components.

    Raises:
      ValueError: decompose is no function, or there are no kernels. When called: another number
        of components than kernels, or weights that are not [r].
    """
    if not callable(decompose):
        raise ValueError(
            f"decompose: got {type(decompose).__name__}, expected a function from x to Parts"
        )
    kernels = as_kernels(kernels, ", one a component")
    return Partial(convolution_kernel, as_kernel(decompose), kernels)


def decomposed(decompose: Callable, kernels: tuple, x: PyTree) -> Parts:
    """Returns decompose(x), checked against the number of kernels, zeros in the padding."""
    parts = decompose(x)
    check_record("decompose(x)", parts, Parts, "jaxstruct.kernels.Parts")
    if len(parts.components) != len(kernels):
        raise ValueError(
            f"decompose(x): got {len(parts.components)} components, expected {len(kernels)}, one "
            "for each kernel"
        )
    shape = np.shape(parts.weights)
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(parts.components)}
    if len(shape) != 1 or sizes - {shape}:
        raise ValueError(
            f"decompose(x): got weights of shape {shape} and components of leading axes "
            f"{sorted(sizes)}, expected [r] for all"
        )
    real = jnp.asarray(parts.weights) != 0

    def kept(leaf: Array) -> Array:
        leaf = jnp.asarray(leaf)
        return jnp.where(real.reshape(shape + (1,) * (leaf.ndim - 1)), leaf, jnp.zeros_like(leaf))

    return parts._replace(components=jax.tree.map(kept, tuple(parts.components)))


def weighted_by(own: Array, values: Array, other: Array) -> Array:
    """Returns sum_rs own_r values[r, s] other_s, where a weight of 0 leaves its values unread."""
    own, other = (jnp.asarray(w, values.dtype) for w in (own, other))
    weights = own[:, None] * other[None, :]
    return jnp.sum(jnp.where(weights != 0, weights * values, 0))


def equality_kernel(x: PyTree, z: PyTree) -> Array:
    """Returns K(x, x') = [x = x']: what `equality()` wraps."""
    same = [
        jnp.all(jnp.asarray(a) == jnp.asarray(b))
        for a, b in zip(*map(jax.tree.leaves, (x, z)), strict=True)
    ]
    return jnp.all(jnp.stack(same)).astype(jnp.result_type(float))


def equality() -> Partial:
    """Makes K(x, x') = 1 where x = x', all entries of all leaves, else 0 (thesis 4.12's delta)."""
    return Partial(equality_kernel)


def windows_of(length: Static[int], x: Strings) -> Parts:
    """The windows of k letters of one string; none past its end."""
    check_strings("x", x, "")
    k, letters = length.value, marked_letters(x, -1)
    letters = jnp.pad(letters, (0, max(k - letters.shape[0], 0)), constant_values=-1)
    count = letters.shape[0] - k + 1
    components = tuple(letters[c : c + count] for c in range(k))
    whole = jnp.all(jnp.stack(components) >= 0, axis=0)
    return Parts(components, whole.astype(jnp.int32))


def windows(length: int) -> Partial:
    """Makes the decomposition of `Strings` into its windows of k = length letters.

    A window has k components, one letter each: with `equality()` for every one the convolution
    kernel is `spectrum(k)`; with `precomputed(S)` letters that are alike count in part.
    """
    return Partial(windows_of, Static(checked_size("length", length)))
