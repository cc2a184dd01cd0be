"""A small convolutional network for images of letters: plain functions, parameters as a pytree.

    image [16, 8] -> conv 3 x 3, ReLU, pool 2 -> conv 3 x 3, ReLU, pool 2 -> dense, ReLU -> Phi(x)

Phi(x) are the features of a token of the chain, whose weights are the last layer.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxstruct.core.types import Array

HEIGHT, WIDTH = 16, 8
Parameters = dict[str, Array]


class Shape(NamedTuple):
    """Channels of the two convolutions, units of the dense layer (features of a letter)."""

    first: int
    second: int
    hidden: int


class Moves(NamedTuple):
    """How training images are moved at random; of each letter anew at every step.

    Fields:
      shift: pixels at most, up or down and left or right. slant: standard deviation of the shear,
        in columns a row; a row's stretch has half of it.
    """

    shift: float
    slant: float


def first_parameters(key: Array, shape: Shape) -> Parameters:
    """Random weights as He et al. (2015) draw them, for ReLUs; biases are 0."""
    inner = HEIGHT // 4 * (WIDTH // 4) * shape.second
    shapes = {
        "first": (3, 3, 1, shape.first),
        "second": (3, 3, shape.first, shape.second),
        "dense": (inner, shape.hidden),
    }
    found: Parameters = {}
    for (name, own), each in zip(shapes.items(), jax.random.split(key, 3), strict=True):
        spread = np.sqrt(2 / np.prod(own[:-1]))
        found[name] = spread * jax.random.normal(each, own)
        found[f"{name}_bias"] = jnp.zeros(own[-1])
    return found


def _convolved(images: Array, kernel: Array, bias: Array) -> Array:
    """[L, h/2, w/2, c] convolution, ReLU and the maximum of every 2 x 2."""
    layout = ("NHWC", "HWIO", "NHWC")
    found = jax.lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=layout)
    found = jax.nn.relu(found + bias[None, None, None])
    L, h, w, c = found.shape
    return jnp.max(found.reshape(L, h // 2, 2, w // 2, 2, c), axis=(2, 4))


def dropped(key: Array | None, values: Array, share: float) -> Array:
    """Values of which a share is 0 and the rest larger by as much; all of them without a key."""
    if key is None or share == 0:
        return values
    kept = jax.random.bernoulli(key, 1 - share, values.shape)
    return jnp.where(kept, values / (1 - share), 0)


def letter_features(
    parameters: Parameters, images: Array, key: Array | None = None, share: float = 0.0
) -> Array:
    """[L, hidden] features of images [L, 16, 8]; with a key, a share of the units is dropped."""
    keys = (None, None) if key is None else jax.random.split(key)
    found = _convolved(images[..., None], parameters["first"], parameters["first_bias"])
    found = _convolved(found, parameters["second"], parameters["second_bias"])
    found = dropped(keys[0], found.reshape(len(images), -1), share)
    found = jax.nn.relu(found @ parameters["dense"] + parameters["dense_bias"][None])
    return dropped(keys[1], found, share)


def moved(key: Array, images: Array, moves: Moves) -> Array:
    """Images [L, 16, 8] sheared, stretched and shifted, each in a way of its own (bilinear)."""
    one, two = jax.random.split(key)
    L = len(images)
    centre = jnp.array([(HEIGHT - 1) / 2, (WIDTH - 1) / 2])
    places = jnp.stack(jnp.meshgrid(jnp.arange(HEIGHT), jnp.arange(WIDTH), indexing="ij"))
    places = places.reshape(2, -1) - centre[:, None]
    spread = moves.slant * jnp.array([[1.0, 0.5], [2.0, 1.0]]) / 2
    turned = jnp.eye(2)[None] + spread[None] * jax.random.normal(one, (L, 2, 2))
    shifts = moves.shift * jax.random.uniform(two, (L, 2, 1), minval=-1, maxval=1)
    sources = jnp.einsum("lij,jp->lip", turned, places) + shifts + centre[None, :, None]

    def of_one(image: Array, at: Array) -> Array:
        return jax.scipy.ndimage.map_coordinates(image, [at[0], at[1]], order=1, cval=0.0)

    return jax.vmap(of_one)(images, sources).reshape(images.shape)
