"""Settings of the documentation site, which `make docs` builds; `docs/site/build.py` prepares its pages."""

from tilewright.core.version import __version__

project = "Tilewright"
author = "The Tilewright project"
version = release = __version__
root_doc = "index"

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # as GitHub names them, which the links of the pages use

smartquotes = False  # values and options keep their signs, so that they can be copied

html_theme = "furo"
html_title = f"Tilewright {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "monokai"

add_module_names = False
maximum_signature_line_length = 90
suppress_warnings = ["ref.python"]  # a type in a signature whose name is in several modules
