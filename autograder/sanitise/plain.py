"""HTML rebuilt from allowed tags alone, so that the sanitiser behind has little to do."""

from __future__ import annotations

import re
from html import escape, unescape

from autograder.sanitise.allowed import ATTRIBUTES, TAGS, VANISH, attribute
from autograder.sanitise.images import without_data
from autograder.sanitise.text import CONTROLS, MAX_ESCAPED, writable

MAX_HTML = 1 << 20
"""Characters of one piece of HTML, the data of images not counted."""
MAX_TAGS = 10_000
MAX_DEPTH = 100

_VOID = {"br", "col", "hr", "img"}
_CLOSED_BY_THE_NEXT = {"p": {"p"}, "li": {"li"}, "tr": {"tr"}} | {
    name: group for group in ({"td", "th"}, {"dt", "dd"}) for name in group
}
_TAG_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)")
_TAG_ATTRIBUTE = re.compile(r"[\s/]*(?:(>)|([^\s/>][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]*)))?)")
_COMMENT_END = re.compile("--!?>")
_BOGUS_END = re.compile(">")

# What nbconvert itself writes: the classes of Pygments and of the language of a fence, and a column's alignment.
_OWN_CLASS = re.compile(r"highlight|[a-z][a-z0-9]{0,2}|language-[A-Za-z0-9_+#.-]{1,32}")
_ALIGN = re.compile(r"\s*text-align:\s*(left|right|center)\s*;?\s*", re.IGNORECASE)


class TooMuch(Exception):
    """Something that can't be cleaned in reasonable time."""


class Plain:
    """HTML rebuilt from allowed tags alone, balanced and no deeper than MAX_DEPTH.

    The tokens are read as a browser does
    (https://html.spec.whatwg.org/multipage/parsing.html#tokenization). What is written here is not trusted: it only
    keeps the work of nh3, which cleans it, within bounds. nh3 needs minutes for some hundred kilobytes of nested
    tags or of attributes.

    Attributes:
        html: the result.
        whole: whether nothing but re-serialisation took place.
    """

    def __init__(self, html: str) -> None:
        """Rebuild it.

        Raises:
            TooMuch: nh3 would need too long for the result.
        """
        self.whole = True
        self._parts: list[str] = []
        self._open: list[str] = []
        self._tags = 0
        html = writable(html)
        if len(without_data(html)) > MAX_HTML or html.count("<") > 2 * MAX_ESCAPED:
            raise TooMuch
        self._read(html)
        self._close_down_to(0)
        self.html = "".join(self._parts)
        if self.html.count("&") + self.html.count("\xa0") > MAX_ESCAPED:
            raise TooMuch

    def _read(self, html: str) -> None:
        position = 0
        while True:
            start = html.find("<", position)
            if start < 0:
                self._write_text(html[position:])
                return
            self._write_text(html[position:start])
            if name := _TAG_NAME.match(html, start):
                position = self._tag(html, name)
            elif html.startswith(("<!", "<?", "</"), start):
                self.whole = False
                end = (_COMMENT_END if html.startswith("<!--", start) else _BOGUS_END).search(html, start + 2)
                position = end.end() if end else len(html)
            else:
                self._write_text("<")
                position = start + 1

    def _tag(self, html: str, token: re.Match[str]) -> int:
        """Read a tag and write what may stay of it; return where it ends."""
        name = token[1].lower()
        closing = html.startswith("</", token.start())
        attributes: dict[str, str] = {}
        position = token.end()
        while True:
            part = _TAG_ATTRIBUTE.match(html, position)
            if not part:  # the text ends within the tag
                self.whole = False
                return len(html)
            position = part.end()
            if part[1]:
                break
            attributes.setdefault(part[2].lower(), unescape(part[3] or part[4] or part[5] or ""))
        self._tags += name != "span"
        if self._tags > MAX_TAGS:
            raise TooMuch
        if name in VANISH:
            self.whole = False
            return position if closing else _end_of(name, html, position)
        if name == "span":  # without its attributes it says nothing
            self._kept(name, attributes)
        elif closing:
            self._end(name)
        else:
            self._start(name, attributes)
        return position

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name not in TAGS or len(self._open) >= MAX_DEPTH:
            self.whole = False
            return
        if self._open and self._open[-1] in _CLOSED_BY_THE_NEXT.get(name, ()):
            self._close_down_to(len(self._open) - 1)
        kept = self._kept(name, attributes)
        if name == "img" and "src" not in kept:
            self.whole = False
            self._write_text(escape(kept.get("alt", "")))
            return
        written = "".join(f' {key}="{escape(value)}"' for key, value in kept.items())
        self._parts.append(f"<{name}{written}>")
        if name not in _VOID:
            self._open.append(name)

    def _kept(self, tag: str, attributes: dict[str, str]) -> dict[str, str]:
        """The attributes that may stay; where any that means something has to go, the HTML is not whole."""
        kept: dict[str, str] = {}
        for name, value in attributes.items():
            allowed = attribute(tag, name, value) if name in ATTRIBUTES.get(tag, ()) else None
            if allowed is not None:
                kept[name] = allowed
            elif name == "style" and tag in ("td", "th", "tr") and (align := _ALIGN.fullmatch(value)):
                kept["align"] = align[1].lower()
            elif not (name == "class" and tag in ("div", "span", "code") and _OWN_CLASS.fullmatch(value)):
                self.whole = False
        return kept

    def _end(self, name: str) -> None:
        if name not in self._open:
            self.whole = False
            return
        depth = len(self._open) - self._open[::-1].index(name) - 1
        self.whole = self.whole and depth == len(self._open) - 1
        self._close_down_to(depth)

    def _close_down_to(self, depth: int) -> None:
        while len(self._open) > depth:
            self._parts.append(f"</{self._open.pop()}>")

    def _write_text(self, text: str) -> None:
        self._parts.append(escape(CONTROLS.sub("", unescape(text)).replace("\r", "\n"), quote=False))


def _end_of(name: str, html: str, start: int) -> int:
    """Where the end tag begins that alone ends what a browser doesn't read as HTML."""
    end = re.compile(rf"(?i:</{name}(?=[\s/>]))").search(html, start)
    return end.start() if end else len(html)
