"""Equations of docstrings as LaTeX.

Docstrings are read in terminals, so that their equations are plain text, 1/2 |w|^2 + sum_i xi_i.
A block is translated where every token of it is known; any other block stays as it is.
"""

from __future__ import annotations

import re

GREEK = (
    "alpha beta gamma Gamma delta Delta eta theta Theta kappa lambda Lambda mu nu xi Xi pi rho "
    "sigma Sigma tau phi Phi psi Psi omega Omega"
)
NAMES = {name: rf"\{name}" for name in f"{GREEK} sum prod max min log exp in".split()}
NAMES |= {name: rf"\operatorname*{{{name}}}" for name in ("argmax", "argmin", "reduce")}
NAMES |= {"epsilon": r"\varepsilon", "inf": r"\infty", "sign": r"\operatorname{sign}"}
SIGNS = {"<=": r"\le", ">=": r"\ge", "!=": r"\ne", "->": r"\to", "..": r"\ldots", "...": r"\ldots"}
SIGNS |= {sign: sign for sign in "=+-,;/<>"}
BRACKETS = {"(": ("(", ")", ")"), "[": ("[", "]", "]"), "|": (r"\lvert ", r"\rvert ", "|"),
            "<": (r"\langle ", r"\rangle ", ">")}  # fmt: skip
"""What is written at both ends, and the token that ends it."""
WORDS = frozenset(
    "a alignments all at candidates cost edge examples for gaps given gradient inner node nodes of "
    "on over pairs probabilities the top trees with".split()
)
TOKEN = re.compile(r"\s+|\d+(?:\.\d+)?|[A-Za-z]+|<=|>=|!=|->|\.{2,3}|.", flags=re.S)
NUMBERED = re.compile(r"(.*?)\s+\((\d+(?:\.\d+)+)\)")


class UnknownTokenError(ValueError):
    """What stands here is no part of an equation that is known."""


def translated(block: str) -> str | None:
    """An equation as LaTeX, a row a line; None where a token is not known, or nothing is related.

    Args:
      block: the lines of a paragraph, indented or not. The number of an equation, (4.20), ends its
        line; three spaces part a remark in words, or a second equation, from the first.
    """
    lines = [line.strip() for line in block.strip("\n").split("\n")]
    try:
        rows = [_row(line) for line in lines]
    except UnknownTokenError:
        return None
    parts = [part for row, _ in rows for part in row]
    if not re.search(r"=|\\[lg]e\b|\\frac|\\sum", " ".join(parts)):
        return None
    if len(rows) == 1:
        return " ".join(rows[0][0]) + rows[0][1]
    return r"\begin{align*}" + r" \\ ".join(map(_aligned, rows)) + r"\end{align*}"


def _aligned(row: tuple[list[str], str]) -> str:
    """A row that stands with others, its first relation below theirs."""
    parts, number = row
    related = parts[: (*parts, r"\qquad").index(r"\qquad")]
    first = next((i for i, part in enumerate(related) if part in {"=", r"\le", r"\ge"}), None)
    parts = [r"&\quad", *parts] if first is None else [*parts[:first], "&", *parts[first:]]
    return " ".join(parts) + number


def _row(line: str) -> tuple[list[str], str]:
    """(what a line says, its number)."""
    number, parts = "", []
    if found := NUMBERED.fullmatch(line):
        line, number = found[1], rf" \tag{{{found[2]}}}"
    for chunk in re.split(r"\s{3,}", line):
        parts += [r"\qquad"] if parts else []
        remark = parts and re.fullmatch(r"[a-z]+(?: [a-z]+)*", chunk)
        parts += [rf"\text{{{chunk}}}"] if remark else _Reader(chunk).expression("")
    return parts, number


class _Reader:
    """The tokens of a line, read from the left; `spaced`: whether a space stands before each."""

    def __init__(self, text: str) -> None:
        found = [(m[0], text[m.start() - 1 : m.start()].isspace()) for m in TOKEN.finditer(text)]
        self.tokens, self.spaced = zip(*[one for one in found if one[0].strip()], strict=True)
        self.at = 0

    def glued(self, offset: int = 0) -> str:
        """The next token if no space stands before it."""
        i = self.at + offset
        return self.tokens[i] if i < len(self.tokens) and not self.spaced[i] else ""

    def take(self) -> str:
        if self.at == len(self.tokens):
            raise UnknownTokenError("the end")
        self.at += 1
        return self.tokens[self.at - 1]

    def expression(self, end: str) -> list[str]:
        """All up to a token that ends it, which is read, too."""
        parts: list[str] = []
        while (self.at < len(self.tokens) or end) and (token := self.take()) != end:
            if token == "/" and parts and parts[-1] not in SIGNS.values():
                below = self.factor(self.take(), first=True)
                parts[-1] = rf"\frac{{{_bare(parts[-1])}}}{{{_bare(below)}}}"
                continue
            made = self.factor(token, first=not parts)
            if parts and parts[-1].startswith(r"\text") and made.startswith(r"\text"):
                made = parts.pop()[:-1] + made.removeprefix(r"\text{ ")
            parts.append(made)
        return parts

    def factor(self, token: str, first: bool) -> str:
        """A symbol or a pair of brackets, with its scripts and arguments."""
        apart = first or self.spaced[self.at - 1]
        if token == "|" and not self.glued():
            return r"\mid"
        if token in "([" or (token in "|<" and apart and self.glued()):
            made = self.brackets(token)
        elif token == "sqrt" and self.glued() == "(":
            self.at += 1
            made = rf"\sqrt{{{' '.join(self.expression(')'))}}}"
        elif token in SIGNS or token == ".":
            return SIGNS.get(token, r"\cdot" if first else ".")
        else:
            made = self.symbol(token)
        while self.glued() and self.glued() in "_^'([":
            token = self.take()
            if token in "([":
                made += self.brackets(token)
            else:
                made += token if token == "'" else token + self.script(token)
        return made

    def brackets(self, opening: str) -> str:
        left, right, end = BRACKETS[opening]
        return left + " ".join(self.expression(end)) + right

    def symbol(self, token: str) -> str:
        if token in NAMES or (len(token) == 1 and token.isalpha()) or token[0].isdigit():
            return NAMES.get(token, token)
        if token.isalpha() and (self.glued() in {"(", "["} or self.glued() + self.glued(1) == "_{"):
            return rf"\mathrm{{{token}}}"
        if token in WORDS:
            return rf"\text{{ {token} }}"
        raise UnknownTokenError(token)

    def script(self, kind: str) -> str:
        """What follows `_` or `^`: a group, or one name with indices of its own."""
        token = self.take()
        if token == "{" and self.glued(1) == "}":
            token = self.take()
            self.at += 1
        elif token in "{(":
            return "{" + " ".join(self.expression("}" if token == "{" else ")")) + "}"
        elif token == "-" and self.glued().isdigit():
            token += self.take()
        if not token.lstrip("-").isalnum():
            raise UnknownTokenError(token)
        made = NAMES.get(token, token if len(token) < 3 else rf"\mathrm{{{token}}}")
        if kind == "_" and self.glued() == "_":
            self.at += 1
            made += "_" + self.script("_")
        return "{" + made + "}"


def _bare(part: str) -> str:
    """A part of a fraction without the parentheses around it."""
    inside = part[1:-1]
    return inside if part[0] + part[-1] == "()" and not re.search(r"[()]", inside) else part
