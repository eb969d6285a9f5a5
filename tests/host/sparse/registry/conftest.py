"""Fixtures: reports without their drawings."""

from tests.helpers.pictures import blank_pictures, drawn

__all__ = ["blank_pictures", "drawn"]
