"""What people read: a message id with its arguments, turned into a sentence only when it is shown.

The id is the English sentence with named fields, as in gettext, so that a report can be stored once and read in any
language that has a catalogue under ``autograder/locale``.
"""

from __future__ import annotations

import gettext
from pathlib import Path
from typing import Any

import msgspec

LOCALE_FOLDER = Path(__file__).parent / "locale"
DOMAIN = "autograder"


def N_(text: str) -> str:  # noqa: N802 - the name that gettext tools extract by
    """Mark a sentence for the catalogue; it is translated later, when it is shown."""
    return text


class Message(msgspec.Struct, frozen=True):
    """A sentence that is not yet in any language.

    Args:
        id: the English sentence, with ``{name}`` fields.
        args: what goes into the fields: strings and numbers, or further messages.
    """

    id: str
    args: dict[str, Any] = {}

    def render(self, translations: gettext.NullTranslations | None = None) -> str:
        """The sentence in the language of `translations`, or in English."""
        template = translations.gettext(self.id) if translations else self.id
        return template.format(**{name: _shown(value, translations) for name, value in self.args.items()})


def message(id: str, **args: Any) -> Message:
    """A `Message` from its id and arguments; the id is written `N_("...")` where it is not a literal."""
    return Message(id, args)


def languages(folder: Path = LOCALE_FOLDER) -> list[str]:
    """The languages that reports can be read in: English, and those that have a catalogue."""
    return ["en", *sorted(path.parents[1].name for path in folder.glob(f"*/LC_MESSAGES/{DOMAIN}.mo"))]


def translations(language: str, folder: Path = LOCALE_FOLDER) -> gettext.NullTranslations:
    """The catalogue of a language such as ``"zh_CN"``; English where there is none."""
    return gettext.translation(DOMAIN, folder, [language], fallback=True)


def _shown(value: Any, translations: gettext.NullTranslations | None) -> Any:
    if isinstance(value, Message):
        return value.render(translations)
    if isinstance(value, dict) and value.keys() == {"id", "args"}:  # a message that has been through JSON
        return Message(**value).render(translations)
    return value
