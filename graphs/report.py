"""`report.html`: one self-contained page about a run. No script, no outside address.

All text is escaped: what a model wrote is data. Without an off-screen OpenGL the page says so
where the pictures would be.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from coda.graphs.charts import Rate, Series, axis_chart, success_chart
from coda.graphs.facts import RunFacts, read_facts
from coda.graphs.markup import Content, Html, chip, image, join, section, table, tag
from coda.graphs.media import Media, make_media
from coda.graphs.progress import clock_text
from coda.graphs.report_modes import modes_section, rate
from coda.graphs.report_tables import (
    agents_section,
    costs_section,
    directives_section,
    engine_section,
    versions_section,
)
from coda.graphs.runfolder import RunError, write_atomic
from coda.sim.roles import AXES

MENU = (
    ("success", "Success"),
    ("modes", "Modes"),
    ("scenes", "Scenes"),
    ("films", "Films"),
    ("engine", "Data engine"),
    ("agents", "Agents"),
    ("directives", "Directives"),
    ("costs", "Costs"),
    ("versions", "Versions"),
)
SCENE_WIDTH, FILM_WIDTH = 150, 256
"""Of a picture [CSS pixels]."""
VERDICTS = ("confirmed", "refuted", "undecided")


def write_report(run_dir: Path, *, media: Media | None = None) -> Path:
    """Write ``report.html`` into a run folder, of a finished run or one that goes on.

    Args:
        run_dir: The run folder.
        media: Pictures to show; rendered from the stored rollouts by default.

    Returns:
        Path of the page.

    Raises:
        CodaError: Not a run folder, or it cannot be written.
    """
    facts = read_facts(run_dir)
    page = report_page(facts, make_media(facts) if media is None else media)
    try:
        write_atomic(facts.folder.report, page)
    except OSError as error:
        raise RunError(f"cannot write {facts.folder.report}: {error.strerror}.") from None
    return facts.folder.report


def report_page(facts: RunFacts, media: Media) -> str:
    """The whole page as text."""
    style = (Path(__file__).with_name("templates") / "report.css").read_text(encoding="utf-8")
    menu = join(tag("a", title, href=f"#{anchor}") for anchor, title in MENU)
    body = join(
        [
            header(facts),
            tag("nav", tag("div", menu)),
            tag(
                "main",
                success_section(facts),
                modes_section(facts),
                scenes_section(media),
                films_section(media),
                engine_section(facts),
                agents_section(facts),
                directives_section(facts),
                costs_section(facts),
                versions_section(facts),
            ),
        ]
    )
    head = join(
        [
            Html('<meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            tag("title", f"CoDA run {facts.name}"),
            Html(f"<style>\n{style}</style>"),
        ]
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def header(facts: RunFacts) -> Html:
    """Run, commit, model, and the numbers that matter."""
    commit = str(facts.versions.get("git_commit") or "none (installed package)")
    models = ", ".join(facts.model_labels) or "none asked yet"
    seconds = sum(run.seconds or 0.0 for run in facts.nodes)
    rounds = max((run.round or 0 for run in facts.nodes if run.node != "plan"), default=0)
    line = (
        f"{facts.config.family} · seed {facts.config.seed} · round {rounds} of "
        f"{facts.config.rounds} · {clock_text(seconds)} wall-clock · policy: {facts.policy_label} "
        f"· agents: {models}"
    )
    state = chip(facts.state, "good" if facts.state == "finished" else "mid")
    return tag(
        "header",
        tag("h1", f"CoDA run {facts.name} ", state),
        tag("p", line, klass="dim"),
        tag("p", f"commit {commit}", klass="dim small"),
        tag("div", *tiles(facts), klass="tiles"),
    )


def tiles(facts: RunFacts) -> list[Html]:
    """The summary numbers."""
    verdicts = Counter(row.verdict for row in facts.tests)
    statuses = Counter(mode.status for mode in facts.modes.values())
    accepted = sum(row.accepted for row in facts.proposals)
    proposed = accepted + sum(row.rejected for row in facts.proposals)
    modes = ", ".join(f"{n} {name}" for name, n in statuses.items()) or "none yet"
    verdict_text = " · ".join(f"{verdicts[name]} {name}" for name in VERDICTS)
    return [
        _success_tile(facts, "ood", "OOD success, SFT → now"),
        _success_tile(facts, "in", "In success, SFT → now"),
        _tile("Diagnoses tested", str(len(facts.tests)), verdict_text),
        _tile("Difficulty modes", str(len(facts.modes)), modes),
        _tile("Accepted environments", str(accepted), f"of {proposed} proposed"),
    ]


def _tile(name: str, value: str, note: str) -> Html:
    return tag(
        "div",
        tag("span", name, klass="name"),
        tag("b", value),
        tag("span", note, klass="small dim"),
        klass="tile",
    )


def _success_tile(facts: RunFacts, split: str, name: str) -> Html:
    points = success_points(facts, split)
    if not points:
        return _tile(name, "–", "not measured yet")
    first, last = points[0], points[-1]
    interval = f"{100 * last.low:.0f}–{100 * last.high:.0f} %"
    note = f"{first.successes}/{first.trials} → {last.successes}/{last.trials}; final {interval}"
    return _tile(name, f"{100 * first.mean:.0f} → {100 * last.mean:.0f} %", note)


def success_points(facts: RunFacts, split: str, label: str = "all") -> list[Rate]:
    """Rates of a split by round; round 0 is the supervised seed policy (SFT)."""
    return [
        rate("SFT" if row.round == 0 else f"round {row.round}", row.successes, row.trials)
        for row in facts.measured(split, label)
    ]


def success_section(facts: RunFacts) -> Html:
    """Success per round, and per axis before and after."""
    ood, inside = success_points(facts, "ood"), success_points(facts, "in")
    if not ood and not inside:
        return section("Success", tag("p", "Not measured yet.", klass="dim"), anchor="success")
    by_round = {p.label: p for p in inside}
    rounds = list(dict.fromkeys(p.label for p in (*inside, *ood)))
    of_ood = {p.label: p for p in ood}
    none = {label: rate(label, 0, 0) for label in rounds}
    series = (
        Series(name="In", tone="in", points=[by_round.get(r, none[r]) for r in rounds]),
        Series(name="OOD", tone="ood", points=[of_ood.get(r, none[r]) for r in rounds]),
    )
    rows = [(r, by_round.get(r, none[r]).text, of_ood.get(r, none[r]).text) for r in rounds]
    return section(
        "Success",
        tag(
            "p",
            "OOD: frozen held-out scenes that no training scene may come near. In: a frozen draw "
            "of the generators' own range. Bars are 95 % Wilson intervals.",
            klass="dim",
        ),
        tag("div", Html(success_chart(series)), klass="card"),
        table(("policy", "In", "OOD"), rows),
        *_axes(facts),
        anchor="success",
    )


def _axes(facts: RunFacts) -> list[Content]:
    """OOD success per axis, SFT against the last measured round."""
    labels = {row.label for row in facts.progress if row.split == "ood"}
    known = [axis for axis in AXES if axis in labels]
    axes = [*known, *sorted(labels - {*known, "all"})]
    before: list[Rate] = []
    after: list[Rate] = []
    for axis in axes:
        rows = facts.measured("ood", axis)
        before.append(rate(axis, rows[0].successes, rows[0].trials))
        after.append(rate(axis, rows[-1].successes, rows[-1].trials))
    if not axes:
        return []
    pairs = zip(before, after, strict=True)
    return [
        tag("h3", "OOD per axis"),
        tag("p", "Grey: the seed policy (SFT). Coloured: the final policy.", klass="small dim"),
        tag("div", Html(axis_chart(before, after, ("SFT", "final"))), klass="card"),
        table(
            ("axis", "SFT", "final", "change"),
            ((b.label, b.text, a.text, _points(a.mean - b.mean)) for b, a in pairs),
            numeric=1,
        ),
    ]


def _points(change: float) -> str:
    """A change of a rate in percentage points."""
    return f"{100 * change:+.0f} points".replace("-", "−")


def scenes_section(media: Media) -> Html:
    """A few accepted scenes of the latest programs."""
    groups = []
    for group in media.scenes:
        words = list(dict.fromkeys(p.caption for p in group.pictures))
        same = words[0] if len(words) == 1 else None  # said once, not under every picture
        pictures = [
            image(p.data, "webp", "" if same else p.caption, width=SCENE_WIDTH)
            for p in group.pictures
        ]
        groups.append(
            tag(
                "div",
                tag("h3", group.title),
                tag("p", f"“{same}”", klass="small dim") if same else None,
                tag("div", *pictures, klass="gallery"),
            )
        )
    return section("Scenes", _or_why(groups, media, "No generated scenes yet."), anchor="scenes")


def films_section(media: Media) -> Html:
    """Rollouts of the same scene, seed policy against final policy."""
    groups = []
    for group in media.films:
        films = [
            image(
                film.data,
                "webp",
                join([chip(*_outcome(film.success)), f" {film.caption}"]),
                width=FILM_WIDTH,
            )
            for film in group.pictures
        ]
        groups.append(tag("div", tag("h3", group.title), tag("div", *films, klass="gallery")))
    return section(
        "Rollout films", _or_why(groups, media, "No rollouts kept to film."), anchor="films"
    )


def _outcome(success: bool | None) -> tuple[str, str]:
    return ("success", "good") if success else ("failure", "bad")


def _or_why(groups: list[Html], media: Media, nothing: str) -> Html:
    if groups:
        return tag("div", *groups, klass="sheets")
    why = f"No pictures: {media.problem}" if media.problem else nothing
    return tag("p", why, klass="dim")
