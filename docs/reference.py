"""The reference by topic: tables of names, docstrings as Sphinx reads them, links to names.

A page of docs/api holds `{names of jaxstruct.chains}`. In its place stand the docstring of the
module, a table of its public names with a line each, and their entries. A name that several modules
export has one entry, that of the first module in `MODULES`.

In text and docstrings `` `js.fit` ``, `` `js.save(model, path)` `` and names of classes such as
`` `SequenceLabeller` `` become links to these entries, in docstrings names of the same class or
module, too.
"""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import equations
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

import jaxstruct
from jaxstruct.core.status import MESSAGES

MODULES = ["jaxstruct"] + [
    f"jaxstruct.{name}"
    for name in jaxstruct.__all__
    if isinstance(getattr(jaxstruct, name), types.ModuleType)
]
FOREIGN = "BaseEstimator, ClassifierMixin, MetaEstimatorMixin, tuple, object, int"
"""Classes of others, whose methods are documented there."""
ENTRIES = {
    "Functions": ".. autofunction:: {}\n",
    "Classes": f".. autoclass:: {{}}\n   :members:\n   :inherited-members: {FOREIGN}\n",
    "Enumerations": ".. autoclass:: {}\n   :members:\n   :undoc-members:\n",
    "Constants": ".. autodata:: {}\n",
}
SECTION = re.compile(r"(Args|Parameters|Fields|Attributes|Returns|Raises)(?:, beside .*)?:")
SEE_MODULE = re.compile(r"; see the module(?:'s equation| for \w+(?: \w+)?)?(?=\.)")
ESCAPED = re.compile(r"([\\*|_])")


@functools.cache
def documented() -> dict[tuple[str, int], str]:
    """The one name in the reference of every public object, by its own name and identity."""
    found: dict[tuple[str, int], str] = {}
    for module in MODULES:
        for name in public_names(module):
            value = getattr(importlib.import_module(module), name)
            found.setdefault((name, id(value)), f"{module}.{name}")
    return found


def public_names(module: str) -> list[str]:
    """What a module exports, but for modules, in the order of the alphabet."""
    found = importlib.import_module(module)
    names = (n for n in found.__all__ if not isinstance(getattr(found, n), types.ModuleType))
    return sorted(names, key=str.lower)


def show_names(app: Sphinx, docname: str, content: list[str]) -> None:
    """A page's `{names of MODULE}` becomes tables and entries."""
    marker = r"(?m)^\{names of ([\w.]+)(?:, entries without (\w+))?\}$"
    content[0] = re.sub(marker, lambda found: _names(found[1], found[2]), content[0])


def _names(module: str, without: str | None) -> str:
    groups: dict[str, list[str]] = {kind: [] for kind in ENTRIES}
    for name in public_names(module):
        value = getattr(importlib.import_module(module), name)
        groups[_kind(value)].append(documented()[name, id(value)])
    parts = [f"```{{eval-rst}}\n.. automodule:: {module}\n"]
    for title, names in groups.items():
        if names:
            rows = "".join(f"   ~{name}\n" for name in names).replace(f"~{module}.", "")
            parts.append(f".. rubric:: {title}\n\n.. autosummary::\n   :nosignatures:\n\n{rows}")
    parts.append("```\n")
    for title, names in groups.items():
        own = [n for n in names if n.rpartition(".")[0] == module and n != f"{module}.{without}"]
        entries = "".join(ENTRIES[title].format(name) for name in own)
        if module == "jaxstruct.estimators":
            entries = entries.replace(":members:\n", ":members:\n   :member-order: alphabetical\n")
        parts.append(f"## {title}\n\n```{{eval-rst}}\n{entries}```\n" if own else "")
    return "\n".join(parts)


def _kind(value: Any) -> str:
    if isinstance(value, type):
        return "Enumerations" if issubclass(value, enum.Enum) else "Classes"
    return "Functions" if callable(value) else "Constants"


