"""Sphinx' settings. `build.py` calls it."""

project = "Ottla"
author = "the authors of Ottla"
project_copyright = author
extensions = ["myst_parser"]
myst_heading_anchors = 4  # links name headings as GitHub does
highlight_language = "none"
html_theme = "furo"
html_title = "Ottla"
html_copy_source = False
html_show_sourcelink = False
html_static_path: list[str] = []
html_theme_options = {"navigation_with_keys": True}
