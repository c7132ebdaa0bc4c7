"""All pages of the built documentation on one page, in the order of the navigation.

zensical has no page of that kind, and the plug-ins that make one belong to MkDocs. ``print.md`` is a page
like any other, with the site's style and in its navigation; here its text is replaced by the texts of all
pages. A name to link to gets its page's name in front ("queues--states"), so that names stay unique and
links from page to page lead to places of this page.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PRINTED = "print.html"
ARTICLE = re.compile(r'(<article class="md-content__inner md-typeset">)(.*?)(</article>)', re.DOTALL)
# The theme's own mark at the head of each article, which is no part of the text.
SKIP_NAME = "__skip"
SKIP_MARK = f'<a id="{SKIP_NAME}" tabindex="-1"></a>'


class Page(NamedTuple):
    """A page of the navigation: the group of its reader, its title, and its built file without the ending."""

    group: str
    title: str
    name: str


def pages(nav: list[dict[str, Any]], group: str = "") -> Iterator[Page]:
    """The pages of a navigation in order, without the one that holds them all."""
    for entry in nav:
        for title, below in entry.items():
            if isinstance(below, list):
                yield from pages(below, group or title)
            elif below != PRINTED.replace(".html", ".md"):
                yield Page(group, title, below.removesuffix(".md"))


class _Moved(HTMLParser):
    """The text of a page with its names and links as they must be on the one page."""

    def __init__(self, page: str, known: set[str]) -> None:
        super().__init__(convert_charrefs=False)
        self.page = page
        self.known = known
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Write the tag anew if it has a name or a link, and as it is otherwise."""
        changed = [(name, self._moved(name, value)) for name, value in attrs]
        if changed == attrs:
            self.parts.append(self.get_starttag_text() or "")
            return
        written = (name if value is None else f'{name}="{escape(value)}"' for name, value in changed)
        self.parts.append(f"<{' '.join([tag, *written])}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that closes itself is written like another: HTML needs no slash."""
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """As it is."""
        self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """As it is."""
        self.parts.append(data)

    def handle_entityref(self, name: str) -> None:
        """As it is."""
        self.parts.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        """As it is."""
        self.parts.append(f"&#{name};")

    def _moved(self, name: str, value: str | None) -> str | None:
        if value is None:
            return None
        if name in {"id", "for", "name"}:
            return f"{self.page}--{value}"
        if name != "href":
            return value
        path, hash_sign, anchor = value.removeprefix("./").partition("#")
        if path == PRINTED:
            return f"#{SKIP_NAME}"
        target = self.page if not path else path.removesuffix(".html")
        if target not in self.known or (path and not path.endswith(".html")):
            return value
        return f"#{target}--{anchor}" if hash_sign and anchor else f"#{target}"


def one_page(site: Path, wanted: list[Page]) -> str:
    """The printed page: a list of contents by reader, then every page."""
    known = {page.name for page in wanted}
    contents, texts, group = [], [], ""
    for page in wanted:
        if page.group != group:
            group = page.group
            contents.append(f"</ul><h2>{escape(group)}</h2><ul>")
        contents.append(f'<li><a href="#{page.name}">{escape(page.title)}</a></li>')
        moved = _Moved(page.name, known)
        moved.feed(_article(site / f"{page.name}.html")[2].replace(SKIP_MARK, ""))
        moved.close()
        style = 'class="printed" style="break-before:page"'
        texts.append(f'<section id="{page.name}" {style}>{"".join(moved.parts)}</section>')
    head = (
        f'<h1>All on one page</h1><div class="contents">{"".join(contents).removeprefix("</ul>")}</ul></div>'
    )
    shell = (site / PRINTED).read_text(encoding="utf-8")
    whole = _article(site / PRINTED)
    return shell.replace(whole[0], f"{whole[1]}{SKIP_MARK}{head}{''.join(texts)}{whole[3]}")


def _article(path: Path) -> re.Match[str]:
    found = ARTICLE.search(path.read_text(encoding="utf-8"))
    if found is None:
        msg = f"{path} has no article: the theme's template has changed"
        raise ValueError(msg)
    return found


def main(site: Path) -> None:
    """Fill the printed page of a site that zensical has built."""
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    text = one_page(site, list(pages(settings["nav"])))
    (site / PRINTED).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
