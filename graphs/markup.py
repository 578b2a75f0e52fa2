"""Building blocks of the report's HTML. Everything that is not `Html` is escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape


class Html(str):
    """Text that is markup already; made by this module and `coda.graphs.charts` only."""

    __slots__ = ()


Content = str | int | float | Html | None
"""What an element may hold: plain text is data, also when a model wrote it; None is nothing."""


def text(value: Content) -> Html:
    """Escape unless it is markup."""
    if isinstance(value, Html):
        return value
    if value is None:
        return Html("")
    return Html(escape(f"{value:g}" if isinstance(value, float) else str(value)))


def tag(name: str, *children: Content, klass: str = "", **attributes: str) -> Html:
    """One element. Attribute values are escaped; ``data_x`` becomes ``data-x``."""
    given = {"class": klass, **attributes} if klass else attributes
    pairs = "".join(f' {k.replace("_", "-")}="{escape(v)}"' for k, v in given.items())
    return Html(f"<{name}{pairs}>{''.join(text(child) for child in children)}</{name}>")


def join(parts: Iterable[Content], separator: str = "") -> Html:
    """Concatenate; the separator is text."""
    return Html(escape(separator).join(text(part) for part in parts))


def table(head: Sequence[Content], rows: Iterable[Sequence[Content]], *, numeric: int = 0) -> Html:
    """A table in a box that scrolls sideways; the last `numeric` columns are right-aligned."""
    first_numeric = len(head) - numeric

    def cells(kind: str, row: Sequence[Content]) -> Html:
        row = ["–" if cell is None else cell for cell in row]
        return join(
            tag(kind, c, klass="num" if i >= first_numeric else "") for i, c in enumerate(row)
        )

    body = [tag("tr", cells("td", row)) for row in rows]
    if not body:
        return tag("p", "None.", klass="dim")
    parts = (tag("thead", tag("tr", cells("th", head))), tag("tbody", join(body)))
    return tag("div", tag("table", *parts), klass="scroll")


def details(summary: Content, *children: Content, is_open: bool = False) -> Html:
    """A part that folds."""
    inner = join([tag("summary", summary), *children])
    return Html(f"<details{' open' if is_open else ''}>{inner}</details>")


def section(title: str, *children: Content, anchor: str) -> Html:
    """A section with a heading that the page's menu points to."""
    return tag("section", tag("h2", title), *children, id=anchor)


def image(data: bytes, kind: str, caption: Content, *, width: int) -> Html:
    """A picture inside the page; `kind` is ``png`` or ``webp``, `width` in CSS pixels."""
    encoded = base64.b64encode(data).decode()
    alt = escape(str(caption) if not isinstance(caption, Html) else "")
    picture = Html(
        f'<img src="data:image/{kind};base64,{encoded}" width="{width}" alt="{alt}" loading="lazy">'
    )
    return tag("figure", picture, tag("figcaption", caption))


def chip(label: str, tone: str) -> Html:
    """A small coloured label, e.g. a verdict or a status."""
    return tag("span", label, klass=f"chip {tone}")
