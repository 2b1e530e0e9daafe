r"""TeX in rendered text becomes MathML, which browsers show without a script.

Read where MathJax would read it: in the text of rendered HTML, outside of code, between ``$…$``, ``$$…$$``, ``\(…\)``,
``\[…\]`` and ``\begin{align}…\end{align}``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from html import escape, unescape
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element

MAX_TEX = 1_000
"""Characters of one formula; a longer one is shown as code."""
LITERAL_DOLLAR = "\ue0f5"
"""Stands for a dollar sign that a Markdown renderer has already found to be no maths."""

_TAG = re.compile(r'(<(?:[^>"]|"[^"]*")*>)')
_NO_MATHS = re.compile(r"<(/?)(?:code|pre|kbd|samp|tt|a|svg|math)\b", re.IGNORECASE)
_OPENING = re.compile(
    r"\$\$|(?<![$\\])\$(?!\$)|(?<!\\)\\[(\[]"
    r"|\\begin\{(?:align|aligned|alignat|equation|gather|multline|matrix|[bpvBV]matrix|cases|array|split|eqnarray)\*?\}"
)
_CLOSING = {"$$": "$$", "$": "$", r"\(": r"\)", r"\[": r"\]"}
_DOLLARS = {"$$": re.compile(r"(?<!\\)\$\$"), "$": re.compile(r"(?<!\\)\$")}
# What the converter doesn't know, in words that it does.
_REWRITTEN = tuple(
    (re.compile(rf"(?<!\\){pattern}"), replacement)
    for pattern, replacement in (
        (r"\\begin\{(?:align(?:ed)?at\*?\}\s*\{\d+|aligned|flalign\*?)\}(?:\s*\[[tbc]\])?", r"\\begin{split}"),
        (r"\\end\{(?:align(?:ed)?at\*?|aligned|flalign\*?)\}", r"\\end{split}"),
        (r"\\begin\{(?:gather|multline)(?:ed)?\*?\}(?:\s*\[[tbc]\])?", r"\\begin{array}{c}"),
        (r"\\begin\{eqnarray\*?\}", r"\\begin{array}{rcl}"),
        (r"\\end\{(?:(?:gather|multline)(?:ed)?|eqnarray)\*?\}", r"\\end{array}"),
        (r"\\(begin|end)\{(align|equation)\}", r"\\\1{\2*}"),
        (r"\\arg\s*\\(max|min)(?![A-Za-z])", r"\\arg\1"),
        (r"\\arg(?![A-Za-z])", r"\\operatorname{arg}"),
        (r"\\(math(?:sf|bf|bb|cal|frak|scr|tt))\s+([A-Za-z0-9])", r"\\\1{\2}"),
    )
)
# Operators that have their limits below in display, and beside in a line of text.
_LIMITS = frozenset(("lim", "max", "min", "sup", "inf"))
_BELOW = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}
# Browsers know no mathvariant but normal.
_VARIANTS = {
    "bold": "bold upright",
    "bold-italic": "bold",
    "sans-serif": "sans upright",
    "monospace": "mono upright",
}
# A macro may stand for two of itself, so that thirty of them are a billion tokens.
_DEFINES = re.compile(r"\\(?:re|provide)?(?:newcommand|def|gdef|edef|xdef|let|newenvironment|DeclareMathOperator)\b")

# fmt: off
_ELEMENTS = frozenset((
    "math", "mrow", "mi", "mo", "mn", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup",
    "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none", "mtable", "mtr", "mtd", "mstyle",
    "mpadded", "mphantom", "menclose", "merror",
))
_ATTRIBUTES = frozenset((
    "display", "displaystyle", "scriptlevel", "mathvariant", "mathcolor", "stretchy", "fence", "form", "separator",
    "lspace", "rspace", "width", "height", "depth", "accent", "accentunder", "linethickness", "minsize", "maxsize",
    "largeop", "movablelimits", "notation", "symmetric",
))
# fmt: on
_VALUE = re.compile(r"#?[\w .%+-]{1,40}")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
MAX_LENGTH = 10
"""The largest number in an attribute, so that no formula leaves its place."""


def with_maths(html: str) -> str:
    """HTML with its TeX as MathML.

    Args:
        html: a fragment as a sanitiser writes it: well-formed, attributes in double quotes.
    """
    if not any(sign in html for sign in ("$", "\\", LITERAL_DOLLAR)):
        return html
    pieces: list[str] = []
    depth = 0
    for place, piece in enumerate(_TAG.split(html)):
        if place % 2:
            if opened := _NO_MATHS.match(piece):
                depth = max(0, depth - 1) if opened[1] else depth + 1
            pieces.append(piece)
        else:
            pieces.append(piece if depth else "".join(_read(unescape(piece))))
    return "".join(pieces).replace(LITERAL_DOLLAR, "$")


@functools.lru_cache(maxsize=2048)
def mathml(tex: str, display: bool = False) -> str:
    """One formula as MathML; as code where it can't be read."""
    try:
        if len(tex) > MAX_TEX or _DEFINES.search(tex):
            raise ValueError
        rewritten = tex
        for pattern, replacement in _REWRITTEN:
            rewritten = pattern.sub(replacement, rewritten)
        shown = _serialised(convert_to_element(rewritten, display="block" if display else "inline"))
    except Exception:  # noqa: BLE001 - the converter raises whatever a formula that it can't read makes it raise
        return f"<code>{escape(tex)}</code>"
    return f'<span class="formula">{shown}</span>' if display else shown


