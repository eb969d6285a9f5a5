"""Configuration of the documentation site; `make docs` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from bitlane import __version__

project = "bitlane"
author = "the bitlane contributors"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinxarg.ext",
    "rooms",
    "history",
]
exclude_patterns = ["_extensions", "plots/*.md"]
nitpicky = True
# Types of other packages, shapes and words such as "array-like" are not links. Full names of bitlane must exist.
nitpick_ignore_regex = [(r"py:.*", r"(?!bitlane\.[\w.]+$).*")]
suppress_warnings = [
    "ref.python",  # a short name that several classes have
    "myst.domains",  # the domain of sphinx-argparse has no names that pages link to
]
default_role = "py:obj"  # single backquotes in a docstring: a link if the name exists, otherwise code

# --- pages
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 4

# --- docstrings
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "bysource"
autodoc_mock_imports = ["llvmlite", "numba", "pyarrow", "pynq", "pynqmetadata", "grpc", "scipy", "torch", "triton"]
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_custom_sections = [("Members", "params_style")]
napoleon_use_rtype = False
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

# --- the API reference has a page for each public room; a public name without a docstring is a warning
public_rooms = [
    "bitlane",
    "bitlane.training",
    "bitlane.devices",
    "bitlane.driver",
    "bitlane.contract",
    "bitlane.quantization",
    "bitlane.levels",
    "bitlane.policies",
    "bitlane.reference",
    "bitlane.data",
    "bitlane.evaluation",
    "bitlane.selftest",
    "bitlane.compress",
    "bitlane.sparse",
]
internal_rooms = [
    "bitlane.cli",
    "bitlane.errors",
    "bitlane.estimators",
    "bitlane.machine",
    "bitlane.overlays",
    "bitlane.reporting",
    "bitlane_studies",
    "bitlane.support",
]

# --- the site
html_theme = "pydata_sphinx_theme"
html_title = f"bitlane {release}"
html_static_path = ["_static"]
html_css_files = ["bitlane.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "secondary_sidebar_items": ["page-toc"],
}
linkcheck_anchors = False
