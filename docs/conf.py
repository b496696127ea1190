"""Settings of the Sphinx documentation."""

project = "ndual"
author = "the ndual developers"
copyright = "2026, the ndual developers"  # noqa: A001

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 2
html_theme = "furo"
autosummary_generate = False
numpydoc_show_class_members = False
autodoc_typehints = "none"
