"""The report as one HTML page that needs nothing beside it.

The page is a Jinja template with escaping on, since names and paths come from files that others wrote. As a
second wall its content security policy allows no request at all and only the two scripts with the hashes that
it names, so a text that slipped through could still not run. ``write`` puts the page into its file.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files

import jinja2
import msgspec
import vl_convert
from markupsafe import Markup

from gpufleet.model.visible import visible_text
from gpufleet.replay.report.chart import Chart, page_spec
from gpufleet.replay.report.headline import Headline
from gpufleet.replay.report.node_map import LEVEL_MEANINGS, MAP_WIDTH, NodeMap, heat_ink
from gpufleet.replay.report.palette import css_variables
from gpufleet.replay.report.table import Table

_HERE = files(__package__)


class Section(msgspec.Struct, frozen=True):
    """A part of the page: a heading and what stands under it."""

    anchor: str
    title: str
    charts: tuple[Chart, ...] = ()
    maps: tuple[NodeMap, ...] = ()
    maps_table: Table | None = None
    tables: tuple[Table, ...] = ()
    folded_tables: tuple[Table, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def has_one_key(self) -> bool:
        """Whether its charts are read alike, so that key and reading stand above them once."""
        return len(self.charts) > 1 and len({(one.key, one.reading) for one in self.charts}) == 1

    @property
    def is_paired(self) -> bool:
        """Whether charts may stand side by side: those of several panels need the whole width."""
        return len(self.charts) > 1 and all(len(one.panels) == 1 for one in self.charts)


class Page(msgspec.Struct, frozen=True):
    """All that the page shows, in order. ``command`` is the command whose report it is."""

    headline: Headline
    warnings: tuple[str, ...]
    standings: Table | None
    sections: tuple[Section, ...]
    command: str = "replay"


def _text_of(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")


def _style() -> str:
    light, dark = css_variables(dark=False), css_variables(dark=True)
    return (
        f":root{{color-scheme:light;{light}}}"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}"
        f"@media print{{:root,:root[data-theme=dark]{{color-scheme:light;{light}}}}}" + _text_of("page.css")
    )


def _policy_of_contents(scripts: Sequence[str]) -> str:
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}"


def _chart_data(sections: Sequence[Section]) -> str:
    """What the page's script draws, as JSON in which no tag can begin or end."""
    panels = [
        {"target": f"{chart.name}-{number}", "spec": page_spec(chart, panel)}
        for section in sections
        for chart in section.charts
        for number, panel in enumerate(chart.panels)
    ]
    return json.dumps(panels, separators=(",", ":")).replace("<", "\\u003c")


def _unescaped(text: str) -> Markup:
    """For own files, drawings that hold numbers only, and JSON that ``_chart_data`` made safe."""
    return Markup(text)  # noqa: S704 - see above: none of it is text that came from input


def _shown(value: object) -> object:
    """What a template writes: text of others with nothing hidden in it."""
    return visible_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def page_html(page: Page) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    first_script = _text_of("theme.js")
    has_charts = any(section.charts for section in page.sections)
    last_script = vl_convert.javascript_bundle(_text_of("charts.js")) if has_charts else ""
    template = environment.from_string(_text_of("page.html.jinja"))
    return template.render(
        page=page,
        content_policy=_policy_of_contents((first_script, last_script)),
        style=_unescaped(_style()),
        first_script=_unescaped(first_script),
        last_script=_unescaped(last_script),
        chart_data=_unescaped(_chart_data(page.sections)),
        levels=[(meaning, heat_ink(level)) for level, meaning in enumerate(LEVEL_MEANINGS)],
        map_width=MAP_WIDTH,
        drawing=_unescaped,
    )
