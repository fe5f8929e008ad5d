"""A table as the page and the Markdown show it: its cells are written once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Name:
    """A cell that names a variant: it is shown with its look and its marks."""

    variant: str


@dataclass(frozen=True)
class Styled:
    """A cell whose text has a class of the page's style sheet, or is bold in the Markdown."""

    text: str
    css: str = ""
    is_bold: bool = False


Cell = str | Name | Styled


@dataclass(frozen=True)
class Table:
    """Rows of cells below their heads.

    Attributes:
        label: what a screen reader calls it.
        heads: a head a column.
        rows: a cell a column; the last cell of a shorter row takes the place of those missing.
        texts: the heads whose columns are text; the others hold numbers.
        css: classes of the box and of the table itself.
        groups: titles that stand above a row, by its index.
    """

    label: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    texts: Collection[str]
    css: tuple[str, str] = ("", "")
    groups: Mapping[int, str] = field(default_factory=dict)

    def pick(self, columns: Mapping[str, str]) -> "Table":
        """Return some columns in another order: their new heads, with those that they have."""
        at = [self.heads.index(head) for head in columns.values()]
        return replace(
            self,
            heads=list(columns),
            rows=[[row[index] for index in at] for row in self.rows],
            texts=[head for head, of in columns.items() if of in self.texts],
        )
