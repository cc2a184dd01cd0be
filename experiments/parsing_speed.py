"""Oracles of trees: time a sentence of CKY, of its levels, of the k best trees and of marginals.

    python -m experiments.parsing_speed

One batch of sentences of one length with random potentials under a random grammar, whose rules are
spread over the symbols as unevenly as in a treebank (--even: alike). Programs of one size take
turns, so that their ratios hold on a machine with other work; compiling is timed apart. For one
core, pin the process (on Linux: taskset -c 0).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.lib import common, fields
from experiments.lib.options import flag, size_reader
from experiments.lib.report import rows_table
from experiments.lib.timing import Compiled, compile_ahead
from jaxstruct.core.types import PyTree
from jaxstruct.trees.losses import true_symbols
from jaxstruct.trees.oracles.chart_levels import LevelSizes, NodeCounts, capped_sizes, inner_sizes
from jaxstruct.trees.oracles.cky import cky, cky_score
from jaxstruct.trees.oracles.inside_outside import log_partition, rule_marginals
from jaxstruct.trees.oracles.k_best_trees import k_best_trees
from jaxstruct.trees.oracles.tree_levels import best_of_tree_levels
from jaxstruct.trees.parts import GrammarTables
from jaxstruct.trees.potentials import GrammarRules, TreePotentials

AXES = TreePotentials._make((0, None, None, None))  # vmap over lexical scores alone
COLUMNS = {
    "oracle": "oracle", "symbols": "symbols", "rules": "rules", "tokens": "tokens",
    "most rules of a symbol": "most", ("us a sentence", "least"): "least",
    ("us a sentence", "median"): "median", ("us a sentence", "processor"): "processor",
    "compile s": "compile_seconds", "KiB a sentence": "kibibytes",
}  # fmt: skip
ORACLES = ("score", "tree", "zero-one", "matched", "pairs", "2-best", "log Z", "marginals")


def _size(text: str) -> tuple[int, ...]:
    symbols, rules, tokens = size_reader("symbols x rules x tokens", "60x2000x10")(text)
    if rules > symbols**3 or tokens < 2:
        raise ValueError(f"got {text!r}, expected rules <= symbols^3 and tokens >= 2")
    return symbols, rules, tokens


class Options(fields.Common):
    """The flags of this command."""

    sizes: Sequence[str] = flag(
        ("60x2000x10", "60x2000x15", "60x2000x20"),
        "symbols x rules x tokens of a sentence.",
        each=_size,
        some=True,
    )
    oracles: Sequence[str] = flag(
        ORACLES,
        "Which: score and tree of CKY; the best tree that is not the true one (zero-one), of "
        "all numbers of matched nodes (matched), of matched and predicted nodes (pairs), "
        "each with the best level traced back; the two best trees; log Z; marginals.",
        ORACLES,
    )
    batch: int = flag(128, "Sentences in one call.", least=1)
    even: bool = flag(False, "Give every symbol as many rules.")
    repeats: int = flag(10, "Timed calls of each program, at most.", least=1)
    seconds: float = flag(20.0, "Seconds to time a program for, at most.", least=0)
    compilation_cache: bool = False


class Program(NamedTuple):
    """One compiled oracle for a batch."""

    oracle: str
    compiled: Compiled


def run(options: Options) -> common.Outcome:
    """Time all programs, print the table and write it."""
    dtype = common.prepare(options)
    groups = (_measure(options, dtype, text) for text in options.sizes)
    rows = common.finished_rows(options, groups)
    notes = [
        f"Batch of {options.batch}, {dtype}, at most {options.repeats} calls. KiB: temporary "
        "memory of the compiled program."
    ]
    table = rows_table("Oracles of trees: speed", COLUMNS, rows, notes)
    return common.save(options, table, {"rows": rows})


def _grammar(random: np.random.Generator, symbols: int, rules: int, even: bool) -> GrammarRules:
    weights = np.arange(1, symbols + 1) ** (0.0 if even else -1.2)
    found: set[int] = set()
    while len(found) < rules:
        parents = random.choice(symbols, rules, p=weights / weights.sum())
        children = random.integers(0, symbols**2, rules)
        found |= set((parents * symbols**2 + children).tolist()[: rules - len(found)])
    numbers = np.array(sorted(found))
    table = (numbers // symbols**2, numbers // symbols % symbols, numbers % symbols)
    return GrammarRules(*(jnp.asarray(leaf, jnp.int32) for leaf in table))


def _data(options: Options, dtype: str, size: tuple[int, ...]) -> tuple[PyTree, ...]:
    """Rules, potentials, lengths, and the nodes [N, T, T, S] of trees that are taken for true."""
    symbols, rules, tokens = size
    random = np.random.default_rng([options.seed, *size])
    grammar = _grammar(random, symbols, rules, options.even)

    def drawn() -> TreePotentials:
        shapes = (options.batch, tokens, symbols), (rules,), (symbols,)
        return TreePotentials(*(jnp.asarray(random.normal(size=shape), dtype) for shape in shapes))

    length = jnp.full(options.batch, tokens, jnp.int32)
    other = jax.jit(jax.vmap(cky, (None, AXES, 0)))(grammar, drawn(), length).tree
    true = jax.vmap(partial(true_symbols, GrammarTables(grammar, None, None)))(other)
    return grammar, drawn(), length, true[..., None] == jnp.arange(symbols)[None, None, None]


def _of_levels(sizes: LevelSizes, misses: bool, *data: PyTree) -> PyTree:
    """The best tree over levels: without the first of misses, else of all with slopes of 1."""
    rules, potentials, length, spans = data
    tokens, symbols = potentials.lexical.shape[1:]
    inner = spans & ~jnp.eye(tokens, dtype=bool)[None, :, :, None]
    matched = (~spans if misses else inner).astype(jnp.int8)
    predicted = None if sizes.predicted is None else jnp.arange(symbols, dtype=jnp.int8) % 2
    if predicted is not None:
        matched = jnp.minimum(matched, predicted[None, None, None])
    shape = sizes.matched[-1:]
    if sizes.predicted is not None:
        shape = (sizes.predicted[-1], sizes.matched[-1])
    offsets = jnp.where((jnp.arange(shape[-1]) == 0) & misses, -jnp.inf, 0)
    offsets = jnp.broadcast_to(offsets, shape)

    def one(potentials: TreePotentials, length: PyTree, matched: PyTree) -> PyTree:
        counts, slopes = NodeCounts(matched, predicted), jnp.ones(shape)
        return best_of_tree_levels(rules, potentials, counts, length, sizes, offsets, slopes)

    return jax.vmap(one, (AXES, 0, 0))(potentials, length, matched)


def _of_sentences(oracle: Callable, *data: PyTree) -> PyTree:
    return jax.vmap(oracle, (None, AXES, 0))(*data[:3])


def _oracle(name: str, tokens: int) -> Callable:
    every = tuple(range(1, tokens + 1))
    return {
        "score": partial(_of_sentences, cky_score),
        "tree": partial(_of_sentences, cky),
        "zero-one": partial(_of_levels, capped_sizes(tokens, 1), True),
        "matched": partial(_of_levels, inner_sizes(tokens), False),
        "pairs": partial(_of_levels, LevelSizes(every, every), False),
        "2-best": partial(_of_sentences, partial(k_best_trees, k=2)),
        "log Z": partial(_of_sentences, log_partition),
        "marginals": partial(_of_sentences, rule_marginals),
    }[name]


def _measure(options: Options, dtype: str, text: str) -> list[dict[str, Any]]:
    size = symbols, rules, tokens = _size(text)
    data = _data(options, dtype, size)
    programs = [
        Program(name, compile_ahead(_oracle(name, tokens), *data)) for name in options.oracles
    ]
    times: list[list[tuple[float, float]]] = [[] for _ in programs]
    for turn in range(options.repeats + 1):
        for program, found in zip(programs, times, strict=True):
            if turn < 2 or sum(wall for wall, _ in found) < options.seconds:
                found.append(_one_call(program, data))
    scale, most = 1e6 / options.batch, int(np.bincount(data[0].parents).max())
    rows = []
    for program, found in zip(programs, times, strict=True):
        wall, processor = scale * np.array(found[1:]).T  # the first call warms up
        rows.append({
            "oracle": program.oracle, "symbols": symbols, "rules": rules, "tokens": tokens,
            "most": most, "least": wall.min(), "median": float(np.median(wall)),
            "processor": processor.min(), "compile_seconds": program.compiled.seconds,
            "kibibytes": 2**10 * program.compiled.mebibytes / options.batch,
        })  # fmt: skip
    return rows


def _one_call(program: Program, data: tuple) -> tuple[float, float]:
    """(wall, processor) seconds of one call."""
    wall, processor = time.perf_counter(), time.process_time()
    jax.block_until_ready(program.compiled.call(*data))
    return time.perf_counter() - wall, time.process_time() - processor
