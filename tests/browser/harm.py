"""Finds out what in a page a student has got hold of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.browser.attempt import TITLE
from tests.browser.conftest import MATHJAX
from tests.sanitise.pages import HARMLESS_TAGS, HARMLESS_VALUES

if TYPE_CHECKING:
    from playwright.sync_api import APIResponse, BrowserContext, Dialog, Route

SITE = "http://class.example/"
SETTLED = 100.0
"""Milliseconds in which a page does what it was made to do."""

# Runs in each document before anything else does, whatever its policy says.
REMEMBER_TITLES = """
{
  const title = Object.getOwnPropertyDescriptor(Document.prototype, "title");
  Object.defineProperty(Document.prototype, "title", {
    configurable: true,
    get() { return title.get.call(this); },
    set(value) { (top.takers ||= []).push(String(value)); title.set.call(this, value); },
  });
}
"""

# What a reader does: touches everything, opens and follows all that is no link to another page.
TOUCH = """
parts => {
  for (const part of document.querySelectorAll(parts)) for (const element of part.querySelectorAll("*")) {
    for (const kind of ["pointerover", "mouseover", "mouseenter", "dblclick", "keydown", "wheel"])
      element.dispatchEvent(new MouseEvent(kind, {bubbles: true, cancelable: true}));
    if (element.focus) element.focus();
    const link = String(element.href?.baseVal ?? element.href ?? "");
    if (!/^(https?|mailto|data):/.test(link))
      element.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true, composed: true}));
  }
}
"""

STYLES = """
own => own.map(selector => {
  const element = document.querySelector(selector);
  if (!element) return null;
  const {color, backgroundColor, display, visibility, opacity, position, fontSize, fontFamily, fontWeight, transform,
    filter, clipPath, zIndex, pointerEvents, textIndent, letterSpacing, direction, unicodeBidi, animationName,
    textAlign, textTransform, userSelect} = getComputedStyle(element);
  return [color, backgroundColor, display, visibility, opacity, position, fontSize, fontFamily, fontWeight, transform,
    filter, clipPath, zIndex, pointerEvents, textIndent, letterSpacing, direction, unicodeBidi, animationName,
    textAlign, textTransform, userSelect, getComputedStyle(element, "::before").content,
    getComputedStyle(element, "::after").content].join("|");
})
"""

LOOK = """
([parts, own]) => {
  const inside = [...document.querySelectorAll(parts)];
  const elements = inside.flatMap(part => [...part.querySelectorAll("*")]);
  const covered = own.flatMap(selector => [...document.querySelectorAll(selector)].slice(0, 12)).filter(element => {
    element.scrollIntoView({block: "center", behavior: "instant"});
    const {left, top, width, height} = element.getBoundingClientRect();
    const found = document.elementFromPoint(left + width / 2, top + height / 2);
    return !found || !width || !height || !(element.contains(found) || found.contains(element));
  });
  scrollTo(0, 0);
  const clips = (element, part) => {
    for (let above = element.parentElement; above && part.contains(above); above = above.parentElement) {
      const {overflowX, contain} = getComputedStyle(above);
      if (overflowX !== "visible" || /paint|content|strict/.test(contain)) return true;
    }
    return false;
  };
  const outside = inside.flatMap(part => {
    const room = part.getBoundingClientRect();
    return [...part.querySelectorAll("*")].filter(element => {
      const place = element.getBoundingClientRect();
      return place.width && place.height && (place.left < room.left - 8 || place.right > room.right + 8 ||
        place.top < room.top - 8 || place.bottom > room.bottom + 8) && !clips(element, part);
    });
  });
  const named = element => element.cloneNode().outerHTML.slice(0, 120);
  return {
    elements: elements.map(element => [
      element.localName, element.namespaceURI, [...element.attributes].map(({name, value}) => [name, value]),
    ]),
    moved: elements.filter(element => /fixed|absolute|sticky/.test(getComputedStyle(element).position)).map(named),
    covered: covered.map(named),
    outside: [...new Set(outside)].map(named),
    raised: document.querySelectorAll(":modal, :popover-open").length,
    shadows: elements.filter(element => element.shadowRoot).map(named),
    takers: top.takers || [],
    base: document.baseURI.split("#")[0] === document.URL.split("#")[0] ? [] : ["base"],
    lost: ["getElementById", "querySelector", "createElement"].filter(name => typeof document[name] !== "function")
      .concat(typeof document.title === "string" ? [] : ["title"]),
  };
}
"""

MATHS = "http://www.w3.org/1998/Math/MathML"
FORM = {"form", "input", "button", "select", "textarea", "option", "fieldset", "label"}
FRAME = {"iframe", "frame", "frameset", "object", "embed", "portal", "fencedframe"}
MATHML_ATTRIBUTE = re.compile(
    r"display|displaystyle|scriptlevel|mathvariant|mathcolor|stretchy|fence|form|separator|[lr]space|width|height|depth|"
    r"accent(?:under)?|linethickness|m(?:in|ax)size|largeop|movablelimits|notation|symmetric|class"
)

# What nbconvert and our page write: of Pygments, of a terminal's colours, of outputs.
OWN_CLASS = (
    r"anchor-link|(?:highlight(?: hl-\w+)?|ansi-[a-z-]+|[a-z]\w{0,2}|rich|stream|stderr|error|result|long|remark|paper|"
    r"formula| )*"
)


@dataclass(frozen=True)
class Seen:
    """What is where in a page.

    Attributes:
        parts: the selector of what is the student's.
        own: selectors of what is the page's own, and must stay as it is.
    """

    parts: str
    own: tuple[str, ...]


class Watch:
    """A window of a browser, from which nothing gets out, and in which each request is seen.

    Attributes:
        page: what is open in it.
        pages: what is found at addresses of our own.
        asked: the addresses that a page has asked for beyond these and the server's.
    """

    def __init__(self, context: BrowserContext, serves: Callable[[str], bool] = lambda address: False) -> None:
        """`serves` tells which addresses may be asked for."""
        self.pages: dict[str, str] = {}
        self.asked: list[str] = []
        self._static: dict[str, APIResponse] = {}
        from playwright.sync_api import Error

        self._context, self._serves, self._error = context, serves, Error
        context.set_default_timeout(30_000)
        context.add_init_script(REMEMBER_TITLES)
        context.on("dialog", self._dismiss)
        context.route("**/*", self._answer)
        self.page = context.new_page()

    def close(self) -> None:
        """Close it."""
        self._context.close()

    def open(self, address: str) -> None:
        """Open a page in it."""
        self.asked.clear()
        self.page.goto(address)

    def show(self, name: str, html: str) -> None:
        """Open a page of our own making."""
        self.pages[SITE + name] = html
        self.open(SITE + name)

    def styles(self, seen: Seen) -> list[str]:
        """How the page's own looks."""
        return list(self.page.evaluate(STYLES, list(seen.own)))

    def harm(self, seen: Seen, styles: list[str], settled: float = SETTLED) -> dict[str, Any]:
        """What of the page a student has got hold of once a reader has touched everything: by kind, and what was seen.

        `styles` are those of a page without a student's.
        """
        address = self.page.url
        try:
            self.page.evaluate(TOUCH, seen.parts)
            self.page.wait_for_timeout(settled)
            found = self.page.evaluate(LOOK, [seen.parts, list(seen.own)])
            now = self.styles(seen)
        except self._error as fault:
            if "navigation" not in str(fault) and "not a function" not in str(fault):
                raise
            self.page.close()
            self.page = self._context.new_page()
            return {"page": [*self.asked, str(fault)]}
        harm = _harm(found, [is_now for is_now, was in zip(now, styles, strict=True) if is_now != was])
        harm["request"] = list(self.asked)
        harm["frame"] += [frame.url for frame in self.page.frames[1:]]
        harm["window"] = [page.url for page in self._context.pages if page != self.page]
        harm["page"] = [self.page.url] if self.page.url != address else []
        return {kind: seen[:5] for kind, seen in harm.items() if seen}

    def _dismiss(self, dialog: Dialog) -> None:
        self.asked.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _pass(self, route: Route) -> None:
        """Let a server answer; it need not send the same script for each page."""
        address = route.request.url
        if "/static/" not in address:
            route.continue_()
            return
        if address not in self._static:
            self._static[address] = route.fetch()
        route.fulfill(response=self._static[address])

    def _answer(self, route: Route) -> None:
        address = route.request.url
        if address in self.pages:
            route.fulfill(body=self.pages[address], content_type="text/html; charset=utf-8")
        elif "/mathjax/" in address.lower():
            route.fulfill(body=MATHJAX, content_type="text/javascript")
        elif self._serves(address) and "away" not in address:
            self._pass(route)
        else:
            self.asked.append(address)
            route.abort()


