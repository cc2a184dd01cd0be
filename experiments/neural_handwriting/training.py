"""Training of a network under a chain, and reading with it.

    min over the network, u, v:  mean over words of l(theta, y),
    F(x, y) = sum_t <u_{y^t}, Phi(x^t)> [+ sum_t v_{y^t y^{t+1}} [+ sum_t z_{y^t y^{t+1} y^{t+2}}]]

with Phi of `network` and l a loss of `jaxstruct.losses`, by AdamW with a cosine rate.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxstruct as js
from experiments.corpora.ocr_letters import LETTERS
from experiments.tasks.handwriting import Data, letters_of
from jaxstruct.chains.potentials import ChainInput
from jaxstruct.core.types import AnyArray, Array, PyTree

# A small convolutional network for images of letters: plain functions, parameters as a pytree.
#
#     image [16, 8] -> conv 3 x 3, ReLU, pool 2 -> conv 3 x 3, ReLU, pool 2 -> dense, ReLU -> Phi(x)
#
# Phi(x) are the features of a token of the chain, whose weights are the last layer.

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


LOSSES: dict[str, Callable[..., Array]] = {
    "log_loss": js.losses.log_loss,
    "structured_hinge": js.losses.structured_hinge,
    "smoothed_hinge": js.losses.smoothed_hinge,
    "perceptron": js.losses.perceptron,
    "perturbed": functools.partial(js.losses.perturbed, samples=4),
}
HEADS = ("letters", "chain", "triples")
"""Letters alone, pairs of neighbouring letters, and triples of them."""
WARM = 0.05
"""The part of the steps in which the rate rises."""
READ_WORDS = 128


class Setting(NamedTuple):
    """What a training is made with.

    Fields:
      head: one of `HEADS`. loss: one of `LOSSES`.
      epochs, rate, decay, drop: of AdamW, and the share of units dropped.
      shape, moves: see `network`. batch: words a step.
    """

    head: str
    loss: str
    epochs: int
    rate: float
    decay: float
    drop: float
    shape: Shape
    moves: Moves
    batch: int


class Trained(NamedTuple):
    """A trained network.

    Fields:
      parameters: of the network, and "chain". losses: [epochs] their means a word.
      steps: of AdamW. seconds, processor_seconds: of the training, compiling included.
    """

    parameters: PyTree
    losses: np.ndarray
    steps: int
    seconds: float
    processor_seconds: float


class _Batch(NamedTuple):
    """Some words: their letters in a row, and where each stands.

    Fields:
      letters: [L] numbers of images. places: [B, T] in that row, 0 on padding.
      y: [B, T] labels, -1 on padding. length: [B].
    """

    letters: AnyArray
    places: AnyArray
    y: AnyArray
    length: AnyArray


def head_problem(head: str, features: int) -> js.Problem:
    """The structure over the features; letters alone are a chain whose transitions count 0."""
    options: dict[str, Any] = {
        "letters": dict(eta=0.0),
        "chain": dict(start_stop=True),
        "triples": dict(start_stop=True, order=2),
    }[head]
    return js.chains.chain(features, len(LETTERS), **options)


def _batch(data: Data, chosen: np.ndarray, rows: int, width: int, letters: int) -> _Batch:
    """Words padded to [rows, width], their letters to a row of so many."""
    length = np.zeros(rows, np.int32)
    length[: len(chosen)] = data.lengths[chosen]
    real = np.arange(width) < length[:, None]
    numbers = np.zeros(letters, np.int32)
    own = letters_of(data, chosen)
    numbers[: len(own)] = own
    places, y = np.zeros((rows, width), np.int32), np.full((rows, width), -1, np.int32)
    places[real], y[real] = np.arange(len(own)), data.words.letters[own]
    return _Batch(numbers, places, y, length)


def _theta_inputs(features: Array, places: AnyArray, length: AnyArray) -> ChainInput:
    return ChainInput(features[places], length, None)


def _optimiser(decay: float) -> optax.GradientTransformation:
    """AdamW without its rate, which is handed in step by step; biases do not decay."""

    def decays(parameters: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: leaf.ndim > 1, parameters)

    return optax.chain(optax.scale_by_adam(), optax.add_decayed_weights(decay, decays))


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(3, 4))
def _step(
    setting: Setting, problem: js.Problem, images: Array, parameters: PyTree, state: PyTree,
    batch: _Batch, key: Array, rate: Array,
) -> tuple[PyTree, PyTree, Array]:  # fmt: skip
    """One step of AdamW on a batch of words; also its mean loss."""
    one, two, three = jax.random.split(key, 3)
    seen = moved(one, images[batch.letters], setting.moves)
    noise = {"key": three} if setting.loss == "perturbed" else {}

    def objective(parameters: PyTree) -> Array:
        features = letter_features(parameters["network"], seen, two, setting.drop)
        x = _theta_inputs(features, batch.places, batch.length)
        loss = LOSSES[setting.loss]
        return js.losses.mean_loss(loss, problem, parameters["chain"], x, batch.y, **noise)

    value, gradient = jax.value_and_grad(objective)(parameters)
    change, state = _optimiser(setting.decay).update(gradient, state, parameters)
    change = jax.tree.map(lambda leaf: -rate * leaf, change)
    return optax.apply_updates(parameters, change), state, value


@jax.jit
def _read(problem: js.Problem, images: Array, parameters: PyTree, batch: _Batch) -> Array:
    features = letter_features(parameters["network"], images[batch.letters])
    x = _theta_inputs(features, batch.places, batch.length)
    theta = jax.vmap(problem.model.potentials, (None, 0))(parameters["chain"], x)
    return jax.vmap(problem.model.decode)(theta)


def images_of(data: Data) -> Array:
    """[letters, 16, 8] float32 of all words."""
    return jnp.asarray(data.words.pixels.reshape(-1, HEIGHT, WIDTH), jnp.float32)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _first(shape: Shape, decay: float, problem: js.Problem, key: Array) -> tuple[PyTree, PyTree]:
    """The parameters and the state of AdamW before the first step."""
    one, two = jax.random.split(key)
    weights = dict(problem.initial_weights)
    weights["emissions"] = 0.05 * jax.random.normal(two, weights["emissions"].shape)
    parameters = {"network": first_parameters(one, shape), "chain": weights}
    return parameters, _optimiser(decay).init(parameters)


def _rates(setting: Setting, steps: int) -> np.ndarray:
    """[steps] rising in the first 5 %, then a cosine down to 0."""
    warm = max(1, round(WARM * steps))
    schedule = optax.warmup_cosine_decay_schedule(0.0, setting.rate, warm, max(steps, warm + 1))
    return np.asarray(schedule(np.arange(1, steps + 1)), np.float32)


def train(
    setting: Setting,
    data: Data,
    images: Array,
    chosen: np.ndarray,
    seed: int,
    after_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
) -> Trained:
    """A network trained on some words; the last, incomplete batch of an epoch is left out.

    Args:
      setting: see there. data: all words. images: of `images_of`. chosen: words to train on.
      seed: of the first weights, the order of words, the moves and the drops.
      after_epoch: called after each epoch with its number and its mean loss.
    """
    start, processor = time.perf_counter(), time.process_time()
    problem = head_problem(setting.head, setting.shape.hidden)
    first = jax.random.key(seed)
    parameters, state = _first(setting.shape, setting.decay, problem, first)
    rng, rows = np.random.default_rng(seed), min(setting.batch, len(chosen))
    count = len(chosen) // rows
    rates, key = _rates(setting, setting.epochs * count), jax.random.key(seed + 1)
    width = int(data.lengths.max())
    orders = [rng.permutation(chosen)[: rows * count].reshape(count, rows)
              for _ in range(setting.epochs)]  # fmt: skip
    most = max(int(data.lengths[own].sum()) for order in orders for own in order)
    letters, losses = -(-most // 64) * 64, []
    for epoch, order in enumerate(orders):
        values = []
        for t, own in enumerate(order, epoch * count):
            batch = _batch(data, own, rows, width, letters)
            parameters, state, value = _step(
                setting._replace(epochs=0, rate=0.0), problem, images, parameters, state, batch,
                jax.random.fold_in(key, t), rates[t],
            )  # fmt: skip
            values.append(value)
        losses.append(float(np.mean(values)))
        after_epoch(epoch + 1, losses[-1])
    seconds = time.perf_counter() - start
    return Trained(
        parameters, np.array(losses), len(rates), seconds, time.process_time() - processor
    )


def read(
    setting: Setting, data: Data, images: Array, parameters: PyTree, chosen: np.ndarray
) -> list[np.ndarray]:
    """The letters that a network reads in some words."""
    problem, found = head_problem(setting.head, setting.shape.hidden), []
    width = int(data.lengths.max())
    for first in range(0, len(chosen), READ_WORDS):
        own = chosen[first : first + READ_WORDS]
        letters = -(-int(data.lengths[own].sum()) // 256) * 256
        batch = _batch(data, own, READ_WORDS, width, letters)
        labels = np.asarray(_read(problem, images, parameters, batch))
        found += [row[: data.lengths[i]] for i, row in zip(own, labels, strict=False)]
    return found
