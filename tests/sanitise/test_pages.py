"""What a student wrote does nothing in the pages that nbconvert and formgrader make of it."""

from __future__ import annotations

import functools

import pytest
from nbgrader.server_extensions.formgrader import handlers

from tests.sanitise.attacks import ATTACKS, BOMBS
from tests.sanitise.pages import TEMPLATES, Page, cells_with, code_cell, display, export, export_apart

QUIET = "quiet"


@functools.cache
def pages_of_attacks(template: str) -> dict[str, str]:
    """Each attack's part of one page of them all: a page takes longer to make than the cells in it."""
    texts = [QUIET, *ATTACKS]
    shown = slice(None) if template == "formgrade" else slice(2)  # the first two are the texts that nbconvert trusts
    return dict(zip(texts, export_apart([cells_with(text)[shown] for text in texts], template), strict=True))


@pytest.mark.parametrize("text", ATTACKS)
@pytest.mark.parametrize("template", ["formgrade", "classic", "basic"])
def test_nothing_of_a_students_is_live(template: str, text: str) -> None:
    pages = pages_of_attacks(template)
    page = Page(pages[text])
    page.assert_harmless()
    assert page.outside == Page(pages[QUIET]).outside


def test_the_pages_are_formgraders_own() -> None:
    assert str(TEMPLATES) == handlers.template_path
    assert "formgrader/static" in export([])


@pytest.mark.parametrize("text", BOMBS, ids=lambda text: repr(text[:20]))
def test_huge_and_deep_output_is_bounded(text: str) -> None:
    kinds = ("text/html", "text/markdown", "text/latex", "text/plain")
    Page(export([code_cell(*(display({kind: text}) for kind in kinds))])).assert_harmless()
