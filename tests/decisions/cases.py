"""Decision sets with all their decisions, listed by independent code, the preferred one first."""

from __future__ import annotations

import functools
import itertools

import jax
import numpy as np

import jaxstruct as js

ARCS = np.array([[0, 1], [0, 2], [0, 2], [1, 2], [1, 3], [2, 3], [2, 4], [0, 4], [3, 4], [5, 6]])
"""A graph with two arcs side by side, and two nodes apart."""


def paths_between(arcs, source, target):
    """Every path as a vector; of equal ones the preferred first: last arcs of low numbers."""
    found = []

    def walk(node, arcs_taken):
        if node == source:
            found.append(arcs_taken)
            return
        for number, (tail, head) in enumerate(arcs):
            if head == node:
                walk(tail, [*arcs_taken, number])

    walk(target, [])
    vectors = np.zeros((len(found), len(arcs)), np.int32)
    for row, taken in zip(vectors, found, strict=True):
        row[taken] = 1
    return vectors


def loads(sizes, capacity, bounds):
    """Every load as a vector, those that take few of the last items first."""
    ranges = [range(bound + 1) for bound in reversed(bounds)]
    every = np.array(list(itertools.product(*ranges)), np.int32)[:, ::-1]
    return every[every @ np.asarray(sizes) <= capacity]


def choices(n, k):
    every = np.zeros((0, n), np.int32)
    for some in itertools.combinations(range(n), k):
        every = np.vstack([every, np.isin(np.arange(n), some).astype(np.int32)[None]])
    return every


def matchings(rows, columns):
    few, many = sorted((rows, columns))
    every = []
    for places in itertools.permutations(range(many), few):
        table = np.zeros((few, many), np.int32)
        table[np.arange(few), places] = 1
        every.append((table if rows <= columns else table.T).reshape(-1))
    return np.array(every)


@functools.cache
def cases(sense):
    """{name: (the set, its instances of n = 6 examples, all decisions of each example)}."""
    d, sizes, bounds = js.decisions, [2, 3, 0, 4, 1], [1, 2, 1, 3, 2]
    ends = [(0, 4), (0, 3), (1, 4), (2, 2), (0, 2), (5, 6)]
    source, target = np.array(ends).T
    opened = np.ones((6, len(ARCS)), bool)
    opened[0, 7] = opened[4, 1] = False
    paths = [paths_between(ARCS, *each) for each in ends]
    room = np.array([0, 1, 5, 9, 7, 30])
    grid, within = (
        d.grid_paths(3, 4, sense=sense),
        [own[(own <= o).all(axis=1)] for own, o in zip(paths, opened, strict=True)],
    )
    several = d.knapsack(sizes, np.inf, bounds, sense=sense)
    return {
        "grid": (grid, (), [paths_between(d.grid_arcs(3, 4), 0, 11)] * 6),
        "paths": (d.shortest_paths(ARCS, 0, 4, sense=sense), d.Ends(source, target), paths),
        "open": (d.shortest_paths(ARCS, 0, 4, sense=sense), d.Ends(source, target, opened), within),
        "knapsack": (d.knapsack(sizes, 6, sense=sense), (), [loads(sizes, 6, [1] * 5)] * 6),
        "bounded": (several, room, [loads(sizes, r, bounds) for r in room]),
        "top_k": (d.top_k(6, 2, sense=sense), (), [choices(6, 2)] * 6),
        "matchings": (d.matchings(3, 4, sense=sense), (), [matchings(3, 4)] * 6),
        "turned": (d.matchings(4, 3, sense=sense), (), [matchings(4, 3)] * 6),
    }  # fmt: skip


NAMES = tuple(cases("minimise"))


def instance_of(instances, i):
    """That of one example."""
    return jax.tree.map(lambda leaf: leaf[i], instances)
