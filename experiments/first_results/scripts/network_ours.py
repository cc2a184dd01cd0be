"""A network under a chain by losses as layers."""

import jax
import numpy as np
import optax

import jaxstruct as js
from experiments.first_results.data import digit_words

train, test = digit_words()
problem = js.chains.chain(number_of_features=64, number_of_labels=10)


def batch(words):
    x = js.chains.chain_inputs(js.Ragged(words.pixels, words.offsets))
    return js.losses.padded_batch(problem, x, js.Ragged(words.labels, words.offsets, -1))


def read(p, x):
    return x._replace(features=jax.nn.relu(x.features @ p["network"]))


def objective(p, x, y):
    return js.losses.mean_loss(js.losses.log_loss, problem, p["chain"], read(p, x), y)


network = jax.random.normal(jax.random.key(0), (64, 64)) / 8
p = {"network": network, "chain": problem.initial_weights}
optimiser, slopes = optax.adam(0.01), jax.jit(jax.grad(objective))
state, (x, y) = optimiser.init(p), batch(train)
for _ in range(100):
    change, state = optimiser.update(slopes(p, x, y), state, p)
    p = optax.apply_updates(p, change)
x, y = batch(test)
found = js.predict(problem, p["chain"], read(p, x))
print(np.mean(found[y >= 0] == y[y >= 0]))
