"""An object of a tokenizer.json: its entries with their types. What is missing, of another type or unknown is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fluxformer.hdf5_file import RunError


class Entry:
    """An object of JSON and where it stands.

    Parameters
    ----------
    path : str
        The file.
    place : str
        Names that lead to the object ("normalizer.normalizers[0]"); "" for all of the file.
    value : object
        What json made of it. RunError unless it is an object.
    """

    def __init__(self, path: str, place: str, value: Any) -> None:
        self.path, self.place = path, place
        if not isinstance(value, dict):
            raise self.refuse("is no object with names")
        self._values: dict[str, Any] = value

    def refuse(self, why: str, name: str = "") -> RunError:
        """The exception for this object, or for its entry `name`."""
        place = ".".join(filter(None, (self.place, name)))
        if name and name in self._values:
            shown = json.dumps(self._values[name], ensure_ascii=False)
            place += f" = {shown if len(shown) < 60 else shown[:57] + '...'}"
        return RunError(f"{self.path}: {place or 'it'}: {why}")

    def known(self, *names: str) -> None:
        """RunError if there are entries of other names: nobody knows what they change. Those that are null or false change nothing."""
        for name, value in self._values.items():
            if name not in names and value is not None and value is not False:
                raise self.refuse("an entry that is not known here", name)

    def has(self, name: str) -> bool:
        """True if there is an entry of this name that is not null."""
        return self._values.get(name) is not None

    def get(self, name: str) -> Any:
        """The entry as it is; None if it is not there."""
        return self._values.get(name)

    def kind(self, known: Iterable[str]) -> str:
        """The entry `type`, which must be one of `known`."""
        kind = self.text("type")
        if kind not in known:
            raise self.refuse(f"not read here; there are {', '.join(known)}", "type")
        return kind

    def text(self, name: str, default: str | None = None) -> str:
        """A text; `default` None: it must be there."""
        value = self._values.get(name, default)
        if not isinstance(value, str):
            raise self.refuse("must be a text", name)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._values[name] if self.has(name) else default
        if not isinstance(value, bool):
            raise self.refuse("must be true or false", name)
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number from 0; `default` None: it must be there."""
        value = self._values.get(name, default)
        if type(value) is not int or value < 0:
            raise self.refuse("must be a whole number from 0", name)
        return value

    def part(self, name: str) -> Entry | None:
        """An object; None if it is not there or null."""
        return Entry(self.path, self._under(name), self._values[name]) if self.has(name) else None

    def parts(self, name: str) -> list[Entry]:
        """A list of objects; empty if it is not there or null."""
        return [Entry(self.path, f"{self._under(name)}[{number}]", one) for number, one in enumerate(self.items(name))]

    def items(self, name: str) -> list[Any]:
        """A list; empty if it is not there or null."""
        value = self._values[name] if self.has(name) else []
        if not isinstance(value, list):
            raise self.refuse("must be a list", name)
        return value

    def must_be(self, name: str, *allowed: Any) -> None:
        """RunError unless the entry is null, not there, or one of those."""
        value = self._values.get(name)
        if value is not None and not any(value == one and type(value) is type(one) for one in allowed):
            raise self.refuse("not read here", name)

    def _under(self, name: str) -> str:
        return ".".join(filter(None, (self.place, name)))
