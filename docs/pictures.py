"""The pictures of the site's first page, one an output type; that of the README; thumbnails.

    python docs/pictures.py
    python docs/pictures.py classes graphs
    python docs/pictures.py gallery results

trains the machines of all output types, or of some, keeps what they predict in docs/pictures.json,
and draws docs/front_picture.png. The build of the site draws the others from what is kept: all
trainings take 50 processor seconds, the drawing two. The data are scikit-learn's digits, or drawn
from seeds. The third line makes thumbnails of the gallery from pictures in a folder of results.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import jaxstruct as js
from jaxstruct.data.digits import load_digit_words, load_digits_split

HERE = pathlib.Path(__file__).parent
KEPT = HERE / "pictures.json"
RIGHT, WRONG, LINES = "#0072b2", "#d55e00", "#9a9a9a"
"""Colour-blind readers can distinguish these (Okabe and Ito, 2008); what is wrong is bold."""
SIZE, STYLE = (4.0, 2.5), {"font.size": 9, "figure.constrained_layout.use": True}


def _show(axes: Any, image: np.ndarray, **options: Any) -> None:
    """A digit in its place."""
    axes.imshow(np.reshape(image, (8, 8)), **({"cmap": "gray_r"} | options))
    axes.set_axis_off()


def _mark(right: bool) -> dict[str, Any]:
    return {"color": RIGHT} if right else {"color": WRONG, "weight": "bold"}


def train_classes() -> dict[str, Any]:
    """A machine of 100 digits, and what it takes 12 others for."""
    digits = load_digits_split()
    machine = js.estimators.StructuralClassifier(C=100).fit(
        digits.train_x[:100], digits.train_y[:100]
    )
    return {"read": machine.predict(digits.test_x[:12]).tolist()}


def draw_classes(figure: Figure, read: list[int]) -> None:
    """Images, and above each what it is taken for."""
    digits = load_digits_split()
    for axes, image, true, found in zip(
        figure.subplots(2, 6).flat, digits.test_x, digits.test_y, read, strict=False
    ):
        _show(axes, image)
        said = str(found) if found == true else f"{found}, not {true}"
        axes.set_title(said, fontsize=9, **_mark(found == true))


PROPERTIES = {"even": (0, 2, 4, 6, 8), "above 4": (5, 6, 7, 8, 9), "with a hole": (0, 6, 8, 9),
              "prime": (2, 3, 5, 7)}  # fmt: skip


def _sets(digits: np.ndarray) -> np.ndarray:
    return np.stack([np.isin(digits, members) for members in PROPERTIES.values()], axis=1).astype(
        int
    )


def train_sets() -> dict[str, Any]:
    """A machine of 300 digits' properties, and those it predicts of 10 others."""
    digits = load_digits_split()
    machine = js.estimators.MultiLabelClassifier(C=100)
    machine.fit(digits.train_x[:300], _sets(digits.train_y[:300]))
    return {"read": machine.predict(digits.test_x[:10]).tolist()}


def draw_sets(figure: Figure, read: list[list[int]]) -> None:
    """A column an image, a row a label: predicted ones are filled, true ones are framed."""
    digits = load_digits_split()
    true = _sets(digits.test_y[: len(read)])
    grid = figure.add_gridspec(2, len(read), height_ratios=(1, len(PROPERTIES)))
    for i, image in enumerate(digits.test_x[: len(read)]):
        _show(figure.add_subplot(grid[0, i]), image)
    axes = figure.add_subplot(grid[1, :])
    for (i, j), predicted in np.ndenumerate(np.array(read)):
        colour = RIGHT if predicted == true[i, j] else WRONG
        if predicted or true[i, j]:
            axes.scatter(i, j, 110, color=colour if predicted else "white", edgecolor=colour,
                         marker="o" if colour == RIGHT else "X", linewidth=1.5)  # fmt: skip
    axes.set(xlim=(-0.5, len(read) - 0.5), ylim=(len(PROPERTIES) - 0.4, -0.6), xticks=[])
    axes.set_yticks(range(len(PROPERTIES)), PROPERTIES)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


SHAPES = {"round": "0689", "mixed": "235", "straight": "147"}


