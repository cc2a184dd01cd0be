"""Messages name arguments that exist: whoever reads `word=` in an error can write it.

Estimators pass on the messages of the rooms that they import: what these name bare must be a
parameter of one of them; what others alone take is named with its function, `f(.., word=)`.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import pathlib
import re

import pytest

import jaxstruct

ROOT = pathlib.Path(jaxstruct.__file__).parent
ROOMS = sorted({path.parent.name for path in ROOT.glob("*/__init__.py")} - {"data"})
NAMED = re.compile(r"(?:(\w+)\((?:\.\., )?|(?<![\w.(-]))(\w+)=(?=[\w\[\"'(]|$|[,: ])")
ALONE = {"graphs": {"inference"}}
"""Options without which nobody reads the message: the structures take them, no estimator does."""


def parameters(public: object) -> set[str]:
    with contextlib.suppress(TypeError, ValueError):
        return {*inspect.signature(public).parameters}
    return set()


def wrong_advice(room: str, source: str) -> list[str]:
    """The messages of a module that name an argument which nobody can give."""
    modules, public = (importlib.import_module(f"jaxstruct.{room}"), jaxstruct), {}
    for module in modules:
        names = getattr(module, "__all__", dir(module))
        public |= {one: parameters(getattr(module, one)) for one in names}
    every = (getattr(jaxstruct.estimators, name) for name in jaxstruct.estimators.__all__)
    imports = re.compile(rf"from jaxstruct\.{room}(\.\w*encoding)? import")
    own = [parameters(one) for one in every
           if imports.search(inspect.getsource(inspect.getmodule(one)))]  # fmt: skip
    bare = set().union(*(own or public.values())) | ALONE.get(room, set())
    wrong = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Raise, ast.Assign, ast.AnnAssign, ast.Return)):
            parts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
            text = "".join(part for part in parts if isinstance(part, str))
            found = [] if re.match(r"[A-Z]\w+\(", text) else NAMED.findall(text)  # not of __repr__
            for function, word in found:
                if word not in (public.get(function, {word}) if function else bare):
                    wrong.append(text)
    return wrong


@pytest.mark.parametrize("room", ROOMS)
def test_arguments_that_messages_name_exist(room: str) -> None:
    sources = [path.read_text() for path in sorted((ROOT / room).rglob("*.py"))]
    assert not [text for source in sources for text in wrong_advice(room, source)]


def test_wrong_advice_is_found() -> None:
    """What PairAligner once said of letters: it does not take the argument."""
    wrong = "raise ValueError(\"leave such letters out: unknown='drop'\")"
    assert wrong_advice("alignments", wrong)
    for right in ("letters='AC'", "pairwise_alignment(.., gaps='linear')"):
        assert not wrong_advice("alignments", wrong.replace("unknown='drop'", right))
