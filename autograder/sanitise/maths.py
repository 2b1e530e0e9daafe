"""TeX without the macros that reach out of their formula."""

from __future__ import annotations

import re

from autograder.sanitise.text import TAG

# Macros of MathJax 2 to 4 that link, style, name, load or store what holds for the whole page, and those that move or
# shrink boxes, so that they cover something else (https://docs.mathjax.org/en/latest/input/tex/macros/index.html).
_MACROS = re.compile(
    r"\\(?=(?:href|style|class|cssId|require|unicode|html[A-Za-z]*|data|mml[A-Za-z]*|bbox|enclose|toggle|texttip|"
    r"mathtip|setOptions|includegraphics|csname|[egx]?def|let|futurelet|(?:re)?new(?:command|environment)|"
    r"providecommand|Declare[A-Za-z]*|definecolor|newcolumntype|raise|lower|raisebox|moveleft|moveright|smash|"
    r"[Rr]ule|Space)(?![A-Za-z]))"
)
_LOOKALIKE = "\N{FULLWIDTH REVERSE SOLIDUS}"
# A negative distance between two lines draws the second over what stands above the formula.
_UPWARDS = re.compile(r"((?:(?<=\\\\)|\A)\s*(?:\*\s*)?\[\s*)-")
_MATHS = re.compile(r"\$[^$]*\$|\\[(\[]|\\begin")


def inert(text: str) -> str:
    """Text in which the dangerous macros of TeX are letters, if MathJax would find any TeX there."""
    return _spelt_out(text) if _MATHS.search(text) else text


def without_macros(html: str) -> str:
    """Clean HTML in which MathJax finds no dangerous macro. It reads text outside of <pre> and <code>, across <br>."""
    if not _MATHS.search(html):
        return html
    pieces = TAG.split(html)
    verbatim = 0
    for place, piece in enumerate(pieces):
        if place % 2:
            verbatim += piece.startswith(("<pre>", "<code>")) - piece.startswith(("</pre>", "</code>"))
        elif not verbatim:
            pieces[place] = _spelt_out(piece)
    return "".join(pieces)


def _spelt_out(text: str) -> str:
    return _UPWARDS.sub(r"\1" + "\N{MINUS SIGN}", _MACROS.sub(_LOOKALIKE, text))