def as_restructured_text(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """A docstring: paragraphs, indented equations or literal text, and sections of entries."""
    if isinstance(obj, jaxstruct.Status):
        lines[:] = [MESSAGES[obj]]
    elif what == "data":
        lines[:] = _of_constant(name.rpartition(".")[2]).split("\n")
    text, seen = SEE_MODULE.subn("", "\n".join(lines))
    blocks = re.split(r"\n\s*\n", text.strip("\n"))
    if seen and what == "function":
        module = inspect.cleandoc(inspect.getmodule(obj).__doc__)
        blocks[1:1] = re.split(r"\n\s*\n", module)[1:]
    lines[:] = [line for i, block in enumerate(blocks) for line in _block(block, obj, i == 0)]


def _of_constant(name: str) -> str:
    """The text that follows a constant where it is defined; autodoc has that of its type."""
    of_constant = re.compile(rf'(?ms)^{name} = [^\n]*\n"""(.*?)"""')
    sources = (
        Path(module.__file__)
        for module in list(sys.modules.values())
        if module.__name__.startswith("jaxstruct.")
    )
    texts = (of_constant.search(source.read_text(encoding="utf-8")) for source in sources)
    return next(found[1] for found in texts if found)


def _block(block: str, obj: Any, first: bool) -> Iterator[str]:
    if not block.strip():
        return
    latex = None if first else equations.translated(block)
    if latex is not None:
        yield from [".. math::", "   :no-wrap:", "", f"   {latex}", ""]
        return
    if block.startswith("  "):
        yield from ["::", "", *block.split("\n"), ""]
        return
    if block.startswith("|"):
        rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in block.split("\n")]
        yield from [".. list-table::", "   :header-rows: 1", ""]
        for row in rows[:1] + rows[2:]:
            yield from [f"   {' *'[not i]} - {inline(cell)}" for i, cell in enumerate(row)]
        yield ""
        return
    parts = re.split(rf"(?m)^({SECTION.pattern})\n(?=  )", block)
    if parts[0].strip():
        yield from [inline(parts[0]), ""]
    for head, section, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        yield from _section(section, body, obj, inherits=head != f"{section}:")


def _section(section: str, body: str, obj: Any, inherits: bool) -> Iterator[str]:
    title = "Parameters" if section == "Args" else section
    body = textwrap.dedent(body)
    if section == "Returns":
        yield from [f":{title}: {inline(body)}", ""]
        return
    entries = list(_entries(body, section, obj))
    if inherits:
        taken = {name for names, _ in entries for name in names}
        for base in inspect.getmro(obj)[1:]:
            entries += [
                (names, text)
                for names, text in _entries(_section_of(base, section), section, base)
                if taken.isdisjoint(names)
            ]
            taken.update(name for names, _ in entries for name in names)
    yield from [f":{title}:", ""]
    for names, text in entries:
        shown = ", ".join(f"**{inline(name)}**{_type(obj, name, section)}" for name in names)
        yield f"   - {shown} -- {inline(text)}"
    yield ""


def _section_of(cls: type, section: str) -> str:
    """A section of a class's own docstring, without its heading."""
    text = inspect.cleandoc(vars(cls).get("__doc__") or "")
    found = re.search(rf"(?m)^{section}(?:, beside .*)?:\n((?:  .*(?:\n|\Z))+)", text)
    return textwrap.dedent(found[1]) if found else ""


def _entries(body: str, section: str, obj: Any) -> Iterator[tuple[list[str], str]]:
    """(names, text) of a section's entries; a line may hold several, each after a name."""
    name = "|".join(map(re.escape, _nameable(section, obj))) or r"(?!)"
    more = rf"(?<=[.;)]) (?=(?:{name})(?:, (?:{name}))*: )"
    for entry in filter(None, re.split(r"\n(?=\S)", body)):
        text = " ".join(entry.split())
        for one in [text] if section == "Raises" else re.split(more, text):
            names, colon, rest = one.partition(": ")
            yield (names.split(", "), rest) if colon else ([], one)


def _nameable(section: str, obj: Any) -> Sequence[str]:
    if section == "Attributes":
        return sorted(set(re.findall(r"\b[A-Za-z]\w*_\b", inspect.getdoc(obj) or "")))
    if section == "Fields":
        return [*getattr(obj, "_fields", ()), *getattr(obj, "__annotations__", ())]
    try:
        return [*inspect.signature(obj).parameters]
    except (TypeError, ValueError):
        return []


def _type(obj: Any, name: str, section: str) -> str:
    """The type of a field and its default, as the source has them."""
    if section != "Fields":
        return ""
    kind = getattr(obj, "__annotations__", {}).get(name)
    if kind is None:
        return ""
    text = short_type(getattr(kind, "__forward_arg__", kind))
    defaults = getattr(obj, "_field_defaults", {})
    default = f" = {defaults[name]!r}" if name in defaults else ""
    return f" (``{text}{default}``)"


