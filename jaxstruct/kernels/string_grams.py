"""Kernel matrices of two sets of strings: one string of X against many of Z at a time.

A string kernel `f_kernel(*leaves, x, z)` has a batch-last twin `f_against(*leaves, x [T], z [S, B])
-> [B]`. Its state, a few rows of [S, B], fits a cache; memory beyond the result does not grow with
the number of strings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxstruct.core.types import Array
from jaxstruct.kernels.strings import UNLIKE, Strings, check_strings, marked_letters

LANES = 1024
"""Strings of Z that one string of X meets together."""


def string_gram(against: Callable, kernel: Partial, X: Strings, Z: Strings) -> Array:
    """Returns [K(x_i, z_j)] [n, m]; where Z is X only the upper half is computed.

    Raises:
      ValueError: X or Z is no set of strings.
    """
    check_strings("X", X, "n")
    check_strings("Z", Z, "n")
    if len(X.letters) == 0 or len(Z.letters) == 0:
        return jnp.zeros((len(X.letters), len(Z.letters)))
    return _tiles(Partial(against, *kernel.args), X, Z, Z is X)


@partial(jax.jit, static_argnames="same")
def _tiles(against: Partial, X: Strings, Z: Strings, same: bool) -> Array:
    rows, columns = marked_letters(X, UNLIKE[0]), marked_letters(Z, UNLIKE[1])
    n, m = len(rows), len(columns)
    lanes = min(LANES, m)
    count = -(-m // lanes)
    columns = jnp.pad(columns, ((0, count * lanes - m), (0, 0)), constant_values=UNLIKE[1])
    columns = columns.reshape(count, lanes, -1).transpose(0, 2, 1)  # [count, S, lanes]
    i, c = np.indices((n, count)).reshape(2, -1)
    if same:
        upper = (c + 1) * lanes > i
        i, c = i[upper], c[upper]
    values = jax.lax.map(lambda at: against(rows[at[0]], columns[at[1]]), (i, c))
    gram = jnp.zeros((n, count, lanes), values.dtype).at[i, c].set(values)
    gram = gram.reshape(n, -1)[:, :m]
    return jnp.triu(gram) + jnp.triu(gram, 1).T if same else gram
