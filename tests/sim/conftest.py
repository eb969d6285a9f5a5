"""Fixtures of these tests."""

from tests.helpers.mischief import mischief

__all__ = ["mischief"]
