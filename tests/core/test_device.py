"""Arrays that NumPy makes: the values, dtypes and rounding of JAX's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxstruct.core.compiler import SWITCH, to_take_over
from jaxstruct.core.device import on_device, zeros_on_device


@pytest.mark.parametrize("wide", [False, True])
def test_as_jax_would_make_them(wide: bool) -> None:
    """Rounded alike, infinite where the dtype ends, 64 bits only in x64 mode."""
    values = np.array([1 / 3, -1e300, 2.0**-149, np.inf])
    with jax.enable_x64(wide):
        for dtype in ("float32", "float64", None):
            found, own = on_device(values, dtype), dtype if wide else "float32"
            assert isinstance(found, jax.Array)
            assert found.dtype == ("float64" if wide and dtype != "float32" else "float32")
            with np.errstate(over="ignore"):
                expected = values.astype(own or "float64")
            np.testing.assert_array_equal(np.asarray(found), expected)
        assert on_device([[1, 2]], np.int32).dtype == jnp.int32
        zeros = zeros_on_device((2, 3), "float64")
        assert zeros.dtype == ("float64" if wide else "float32") and zeros.shape == (2, 3)
        assert not np.asarray(zeros).any()


@pytest.mark.parametrize("shift", [0, 16])
def test_zeros_that_a_program_takes_over(monkeypatch: pytest.MonkeyPatch, shift: int) -> None:
    """It writes into their buffer, which NumPy has no part in, aligned as XLA wants it or not."""

    def zeros_at(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        room = bytes_of_zeros(4 * shape[0] * shape[1] + 128, np.uint8)
        start = -room.ctypes.data % 64 + shift
        return room[start : start + 4 * shape[0] * shape[1]].view(dtype).reshape(shape)

    bytes_of_zeros = np.zeros
    monkeypatch.setenv(SWITCH, "0")
    monkeypatch.setattr(np, "zeros", zeros_at)
    zeros = to_take_over(np.zeros((64, 64), "float32"))
    monkeypatch.undo()
    place = zeros.unsafe_buffer_pointer()
    ones = jax.jit(lambda leaf: leaf.at[:].add(1), donate_argnums=0)(zeros)
    assert zeros.is_deleted() and ones.unsafe_buffer_pointer() == place
    np.testing.assert_array_equal(ones, 1)
