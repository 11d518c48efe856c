"""The document around the sections: one file that forbids itself every request.

The policy allows the two scripts by their hashes and nothing else: no other script runs, whatever
a run is called, and no address is ever asked.
"""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from probe.figures.bundle import plotly_script, template_json
from probe.report.chart import ChartPaper, json_script
from probe.report.markup import Html, element, joined


def page(
    *,
    title: str,
    lead: str,
    sections: Sequence[tuple[str, str, Html]],
    paper: ChartPaper,
    about: str,
) -> str:
    """The whole document; a section is its anchor, its name and its content."""
    here = files("probe.report")
    style = here.joinpath("report.css").read_text(encoding="utf-8")
    scripts = [plotly_script(), here.joinpath("report.js").read_text(encoding="utf-8")]
    links = [element("li", element("a", name, href=f"#{anchor}")) for anchor, name, _ in sections]
    head = joined(
        (
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<meta name="referrer" content="no-referrer">'),
            element("title", title),
            Html(f"<style>{style}</style>"),
        )
    )
    body = joined(
        (
            element(
                "header",
                element("h1", title),
                element("p", lead, class_="soft"),
                element("nav", element("ul", *links), aria_label="Sections"),
            ),
            element("main", *(content for _, _, content in sections)),
            element("footer", element("p", about)),
            Html(
                "<noscript><p>The charts need JavaScript; tables and words do not.</p></noscript>"
            ),
            json_script("templates", template_json()),
            paper.data(),
            *(Html(f"<script>{script}</script>") for script in scripts),
        )
    )
    whole = Html(f'<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>')
    return f"<!doctype html>\n{whole}\n"


def _policy(scripts: Sequence[str]) -> str:
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
