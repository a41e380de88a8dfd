"""The one exception of the package."""

from __future__ import annotations


class Error(ValueError):
    """What cannot be done, and why.

    ``str(error)`` is the whole message, the same that the command line prints. Its parts are
    attributes; those that a message does not have are empty.
    """

    what: str
    """Room and fixed words: ``app: length cannot be packed``."""
    where: str
    """Argument with index or key path, or the file: ``lengths[3]``."""
    found: str
    """The value that was given."""
    expected: str
    """What can be used."""
    fix: str
    """What to do about it."""
    fault: str
    """Who acts: ``input`` (the caller), ``resource`` (the machine) or ``bug`` (the authors)."""

    def __init__(
        self,
        message: str,
        what: str = "",
        where: str = "",
        found: str = "",
        expected: str = "",
        fix: str = "",
        fault: str = "input",
    ) -> None:
        super().__init__(message, what, where, found, expected, fix, fault)
        self.what = what or message
        self.where = where
        self.found = found
        self.expected = expected
        self.fix = fix
        self.fault = fault

    def __str__(self) -> str:
        return str(self.args[0])
