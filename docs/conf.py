"""Configuration of the documentation site; `make docs` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from repository import repository_url

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
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "rooms",
    "history",
    "versions",
]
exclude_patterns = ["_extensions", "_drawings", "plots/*.md"]
templates_path = ["_templates"]
nitpicky = True
# Types of other packages, shapes and words such as "array-like" are not links. Full names of bitlane must exist.
nitpick_ignore_regex = [(r"py:.*", r"(?!bitlane\.[\w.]+$).*")]
suppress_warnings = [
    "ref.python",  # a short name that several classes have
    "myst.domains",  # the domain of sphinx-argparse has no names that pages link to
]
default_role = "py:obj"  # single backquotes in a docstring: a link if the name exists, otherwise code

# --- pages
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4

# --- docstrings
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "bysource"
autodoc_mock_imports = ["pynq", "pynqmetadata", "grpc", "torch", "triton"]
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
    "bitlane.encoded",
    "bitlane.solvers",
    "bitlane.evaluation",
    "bitlane.selftest",
    "bitlane.compress",
    "bitlane.sparse",
]
internal_rooms = [
    "bitlane.notebooks",
    "bitlane.planning",
    "bitlane.cli",
    "bitlane.errors",
    "bitlane.estimators",
    "bitlane.machine",
    "bitlane.overlays",
    "bitlane.reporting",
    "bitlane_studies",
    "bitlane.support",
]

# --- the gallery runs the examples: a picture of each comes from its run
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "sphinx_gallery.sorting.NumberOfCodeLinesSortKey",
    "default_thumb_file": str(Path(__file__).parent / "_static" / "logo.svg"),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "write_computation_times": False,
    "show_signature": False,
    "capture_repr": (),
}

# --- the site
repository = repository_url(Path(__file__).parents[1])
html_theme = "pydata_sphinx_theme"
html_title = f"bitlane {release}"
html_static_path = ["_static"]
html_context = {"default_mode": "auto"}
html_css_files = ["bitlane.css"]
html_js_files = [("versions.js", {"defer": "defer"})]
html_favicon = "_static/logo.svg"
html_sidebars = {page: [] for page in ("index", "tutorial", "history", "stability", "contributing", "changelog")}
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "logo": {"text": "bitlane", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "header_links_before_dropdown": 6,
    "navbar_persistent": ["search-button"],
    "navbar_end": ["versions", "theme-switcher", "navbar-icon-links"],
    "icon_links": [
        {"name": "Repository", "url": url, "icon": f"fa-brands fa-{'github' if 'github' in url else 'git-alt'}"}
        for url in (repository,)
        if url
    ],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "secondary_sidebar_items": ["page-toc"],
}
copybutton_selector = "div:not(.highlight-text) > div.highlight pre"  # code, and not what it prints
linkcheck_anchors = False
