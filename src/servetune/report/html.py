"""`summary.html`: one file that holds its data, its charts and the program that draws them.

Nothing is fetched, and a Content-Security-Policy says so: only the two scripts of this file run,
known by their hashes. All text that users gave goes through Jinja's escaping, and into the data
of the charts as JSON whose `<`, `>` and `&` are escaped.
"""

from markupsafe import Markup

from servetune.report import page, provenance
from servetune.report.marks import POOR
from servetune.report.measured import Measured
from servetune.report.palette import TOKENS, styles, vega_config
from servetune.report.section import sections


def render_html(measured: Measured) -> str:
    """Render the report as one self-contained page."""
    plan, table, sessions = measured.plan, measured.table, measured.sessions
    looks = styles(plan.variants, plan.baseline)
    made = sections(measured)
    drawn = {name: spec for each in made for name, spec in each.charts.items() if spec}
    program, script = page.bundle(), (page.HERE / "page.js").read_text(encoding="utf-8")
    return (
        page.environment()
        .get_template("page.html.j2")
        .render(
            plan=plan,
            sections=made,
            anchors={section.anchor for section in made},
            charts=drawn,
            legend=looks,
            looks={look.variant: index for index, look in enumerate(looks)},
            themes={theme: vega_config(theme, looks) for theme in TOKENS},
            dummies=measured.dummies,
            failing=measured.failing,
            poor=POOR,
            hosts=provenance.hosts(table, sessions),
            commits=provenance.commits(table, sessions),
            versions=provenance.versions(plan, table, sessions),
            style=Markup((page.HERE / "page.css").read_text(encoding="utf-8")),
            variables=Markup(page.variables(looks)),
            scripts=[Markup(program), Markup(script)],
            script_hashes=[page.script_hash(program), page.script_hash(script)],
        )
    )
