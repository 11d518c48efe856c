"""Names from runs as text in a figure, never as markup.

Plotly reads tags, entities, `%{…}` and `$…$` in every text that it draws. Each such sign is written
as an entity, which it shows as the sign.
"""

LONGEST = 48
_SIGNS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "%": "&#37;", "\\": "&#92;"}


def plain(name: str, *, longest: int = LONGEST) -> str:
    """The name as it is; what is too long loses its middle, for ends tell parameters apart."""
    if len(name) > longest:
        head = (longest - 1) // 2
        name = f"{name[:head]}…{name[len(name) - (longest - 1 - head) :]}"
    return "".join(map(_shown, name))


def words(term: str) -> str:
    """A word of the vocabulary for people: gather_wait is gather wait."""
    return plain(term.replace("_", " "))


def _shown(character: str) -> str:
    if not character.isprintable():
        return character.encode("unicode_escape").decode("ascii").replace("\\", "&#92;")
    return _SIGNS.get(character, character)
