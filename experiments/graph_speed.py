"""Inference in graphs: message updates a second, and seconds to a bound, beside other programs.

    taskset -c 1 python -m experiments.graph_speed
    python -m experiments.graph_speed --grids=20x20x3 --batches=1 --bipartite= --relaxed=

Loopy belief propagation with the flooding schedule on grids and on a complete bipartite graph of
two labels, beside PGMax where that is installed: an update is one message of one edge in one of its
two directions, and both send the same ones, which the beliefs at the end show. Tables are shared by
the graphs of a batch, potentials of nodes are their own. Then tree-reweighted message passing on
grids: the time until its bound is near the optimum over the local polytope, beside SciPy's HiGHS.

Programs of one size take turns, so that their ratios hold on a machine with other work; compiling
is timed apart. For one core, pin the process (on Linux: taskset -c 1).
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.lib import common, fields
from experiments.lib.local_polytope import METHODS, local_polytope, relaxed_optimum
from experiments.lib.options import flag, size_reader
from experiments.lib.report import rows_table
from experiments.lib.timing import compile_ahead, in_turns
from jaxstruct.core.types import Array
from jaxstruct.graphs.edge_lists import grid_edges
from jaxstruct.graphs.factors import graph_potentials
from jaxstruct.graphs.oracles.belief_propagation import belief_propagation
from jaxstruct.graphs.oracles.reweighted import reweighted
from jaxstruct.graphs.potentials import GraphPotentials

# PGMax, set up for the graphs of this benchmark.


def installed() -> bool:
    """Whether PGMax, and numba, which it imports, are there."""
    return all(importlib.util.find_spec(name) for name in ("pgmax", "numba"))


def _modules() -> tuple[Any, ...]:
    if not hasattr(jax.lib, "xla_bridge"):  # PGMax 0.6.1 asks it for the platform; jax has moved it
        backend = importlib.import_module("jax.extend.backend")
        bridge = SimpleNamespace(get_backend=backend.get_backend)
        jax.lib.xla_bridge = bridge  # pyright: ignore[reportAttributeAccessIssue]
    return tuple(
        importlib.import_module(f"pgmax.{name}") for name in ("fgraph", "fgroup", "infer", "vgroup")
    )


def peer_beliefs(
    graph: GraphPotentials, kind: str, passes: int, damping: float
) -> Callable[[Array], Array]:
    """(nodes [B, V, S]) -> beliefs [B, V, S] of PGMax after so many passes.

    Args:
      graph: its edges and tables are those of all B graphs. kind: "sum" or "max".
      damping: how much of an old message stays.

    Raises:
      ImportError: PGMax is missing.
    """
    fgraph, fgroup, infer, vgroup = _modules()
    V, S = graph.nodes.shape
    variables = vgroup.NDVarArray(num_states=S, shape=(V,))
    model = fgraph.FactorGraph(variable_groups=[variables])
    ends = [[variables[int(a)], variables[int(b)]] for a, b in np.asarray(graph.edges)]
    tables = fgroup.PairwiseFactorGroup(
        variables_for_factors=ends, log_potential_matrix=np.asarray(graph.pairs)
    )
    model.add_factors(tables)
    inferer = infer.build_inferer(model.bp_state, backend="bp")

    def of_one(nodes: Array) -> Array:
        arrays = inferer.init(evidence_updates={variables: nodes})
        temperature = 1.0 if kind == "sum" else 0.0
        arrays = inferer.run(arrays, num_iters=passes, damping=damping, temperature=temperature)
        return inferer.get_beliefs(arrays)[variables]

    return jax.vmap(of_one)


GRID = size_reader("height x width x labels", "100x100x5")
BIPARTITE = size_reader("nodes x nodes", "100x25")
KINDS = ("max", "sum")
COLUMNS: dict[str | tuple[str, str], str] = {
    "graph": "graph", "labels": "labels", "batch": "batch", "kind": "kind", "program": "program",
    ("ms a pass", "least"): "least", ("ms a pass", "processor"): "processor",
    "million updates a second": "rate", "times PGMax": "ratio", "compile s": "compile_seconds",
    "beliefs differ by": "difference",
}  # fmt: skip
RELAXED_COLUMNS: dict[str | tuple[str, str], str] = {
    "graph": "graph", "labels": "labels", "program": "program", "passes": "passes",
    "seconds": "seconds", "compile s": "compile_seconds", "bound": "bound",
    "above the optimum": "gap", "value": "value",
}  # fmt: skip
LIMIT = 512
"""Passes of message passing, at most, until the bound is near."""


class Options(fields.Common):
    """The flags of this command."""

    grids: Sequence[str] = flag(
        ("100x100x2", "100x100x5"), "height x width x labels for belief propagation.", each=GRID
    )
    batches: Sequence[str] = flag(("1", "64"), "Grids in one call.", each=int, least=1, some=True)
    bipartite: Sequence[str] = flag(
        ("100x25",), "Nodes on both sides of complete bipartite graphs.", each=BIPARTITE
    )
    bipartite_batch: int = flag(100, "Bipartite graphs in one call.", least=1)
    kinds: Sequence[str] = flag(KINDS, "Maxima, sums or both.", KINDS, some=True)
    passes: int = flag(
        100, "Passes of a call; a tenth of them, at least 2, with 32 grids or more.", least=1
    )
    damping: float = flag(
        0.5,
        "Share of the old message that stays in an update; the default is PGMax's.",
        least=0,
        most=0.99,
    )
    coupling: float = flag(0.3, "Standard deviation of the tables in belief propagation.", above=0)
    relaxed: Sequence[str] = flag(("30x30x5",), "height x width x labels for the bound.", each=GRID)
    relaxed_coupling: float = flag(
        0.5, "Standard deviation of the tables of these; above 0.4 mostly not tight.", above=0
    )
    near: float = flag(
        1e-3, "Relative distance to the optimum at which the bound is near enough.", above=0
    )
    peer: bool = flag(True, "Whether to time PGMax, where it is installed.")
    repeats: int = flag(5, "Timed calls of each program.", least=1)
    compilation_cache: bool = False


class Case(NamedTuple):
    """Graphs of one shape: name, the graph with its tables, potentials of nodes [B, V, S]."""

    name: str
    graph: GraphPotentials
    nodes: Array


def run(options: Options) -> common.Outcome:
    """Time all programs, print both tables and write them; the outcome is that of the first."""
    dtype = common.prepare(options)
    groups = (_propagation(options, case) for case in _cases(options, dtype))
    rows = common.finished_rows(options, groups)
    there = "" if installed() else " PGMax is not installed."
    notes = [
        f"Flooding, {dtype}, damping {options.damping:g}, {options.repeats} calls of a batch; the "
        "tables are "
        f"normal with deviation {options.coupling:g}. Updates a second of processor time, "
        f"the least of all calls; all that a call does counts, but for compiling." + there
    ]
    table = rows_table("Loopy belief propagation: speed", COLUMNS, rows, notes)
    outcome = common.save(options, table, {"rows": rows})
    name = "graph_speed_relaxed"
    groups = (_relaxation(options, dtype, *GRID(text)) for text in options.relaxed)
    relaxed = common.finished_rows(options, groups, name=name)
    notes = [
        "Passes are those after which the bound is within "
        f"{options.near:g} of the optimum over the local polytope, or {LIMIT}; seconds are "
        "processor time, the least of all calls. The linear programs are solved once, to the end."
    ]
    table = rows_table("Tree-reweighted bounds: speed", RELAXED_COLUMNS, relaxed, notes)
    second = common.save(options, table, {"rows": relaxed}, name=name)
    numbers = {"rows": rows, "relaxed": relaxed}
    return outcome._replace(numbers=numbers, files=(*outcome.files, *second.files))


def _case(
    options: Options, dtype: str, name: str, edges: np.ndarray, sizes: tuple[int, int, int]
) -> Case:
    """A case of sizes B, V, S."""
    B, V, S = sizes
    random = np.random.default_rng([options.seed, V, len(edges), S])
    pairs = options.coupling * random.normal(size=(len(edges), S, S))
    graph = graph_potentials(np.zeros((V, S)), edges, pairs, dtype=dtype)
    return Case(name, graph, jnp.asarray(random.normal(size=(B, V, S)), dtype))


def _cases(options: Options, dtype: str) -> Iterator[Case]:
    for batch in map(int, options.batches):
        for text in options.grids:
            height, width, S = GRID(text)
            edges = np.concatenate(grid_edges(height, width))
            name = f"grid {height} x {width}"
            yield _case(options, dtype, name, edges, (batch, height * width, S))
    for text in options.bipartite:
        first, second = BIPARTITE(text)
        edges = np.stack(np.divmod(np.arange(first * second), second), axis=1)
        edges[:, 1] += first
        name, sizes = f"bipartite {first} + {second}", (options.bipartite_batch, first + second, 2)
        yield _case(options, dtype, name, edges, sizes)


def _own_beliefs(
    graph: GraphPotentials, kind: str, passes: int, damping: float
) -> Callable[[Array], Array]:
    def of_one(nodes: Array) -> Array:
        # a negative tolerance: no pass is the last one before the time
        run = partial(belief_propagation, kind=kind, passes=passes, tolerance=-1.0, damping=damping)
        return run(graph._replace(nodes=nodes)).nodes

    return jax.vmap(of_one)


def _difference(kind: str, ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference of marginals, or of max-marginals less their largest."""
    theirs = theirs - theirs.max(axis=-1, keepdims=True)
    if kind == "sum":
        theirs = np.exp(theirs)
        theirs = theirs / theirs.sum(axis=-1, keepdims=True)
    return float(np.abs(ours - theirs).max())


