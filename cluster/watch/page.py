"""The page of `parley watch`: the report's style and elements, and scripts of its own that ask for what they draw."""

from __future__ import annotations

from importlib.resources import files

from cluster.report.page import assembled

SHARED = (
    *("elements", "save", "axis", "chart", "learning", "comparing", "map", "intentions", "results", "games"),
)  # of the report
SCRIPTS = ("asking", "table", "tokens", "lanes", "live")  # in this order


def live_page(title: str) -> tuple[str, dict[str, str]]:
    """The page, and the headers that it is sent with."""
    mine = files("cluster.watch") / "assets"
    html = assembled(
        title,
        data={},
        scripts=SHARED,
        more_scripts=[(mine / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS],
        more_style=(mine / "live.css").read_text(encoding="utf-8"),
        connect="'self'",
    )
    return html, {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"}