def train_taxonomies() -> dict[str, Any]:
    """A machine of 500 digits with three groups above them, and its weights, a row a node."""
    digits = load_digits_split()
    above = {digit: [shape] for shape, members in SHAPES.items() for digit in members}
    machine = js.estimators.TaxonomyClassifier(above, C=100)
    machine.fit(digits.train_x[:500], digits.train_y[:500].astype(str))
    weights = np.asarray(machine.weights_["weights"], float)[:64].T.round(2).tolist()
    return {"weights": dict(zip(machine.taxonomy_.names, weights, strict=True))}


def draw_taxonomies(figure: Figure, weights: dict[str, list[float]]) -> None:
    """The tree; at each node the weights of its pixels."""
    axes = figure.add_subplot()
    axes.set(xlim=(-0.6, 9.6), ylim=(-0.7, 4.6), aspect="equal")
    axes.set_axis_off()
    place = 0.0
    for shape, members in SHAPES.items():
        leaves = np.arange(len(members)) + place
        middle, place = leaves.mean(), leaves[-1] + 1
        axes.plot([4.5, middle], [4.5, 3.3], color=LINES, zorder=0)
        for name, x, y in [(shape, middle, 2.5), *zip(members, leaves, itertools.repeat(0.4))]:
            half = 0.8 if name == shape else 0.46
            axes.imshow(np.reshape(weights[name], (8, 8)), cmap="PuOr", vmin=-0.7, vmax=0.7,
                        extent=(x - half, x + half, y - half, y + half))  # fmt: skip
            axes.text(
                x + (half + 0.1) * (name == shape),
                y if name == shape else -0.15,
                name,
                ha="left" if name == shape else "center",
                va="center" if name == shape else "top",
            )
            if name != shape:
                axes.plot([middle, x], [1.7, 0.86], color=LINES, zorder=0)


def _words() -> tuple[tuple[list, list], tuple[list, list]]:
    """((images, digits) of each word to train on, those of words to test on)."""
    cut = []
    for words in load_digit_words(30, 80):
        ends = list(itertools.pairwise(words.offsets))
        cut.append(([words.pixels[a:b] for a, b in ends], [words.labels[a:b] for a, b in ends]))
    return tuple(cut)


def train_sequences() -> dict[str, Any]:
    """Numbers of noisy digits, read digit by digit and by a chain: the first three long ones."""
    (X, y), (test, true) = _words()
    alone = js.estimators.StructuralClassifier(C=100).fit(np.concatenate(X), np.concatenate(y))
    chain = js.estimators.SequenceLabeller(C=30).fit(X, [word.tolist() for word in y])
    read = {"alone": [alone.predict(word).tolist() for word in test], "chain": chain.predict(test)}
    wrong = {
        name: float(np.mean(np.concatenate(words) != np.concatenate(true)))
        for name, words in read.items()
    }
    long = [i for i, word in enumerate(test) if len(word) == 8][:3]
    return {name: [words[i] for i in long] for name, words in read.items()} | {"wrong": wrong}


def draw_sequences(
    figure: Figure, alone: list[list[int]], chain: list[list[int]], wrong: dict[str, float]
) -> None:
    """Images of a number, and below them both readings."""
    _, (test, truth) = _words()
    chosen = [i for i, word in enumerate(test) if len(word) == 8][: len(chain)]
    for axes, i, *readings in zip(figure.subplots(len(chain)), chosen, alone, chain, strict=True):
        axes.imshow(np.hstack(np.reshape(test[i], (-1, 8, 8))), cmap="gray_r")
        axes.set(ylim=(17, -0.5), xlim=(-18, 64))
        axes.set_axis_off()
        for y, name, read in zip((10.5, 15.5), ("digit by digit", "chain"), readings, strict=True):
            axes.text(-1.5, y, name, ha="right", va="center")
            for t, found in enumerate(read):
                axes.text(
                    8 * t + 3.5, y, found, ha="center", va="center", **_mark(found == truth[i][t])
                )


NOUNS, VERBS, PREPOSITIONS = (
    "dog cat man town park".split(),
    "sees finds".split(),
    ("in", "with", "of"),
)


