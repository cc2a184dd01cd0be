"""How the site is built: `python -m sphinx -W docs docs/build`, offline.

Pages are Markdown (MyST). Those with `{code-cell}` are executed as they are built, and an error in
one ends the build; the reference is made of the docstrings of all public names (reference.py).
Code in text that names an entry of it becomes a link: `js.fit`, `js.chains.chain(...)`, and names
of classes as they are, such as `SequenceLabeller`.

Mathematics is `$...$`, and `$$...$$` on lines of its own; `\\tag{2.4}` in it gives an equation the
number of the thesis. The build writes it as MathML, which today's browsers show without a script or
a font of ours; a command that math-core does not know ends the build.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import pictures  # noqa: E402

import jaxstruct  # noqa: E402

project = "jaxstruct"
author = "The jaxstruct authors"
version = release = jaxstruct.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "reference",
]
exclude_patterns = ["build", "jupyter_execute"]
html_theme = "furo"
html_title = f"jaxstruct {release}"
html_show_sourcelink = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("AnyArray", "Array", "PyTree")}
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autosummary_generate = False
python_maximum_signature_line_length = 115
add_module_names = False

# The kernels that execute pages import this clone, on the processor, and keep what they compile.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])
)
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jaxstruct" / "docs"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

PAGES = {
    "../README.md": "index.md",
    "../RESULTS.md": "results.md",
    "../DESIGN.md": "design.md",
    "../CHANGELOG.md": "changes.md",
    "../third_party_data/README.md": "corpora.md",
}
"""Pages outside this folder, and those of the site that show them."""


def show_pages_of_the_site(app, name, content: list[str]) -> None:
    """Links to pages outside this folder lead to those of the site."""
    up = "../" * name.count("/")
    for page, shown in PAGES.items():
        content[0] = content[0].replace(f"]({up}{page}", f"]({up}{shown}")


def show_pages_included(app, path, parent: str, content: list[str]) -> None:
    """The same within a page of the root, whose links begin there; files are named, not linked."""
    up = "../" * parent.count("/")
    for page, shown in PAGES.items():
        content[0] = content[0].replace(f"]({page.removeprefix('../')}", f"]({up}{shown}")
        content[0] = content[0].replace(f"]({page}", f"]({up}{shown}")
    content[0] = content[0].replace("](docs/", f"]({up}")


logger = logging.getLogger(__name__)
MATHML = LatexToMathML(fancy_error=False)


def write_mathematics(translator, node: nodes.math | nodes.math_block) -> None:
    """Mathematics as MathML: 0.4 MB to install, where MathJax takes 24 MB and a script a page."""
    display = isinstance(node, nodes.math_block)
    latex, whole = re.subn(
        r"\A\\begin\{(align|equation|gather)\*?\}(.*)\\end\{\1\*?\}\Z",
        r"\\begin{\1*}\2\\end{\1*}",
        node.astext().strip(),
        flags=re.S,
    )
    if display and not whole and node.get("number"):
        latex += rf" \tag{{{node['number']}}}"
    if not whole and r"\tag" in latex:
        latex = rf"\begin{{equation*}}{latex}\end{{equation*}}"
    try:
        mathml = MATHML.convert_with_local_state(latex, displaystyle=display)
    except LatexError as error:
        mathml = ""
        logger.warning("%s in %r", error, latex, location=node)
    tag = "div" if display else "span"
    translator.body.append(translator.starttag(node, tag, "", CLASS="math notranslate"))
    translator.body.append(mathml)
    translator.body.append(f"</{tag}>")
    raise nodes.SkipNode


def spread_executed(app, env, names: list[str]) -> None:
    """Executed pages take most of the time, and Sphinx deals processes runs of neighbours."""
    executed = [n for n in names if "{code-cell}" in Path(env.doc2path(n)).read_text("utf-8")]
    others = [n for n in names if n not in executed]
    places = {name: i / len(some) for some in (executed, others) for i, name in enumerate(some)}
    names.sort(key=lambda name: places[name])


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("env-before-read-docs", spread_executed)
    app.connect("builder-inited", lambda app: pictures.draw_all(ROOT / "docs" / "pictures"))
    app.add_html_math_renderer("mathml", (write_mathematics, None), (write_mathematics, None))
    app.connect("source-read", show_pages_of_the_site)
    app.connect("include-read", show_pages_included)
