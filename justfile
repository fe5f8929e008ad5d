# Words for what is done often; `uv run just` lists them.
_list:
    @just --list --unsorted

# what a developer runs while editing; with arguments, pytest's own: just test tests/unit/plan
test *arguments='--quick':
    tests/run {{ arguments }}

# all that has to hold for a change to land
ci:
    .ci/run

# format, lint, types, layers and spelling
lint:
    uv run ruff check --fix
    uv run ruff format
    uv run snakefmt Snakefile workflow gallery/Snakefile
    uv run lint-imports
    uv run mypy
    uv run codespell

# the quickstart, measured on this machine
quick:
    uv run snakemake --cores 1 reports/summary.html

# the site, with search, while you edit it
docs:
    uv run --group docs mkdocs serve

# the pages, the schema and the reference that are generated
generated:
    uv run python docs/reference.py

# the report, light and dark, at two widths
pictures folder='/tmp/pictures':
    uv run python -m tests.browser.pictures {{ folder }}

# wheel and sdist, in dist/
build:
    uv build

# what a release says: the section of its version in CHANGELOG.md
notes version:
    @awk '/^## \[/ { on = index($0, "[{{ version }}]") } on' CHANGELOG.md
