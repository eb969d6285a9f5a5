"""Pickles of estimators that know the version of bitlane they were made by."""

from __future__ import annotations

from typing import Any

from .user_warnings import warn_user
from .version import version

_VERSION = "_bitlane_version"


class VersionedPickle:
    """Puts the version of bitlane into pickles, and warns where another one reads them, as scikit-learn does."""

    def __getstate__(self) -> dict[str, Any]:
        inherited = getattr(super(), "__getstate__", None)  # of scikit-learn, or of objects since Python 3.11
        return {**(self.__dict__ if inherited is None else inherited()), _VERSION: version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if (found := state.pop(_VERSION, "an earlier version")) != version():
            warn_user(
                f"this {type(self).__name__} was pickled by bitlane {found}, and read by {version()}: "
                "it may fail or predict otherwise; fit it again"
            )
        inherited = getattr(super(), "__setstate__", self.__dict__.update)
        inherited(state)