def _treebank(random: np.random.Generator, number: int) -> list[str]:
    """Sentences in which "of" belongs to the noun before it, "in" and "with" to the verb."""

    def noun() -> str:
        return f"(NP (DT the) (NN {random.choice(NOUNS)}))"

    trees = []
    for _ in range(number):
        kind, seen, part = random.choice(PREPOSITIONS), noun(), noun()
        prepositional = f"(PP (IN {kind}) {part})"
        rest = f"(NP {seen} {prepositional})" if kind == "of" else f"{seen} {prepositional}"
        trees.append(f"(S {noun()} (VP (VBZ {random.choice(VERBS)}) {rest}))")
    return trees


def train_trees() -> dict[str, Any]:
    """A grammar of 30 trees, and the tree of another sentence."""
    trees = _treebank(np.random.default_rng(0), 30)
    parser = js.estimators.TreeParser(C=30, read_words=True).fit(trees, trees)
    (found,) = parser.predict(["the man sees the dog in the park".split()])
    return {"tree": js.trees.write_line(found)}


def draw_trees(figure: Figure, tree: str) -> None:
    """The words at the foot, each constituent above its parts."""
    axes, words = figure.add_subplot(), itertools.count()

    def place(node: js.trees.Tree) -> tuple[float, float]:
        """Draw what is below a node, then the node; where it stands."""
        if node.word is not None:
            x, y = next(words), 1.0
            axes.text(x, 0, node.word, ha="center", va="center", style="italic")
            parts = [(x, 0.25)]
        else:
            parts = [place(child) for child in node.children]
            x, y = np.mean([parts[0][0], parts[-1][0]]), 1 + max(height for _, height in parts)
        for below in parts:
            axes.plot([x, below[0]], [y, below[1]], color=LINES, zorder=0)
        axes.text(x, y, node.label, ha="center", va="center", color=RIGHT,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
        return x, y

    _, top = place(js.trees.read_tree(tree))
    axes.set(xlim=(-0.5, next(words) - 0.5), ylim=(-0.4, top + 0.4))
    axes.set_axis_off()


LETTERS = "ACGT"


def _aligned(random: np.random.Generator, number: int) -> list[tuple[str, str]]:
    """Pairs of rows: A and G change into one another, so do C and T; a run falls out."""
    partner = dict(zip("ACGT", "GTAC", strict=True))
    pairs = []
    for _ in range(number):
        first = random.choice(list(LETTERS), 14)
        second = [partner[a] if random.random() < 0.3 else a for a in first]
        begin, length = random.integers(2, 10), random.integers(1, 4)
        second[begin : begin + length] = "-" * length
        pairs.append(("".join(first), "".join(second)))
    return pairs


def train_alignments() -> dict[str, Any]:
    """Costs of 40 pairs, and how another pair is aligned."""
    *train, (first, second) = _aligned(np.random.default_rng(4), 41)
    aligner = js.estimators.PairAligner(C=40, letters=LETTERS).fit(train, train)
    (rows,) = aligner.predict([(first.replace("-", ""), second.replace("-", ""))])
    return {"rows": rows, "substitutions": _substitutions(aligner)}


def _substitutions(aligner: Any) -> list[list[float]]:
    return np.asarray(aligner.weights_["substitution"], float).round(2).tolist()


def draw_alignments(figure: Figure, rows: list[str], substitutions: list[list[float]]) -> None:
    """The learned score of each pair of letters, and the path of the best alignment."""
    axes = figure.add_subplot()
    first, second = (row.replace("-", "") for row in rows)
    table = np.array(substitutions)
    scores = [[table[LETTERS.index(a), LETTERS.index(b)] for b in first] for a in second]
    axes.imshow(scores, cmap="PuOr", vmin=-abs(table).max(), vmax=abs(table).max(), aspect="auto")
    steps = np.cumsum([[a != "-", b != "-"] for a, b in zip(*rows, strict=True)], axis=0)
    path = np.vstack([[-0.5, -0.5], steps - 0.5])
    axes.plot(*path.T, color="white", linewidth=5)
    axes.plot(*path.T, color="black", linewidth=2)
    axes.set_xticks(range(len(first)), first)
    axes.set_yticks(range(len(second)), second)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)