def _propagation(options: Options, case: Case) -> Iterator[dict[str, Any]]:
    """A row a kind and program."""
    B, _, S = case.nodes.shape
    passes = options.passes if B < 32 or "grid" not in case.name else max(2, options.passes // 10)
    makers = {"jaxstruct": _own_beliefs}
    if options.peer and installed():
        makers["PGMax"] = peer_beliefs
    for kind in options.kinds:
        programs = [
            compile_ahead(make(case.graph, kind, passes, options.damping), case.nodes)
            for make in makers.values()
        ]
        calls = [partial(each.call, case.nodes) for each in programs]
        ends = [np.asarray(call()) for call in calls]
        wall, processor = in_turns(calls, options.repeats).min(axis=0).T
        for i, name in enumerate(makers):
            yield {
                "graph": case.name, "labels": S, "batch": B, "kind": kind, "program": name,
                "passes": passes, "least": 1e3 * wall[i] / passes,
                "processor": 1e3 * processor[i] / passes,
                "rate": 2 * len(case.graph.edges) * B * passes / processor[i] / 1e6,
                "ratio": processor[-1] / processor[i] if len(makers) > 1 else None,
                "compile_seconds": programs[i].seconds,
                "difference": _difference(kind, ends[0], ends[1]) if i else None,
            }  # fmt: skip


def _relaxation(
    options: Options, dtype: str, height: int, width: int, S: int
) -> Iterator[dict[str, Any]]:
    """A row for message passing, and one for each method of HiGHS."""
    edges, V = np.concatenate(grid_edges(height, width)), height * width
    random = np.random.default_rng([options.seed, V, S])
    pairs = options.relaxed_coupling * random.normal(size=(len(edges), S, S))
    graph = graph_potentials(random.normal(size=(V, S)), edges, pairs, dtype=dtype)
    program = local_polytope(graph)
    found = []
    for method in METHODS:
        start = time.process_time()
        optimum = relaxed_optimum(program, method)
        found.append((method, optimum, time.process_time() - start))
    shared = {"graph": f"grid {height} x {width}", "labels": S}
    yield shared | _bounded(options, graph, found[0][1])
    for method, optimum, seconds in found:
        yield shared | {
            "program": f"SciPy, {method}", "passes": None, "seconds": seconds,
            "compile_seconds": None, "bound": optimum, "gap": 0.0, "value": None,
        }  # fmt: skip


def _bounded(options: Options, graph: GraphPotentials, optimum: float) -> dict[str, Any]:
    """How long message passing takes until its bound is near the optimum."""
    compiled = compile_ahead(reweighted, graph, jnp.int32(1), jnp.asarray(0.0))
    passes, gap, best = 1, np.inf, None
    while passes <= LIMIT:
        best = compiled.call(graph, jnp.int32(passes), jnp.asarray(0.0))
        gap = (float(best.bound) - optimum) / abs(optimum)
        if gap <= options.near:
            break
        passes += max(1, passes // 8)
    call = partial(compiled.call, graph, jnp.int32(min(passes, LIMIT)), jnp.asarray(0.0))
    seconds = in_turns([call], options.repeats)[:, 0, 1].min()
    best = call()
    return {
        "program": "jaxstruct", "passes": int(best.passes), "seconds": float(seconds),
        "compile_seconds": compiled.seconds, "bound": float(best.bound), "gap": gap,
        "value": float(best.value),
    }  # fmt: skip