def _read(text: str) -> Iterator[str]:
    """A text's pieces as HTML, formulas among them; in time proportional to its length."""
    done = 0
    for opening in _OPENING.finditer(text):
        start, sign = opening.span()[0], opening[0]
        if start < done:
            continue
        closing = _CLOSING.get(sign) or sign.replace("begin", "end", 1)
        end = _end(text, closing, opening.end())
        if end < 0 or not text[opening.end() : end].strip():
            continue
        yield escape(text[done:start], quote=False)
        done = end + len(closing)
        inner = text[opening.end() : end]
        yield mathml(text[start:done] if sign.startswith(r"\begin") else inner.strip(), sign not in ("$", r"\("))
    yield escape(text[done:], quote=False)


def _end(text: str, closing: str, start: int) -> int:
    if closing[0] == "$":  # one after a backslash is a dollar
        found = _DOLLARS[closing].search(text, start, start + MAX_TEX)
        end = found.start() if found else -1
    else:
        end = text.find(closing, start, start + MAX_TEX)
    return end if end > start else -1


def _serialised(element: Element) -> str:
    """An element of known kinds with known attributes: the converter passes links, styles and bare ``<`` through.

    Raises:
        ValueError: the converter has left TeX in it, or a line break that browsers don't make.
    """
    if (element.tag in ("mi", "mo") and _is_tex(element.text or "")) or element.get("linebreak"):
        raise ValueError
    if element.tag in _BELOW and len(element) and _has_limits(element[0]):
        element[0].set("movablelimits", "true")
        element.tag = _BELOW[element.tag]
    if (
        element.tag == "mo"
        and len(element.text or "") > 1
        and (element.text or "").isalpha()
        and not _has_limits(element)
    ):
        element.tag = "mi"  # a function's name; as an operator it would stand apart from its bracket
    inner = escape(unescape(element.text or ""), quote=False) + "".join(
        _serialised(child) + escape(unescape(child.tail or ""), quote=False) for child in element
    )
    if element.tag not in _ELEMENTS:
        return inner
    kept = {name: value for name, value in element.attrib.items() if _harmless(name, value) and value not in _VARIANTS}
    attributes = [f' {name}="{value}"' for name, value in kept.items()]
    classes = [_VARIANTS.get(element.get("mathvariant", ""), "")]
    if element.get("columnalign") in ("left", "right"):  # browsers align by CSS alone
        classes.append(element.attrib["columnalign"])
    if any(classes):
        attributes.append(f' class="{" ".join(filter(None, classes))}"')
    return f"<{element.tag}{''.join(attributes)}>{inner}</{element.tag}>"


def _is_tex(text: str) -> bool:
    return text == "&" or (len(text) > 1 and text.startswith("\\") and text[1].isalpha())


def _has_limits(base: Element) -> bool:
    return base.tag == "mo" and (base.text in _LIMITS or base.get("movablelimits") == "true")


def _harmless(name: str, value: str) -> bool:
    return (
        name in _ATTRIBUTES
        and _VALUE.fullmatch(value) is not None
        and all(float(number) <= MAX_LENGTH for number in _NUMBER.findall(value if name != "mathcolor" else ""))
    )