LANDS = ("field", "water", "wood", "town")
COLOURS = ListedColormap(["#f0e442", "#0072b2", "#009e73", "#d55e00"])
GRID, GRIDS = 28, 4
"""Cells a side, and grids to train on."""


def _landscapes(size: int, number: int) -> list[tuple[tuple, np.ndarray]]:
    """Of each ((features [size^2, 4] of noisy cells, edges), labels): of the nearest centre."""
    random, edges = np.random.default_rng(2), np.concatenate(js.graphs.grid_edges(size, size))
    cells = np.stack(np.meshgrid(np.arange(size), np.arange(size)), axis=-1).reshape(-1, 2)
    found = []
    for _ in range(number):
        centres = random.uniform(0, size, (size // 2, 2))
        nearest = np.argmin(((cells[:, None] - centres) ** 2).sum(axis=-1), axis=1)
        labels = random.integers(0, len(LANDS), len(centres))[nearest]
        seen = np.eye(len(LANDS))[labels] + random.normal(size=(size**2, len(LANDS)))
        found.append(((seen, edges), labels))
    return found


def train_graphs(size: int = GRID, trained: int = GRIDS) -> dict[str, Any]:
    """One more noisy grid than those to train on, read cell by cell and under the graph."""
    grids, true = zip(*_landscapes(size, trained + 1), strict=True)
    named = [[LANDS[i] for i in labels] for labels in true]
    labeller = js.estimators.GraphLabeller(C=1.0, symmetric=True, tol=0.03)
    labeller.fit(grids[:-1], named[:-1])
    numbers = [LANDS.index(name) for name in labeller.predict(grids[-1:])[0]]
    wrong = {"alone": float(np.mean(grids[-1][0].argmax(axis=1) != true[-1])),
             "graph": float(np.mean(numbers != true[-1]))}  # fmt: skip
    return {"graph": "".join(map(str, numbers)), "wrong": wrong}


def draw_graphs(figure: Figure, graph: str, wrong: dict[str, float], truth: bool = False) -> None:
    """The grid cell by cell and under the graph, on the left the truth if asked for."""
    size = round(len(graph) ** 0.5)
    (seen, _), true = _landscapes(size, GRIDS + 1)[-1]
    panels = {
        "the truth": true,
        f"cell by cell:\n{wrong['alone']:.0%} wrong": seen.argmax(axis=1),
        f"under the graph:\n{wrong['graph']:.0%} wrong": np.array([*map(int, graph)]),
    }
    shown = list(panels.items())[0 if truth else 1 :]
    for axes, (name, cells) in zip(figure.subplots(1, len(shown)), shown, strict=True):
        axes.imshow(cells.reshape(size, size), cmap=COLOURS, vmin=0, vmax=len(LANDS) - 1)
        axes.set_title(name.replace("\n", " ") if truth else name, fontsize=12 if truth else 9)
        axes.set_axis_off()


LEXICON = "their there three receive recipe believe relieve weird wired ceiling".split()
MISSPELT = {"thier": "their", "ther": "there", "thre": "three", "recieve": "receive",
            "receipe": "recipe", "beleive": "believe", "releive": "relieve", "wierd": "weird",
            "wird": "wired", "cieling": "ceiling"}  # fmt: skip


def _candidates(word: str) -> dict[str, dict[str, float]]:
    """Words of the lexicon, and what each has in common with a misspelt one."""

    def pairs(text: str) -> set[str]:
        return {a + b for a, b in itertools.pairwise(f"^{text}$")}

    own = pairs(word)
    return {
        known: {
            "shared pairs": len(own & pairs(known)),
            "lost pairs": len(pairs(known) - own),
            "letters alike": sorted(word) == sorted(known),
            "longer": abs(len(known) - len(word)),
        }
        for known in LEXICON
    }


def train_strings() -> dict[str, Any]:
    """Weights of what words have in common, and the five best candidates of a new one."""
    data = js.strings.prepare([_candidates(word) for word in MISSPELT], list(MISSPELT.values()))
    model = js.trained(data, js.fit(*data, "svm1_margin", C=10.0))
    lists = [_candidates("theer")]
    best = js.confidence.k_best(*model.on(lists), k=5)
    names = [model.decode(output, lists)[0] for output in best.outputs]
    return {
        "word": "theer",
        "scores": dict(zip(names, best.scores[0].astype(float).round(2).tolist(), strict=True)),
    }


def draw_strings(figure: Figure, word: str, scores: dict[str, float]) -> None:
    """A bar a candidate, the best one on top."""
    axes = figure.add_subplot()
    lowest = min(scores.values())
    colours = [RIGHT, *[LINES] * (len(scores) - 1)]
    axes.barh(
        range(len(scores)), [score - lowest + 0.2 for score in scores.values()], color=colours
    )
    axes.set_yticks(range(len(scores)), scores)
    axes.invert_yaxis()
    axes.set(xticks=[], xlabel="score F(x, y; w)", title=f"x = {word!r}")
    axes.tick_params(length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def train_own() -> dict[str, Any]:
    """The page on matching: of its first input the scores of all pairs, and the best matching."""
    page = (HERE / "tasks" / "permutations.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"print": lambda *_: None}
    exec(re.findall(r"```python\n(.*?)```", page, flags=re.S)[0], names)  # noqa: S102
    x, weights = names["x"][0], names["solution"].weights
    scores = names["potentials"](weights, x)
    return {
        "scores": np.asarray(scores, float).round(2).tolist(),
        "matching": np.asarray(names["decode"](scores)).tolist(),
    }


def draw_own(figure: Figure, scores: list[list[float]], matching: list[int]) -> None:
    """The score of each pair, and which pairs are matched."""
    axes, largest = figure.add_subplot(), np.abs(scores).max()
    axes.imshow(scores, cmap="PuOr", vmin=-largest, vmax=largest)
    axes.scatter(matching, range(len(matching)), 90, facecolor="white", edgecolor="black")
    axes.set(xticks=[], yticks=[], xlabel="points of one set", ylabel="points of the other")
    axes.spines[:].set_visible(False)


PICTURES: dict[str, tuple[Callable[[], dict[str, Any]], Callable[..., None]]] = {
    "classes": (train_classes, draw_classes),
    "sets": (train_sets, draw_sets),
    "taxonomies": (train_taxonomies, draw_taxonomies),
    "sequences": (train_sequences, draw_sequences),
    "trees": (train_trees, draw_trees),
    "alignments": (train_alignments, draw_alignments),
    "graphs": (train_graphs, draw_graphs),
    "strings": (train_strings, draw_strings),
    "own": (train_own, draw_own),
}
"""Of each output type what trains its machine, and what draws its predictions."""


def draw_all(folder: pathlib.Path) -> None:
    """A picture an output type, folder/NAME.png, of what docs/pictures.json keeps."""
    folder.mkdir(exist_ok=True)
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    for name, (_, draw) in PICTURES.items():
        _save(folder / f"{name}.png", draw, SIZE, **kept[name])


def _save(path: pathlib.Path, draw: Callable[..., None], size: tuple, **kept: Any) -> None:
    with rc_context(STYLE):
        figure = Figure(size)
        draw(figure, **kept)
        figure.savefig(path, dpi=160, pil_kwargs={"optimize": True})


def shrink(results: pathlib.Path) -> None:
    """Pictures of experiments as thumbnails of the gallery: those of them that it shows."""
    from PIL import Image

    page = (HERE / "gallery.md").read_text(encoding="utf-8")
    for name in re.findall(r"^:img-top: gallery/(.+)$", page, flags=re.M):
        if (results / name).exists():
            image = Image.open(results / name).convert("RGB")
            image.thumbnail((640, 640))
            image.quantize(128).save(HERE / "gallery" / name, optimize=True)


def main(names: list[str]) -> None:
    """Train these output types, all if there is none; keep what they predict; README's picture."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    kept |= {name: PICTURES[name][0]() for name in names or PICTURES}
    lines = (f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in PICTURES if name in kept)
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    if "graphs" in kept:
        _save(HERE / "front_picture.png", draw_graphs, (9, 3.4), truth=True, **kept["graphs"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["gallery"]:
        shrink(pathlib.Path(sys.argv[2]))
    else:
        main(sys.argv[1:])
