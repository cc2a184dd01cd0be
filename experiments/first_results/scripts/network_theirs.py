"""The same network under a chain written by hand, with optax."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.first_results.data import digit_words

train, test = digit_words()


def batch(words):
    longest = np.diff(words.offsets).max()
    x = np.zeros((len(words.offsets) - 1, longest, 64), np.float32)
    y = np.full(x.shape[:2], -1)
    for i, (begin, end) in enumerate(itertools.pairwise(words.offsets)):
        x[i, : end - begin], y[i, : end - begin] = words.pixels[begin:end], words.labels[begin:end]
    return x, y


def emissions_of(p, x):
    return jax.nn.relu(x @ p["network"]) @ p["emissions"]


def log_loss(p, x, y):
    emissions, real, labels = emissions_of(p, x), y >= 0, jnp.maximum(y, 0)
    own = jnp.take_along_axis(emissions, labels[:, None], axis=1)[:, 0]
    pairs = p["transitions"][labels[:-1], labels[1:]]
    score = jnp.sum(jnp.where(real, own, 0)) + jnp.sum(jnp.where(real[1:], pairs, 0))

    def step(sums, token):
        emission, is_real = token
        new = jax.nn.logsumexp(sums[:, None] + p["transitions"], axis=0) + emission
        return jnp.where(is_real, new, sums), None

    sums, _ = jax.lax.scan(step, emissions[0], (emissions[1:], real[1:]))
    return jax.nn.logsumexp(sums) - score


def viterbi(p, x, y):
    emissions = emissions_of(p, x)

    def step(best, token):
        emission, is_real = token
        scores = best[:, None] + p["transitions"]
        new = jnp.where(is_real, jnp.max(scores, axis=0) + emission, best)
        return new, jnp.where(is_real, jnp.argmax(scores, axis=0), jnp.arange(10))

    best, before = jax.lax.scan(step, emissions[0], (emissions[1:], y[1:] >= 0))
    first, later = jax.lax.scan(
        lambda label, back: (back[label], label), jnp.argmax(best), before, reverse=True
    )
    return jnp.concatenate([first[None], later])


def objective(p, x, y):
    return jnp.mean(jax.vmap(log_loss, (None, 0, 0))(p, x, y))


p = {
    "network": jax.random.normal(jax.random.key(0), (64, 64)) / 8,
    "emissions": jnp.zeros((64, 10)),
    "transitions": jnp.zeros((10, 10)),
}
optimiser, slopes = optax.adam(0.01), jax.jit(jax.grad(objective))
state, (x, y) = optimiser.init(p), batch(train)
for _ in range(100):
    change, state = optimiser.update(slopes(p, x, y), state, p)
    p = optax.apply_updates(p, change)
x, y = batch(test)
found = np.asarray(jax.jit(jax.vmap(viterbi, (None, 0, 0)))(p, x, y))
print(np.mean(found[y >= 0] == y[y >= 0]))