def _harm(found: dict[str, Any], restyled: list[str]) -> dict[str, list[str]]:
    elements = [(tag, space, dict(attributes)) for tag, space, attributes in found["elements"]]
    tags = {tag for tag, _, _ in elements}
    attributes = [(tag, key, value) for tag, _, own in elements for key, value in own.items()]
    return {
        "title": [taker for taker in found["takers"] if TITLE in taker],
        "form": sorted(tags & FORM) + [tag for tag, key, _ in attributes if key == "contenteditable"],
        "frame": sorted(tags & FRAME),
        "style": restyled + found["moved"] + found["shadows"],
        "cover": found["covered"] + found["outside"] + ["top layer"] * found["raised"],
        "name": found["lost"] + [f"{tag} {key}={value}" for tag, key, value in attributes if _is_name(key, value)],
        "link": found["base"] + [str(own) for tag, _, own in elements if tag in ("a", "area") and _leads(own)],
        "element": [wrong for one in elements if (wrong := _wrong(*one))],
    }


def _is_name(attribute: str, value: str) -> bool:
    """Whether an attribute makes an element one that a script or a style of the page takes for its own."""
    if attribute in ("id", "name"):
        return not re.fullmatch(HARMLESS_VALUES["id"], value)
    if attribute == "class":
        return not re.fullmatch(OWN_CLASS, value)
    return attribute in ("slot", "part", "is") or attribute.startswith("data-")


def _leads(attributes: dict[str, str]) -> bool:
    """Whether a link does more than to lead to another page."""
    href = attributes.get("href", "#")
    return bool({"target", "ping", "download"} & attributes.keys()) or not re.match(r"https?://|mailto:|#", href)


def _wrong(tag: str, space: str, attributes: dict[str, str]) -> str:
    """What is wrong with an element that is not one of the few that are harmless."""
    if space == MATHS:
        odd = [name for name in attributes if not MATHML_ATTRIBUTE.fullmatch(name)]
        return f"{tag} {odd}" if odd or tag in ("maction", "annotation-xml", "semantics") else ""
    if tag not in HARMLESS_TAGS | {"h4", "h5", "h6"}:
        return tag
    for name, value in attributes.items():
        if (tag, name) in (("details", "open"), ("table", "border")):  # a reader opened it; a line around cells
            continue
        pattern = OWN_CLASS if name == "class" else HARMLESS_VALUES.get(name)
        if pattern is None or not re.fullmatch(pattern, value):
            return f"{tag} {name}={value}"
    return ""