def short_type(text: Any) -> str:
    """An annotation as people say it: no modules, no quotes."""
    return re.sub(r"\b(?:np|jax|numpy|collections\.abc|typing)\.|['\"]", "", str(text))


def inline(text: str) -> str:
    """Prose of a docstring: `code` stands out, all else is text."""
    parts = re.split(
        r"`([^`]+)`", " ".join(text.split()).replace(" .. ", " \N{HORIZONTAL ELLIPSIS} ")
    )
    return "".join(
        f"\\ ``{part}``\\ " if i % 2 else ESCAPED.sub(r"\\\1", part) for i, part in enumerate(parts)
    )


def without_needless(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Fields and fitted attributes have their sections; routing of metadata is scikit-learn's."""
    routing = re.fullmatch(r"set_\w+_request|get_metadata_routing", name)
    fitted = isinstance(obj, property) and name.endswith("_")
    return True if routing or fitted or type(obj).__name__ == "_tuplegetter" else None


def short_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, arguments: str, returned: str
) -> tuple[str, str | None]:
    """Signatures with the names that types have in the source.

    A record has none: its fields stand a line each, with types and defaults.
    """
    if inspect.isclass(obj) and "Fields:" in (obj.__doc__ or ""):
        return "", None
    arguments, returned = (
        text and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", text)
        for text in (arguments, returned)
    )
    return arguments, returned


class Names:
    """The entries of the reference, found by what text calls them."""

    def __init__(self, app: Sphinx) -> None:
        """The entries that all pages have."""
        self.app = app
        self.entries = dict(app.env.domains["py"].objects)
        self.of_class: dict[str, str] = {}
        for full, entry in self.entries.items():
            short = full.rpartition(".")[2]
            if entry.objtype == "class" and not entry.aliased:
                self.of_class[short] = "" if short in self.of_class else full

    def find(self, text: str, scopes: Sequence[str] = ()) -> str | None:
        """The entry that text names, as a reader takes it; None where there is none."""
        code = re.match(r"([A-Za-z][\w.]*)(\(.*\))?$", text)
        if not code:
            return None
        if found := re.match(r"(?:js|jaxstruct)\.(.+)", code[1]):
            return self._public(found[1].split("."))
        for scope in scopes:
            full = f"{scope}.{code[1]}"
            if full in self.entries and self.entries[full].objtype != "module":
                return full
        return self.of_class.get(code[1].partition(".")[0]) or None

    def _public(self, parts: list[str]) -> str | None:
        value: Any = jaxstruct
        for i, part in enumerate(parts):
            value = getattr(value, part, None)
            known = documented().get((part, id(value)))
            if known:
                whole = ".".join([known, *parts[i + 1 :]])
                return whole if whole in self.entries else known
        module = ".".join(["jaxstruct", *parts])
        return module if module in self.entries else None


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Literals that name an entry of the reference become links to it."""
    names = Names(app)
    page = [docname.replace("/", ".").replace("api", "jaxstruct"), "jaxstruct"]
    for literal in list(doctree.findall(nodes.literal)):
        parents = [*_parents(literal)]
        if any(isinstance(p, (nodes.reference, nodes.title)) for p in parents):
            continue
        scopes, arguments = _scopes(parents)
        scopes += page if docname.startswith("api/") else []
        text = literal.astext()
        found = None if text in arguments else names.find(text, scopes)
        if found and found not in scopes[:1]:
            entry = names.entries[found]
            link = make_refnode(app.builder, docname, entry.docname, entry.node_id, [])
            literal.replace_self(link)
            link += literal


def _parents(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def _scopes(parents: Sequence[nodes.Node]) -> tuple[list[str], set[str]]:
    """(names within which a docstring's text is read, the arguments of what it documents)."""
    scopes, arguments = [], set()
    for desc in parents:
        if isinstance(desc, addnodes.desc) and desc.get("domain") == "py":
            signature = desc.next_node(addnodes.desc_signature)
            arguments |= {
                p.next_node(addnodes.desc_sig_name).astext()
                for p in signature.findall(addnodes.desc_parameter)
                if p.next_node(addnodes.desc_sig_name)
            }
            scopes.append(f"{signature['module']}.{signature['fullname']}")
    return scopes, arguments


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", show_names)
    app.connect("autodoc-process-docstring", as_restructured_text)
    app.connect("autodoc-process-signature", short_signature)
    app.connect("autodoc-skip-member", without_needless)
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
