"""One word, one thing: no two types share a name, and docs/names.md leads to names and files that exist."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
import tenon

ROOT = Path(__file__).parents[2]

# The types of these pairs keep their names, which users of PyTorch or loop_tool know, or which the op table uses
# throughout. Code outside of their folders names them with their namespace.
SHARED = {
    "Compute": {"tenon", "tenon::loops"},  # the dtype that an elementwise op computes in, and a node of loops
    "Node": {"tenon", "tenon::loops"},  # of a Graph, and loop_tool's IR::Node
    "Retriever": {"tenon::runtime", "tenon::tasks"},  # of compiled programs, and of tasks that are put together by hand
    "Symbol": {"tenon::symbolic", "tenon::named"},  # of an expression, and the name of a dimension
    "TaskGraph": {"tenon::runtime", "tenon::tasks"},  # likewise
    "TaskNode": {"tenon::runtime", "tenon::tasks"},  # likewise
    "Tensor": {"tenon", "tenon::named"},
}

TYPE = (
    r"\b(?:struct|class|enum(?:\s+class)?)\s+(?:\[\[\w+\]\]\s*)?(?P<type>\w+)(?!\w|::)\s*(?:final\s*)?(?::[^;{}()]*)?\{"
)
TOKEN = re.compile(rf'"(?:\\.|[^"\\])*"|\bnamespace\s+(?P<namespace>[\w:]*)\s*\{{|{TYPE}|[{{}}]')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def types_of(source):
    """(namespace, name) of each type at namespace scope. Nested types are left out: code names the outer type, too."""
    scopes = []  # of each open brace: the namespace's name, or None for a type or a block
    for token in TOKEN.finditer(COMMENT.sub("", source)):
        if token["namespace"] is not None:
            scopes.append(token["namespace"])
        elif token["type"]:
            if None not in scopes:
                yield "::".join(filter(None, scopes)), token["type"]
            scopes.append(None)
        elif token[0] == "{":
            scopes.append(None)
        elif token[0] == "}" and scopes:
            scopes.pop()


def headers():
    for folder in ("src", "runtime", "tools", "python"):
        yield from sorted((ROOT / folder).rglob("*.h"))


def shared_names(sources):
    """The names of several types, with the places of each, but for those in SHARED."""
    places = defaultdict(set)
    for path, source in sources:
        for namespace, name in types_of(source):
            places[name].add((namespace, path))
    return {
        name: sorted(where)
        for name, where in places.items()
        if len(where) > 1 and (len(where) > 2 or {namespace for namespace, _ in where} != SHARED.get(name))
    }


def test_no_two_types_share_a_name():
    found = shared_names((str(path.relative_to(ROOT)), path.read_text()) for path in headers())
    assert not found, "types of one name in several places: rename all but one, as the glossary says"


def test_types_of_one_name_are_found():
    one = "namespace tenon {\nenum class Kind : uint8_t { kA };\nclass Part final : public Base {\nstruct In {};\n};\n}"
    other = 'namespace tenon::loops {\nstruct Part { const char* s = "{"; };  // struct Kind {\nstruct In;\n}'
    assert list(types_of(one)) == [("tenon", "Kind"), ("tenon", "Part")]
    assert list(types_of(other)) == [("tenon::loops", "Part")]
    assert shared_names([("a.h", one), ("b.h", other)]) == {"Part": [("tenon", "a.h"), ("tenon::loops", "b.h")]}


def rows_of_names():
    for line in (ROOT / "docs/names.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 3 and cells[2].startswith("`"):
            yield pytest.param(*cells, id=cells[0].replace("*", "").replace("`", "")[:40])


def files_of(cell):
    for name in re.findall(r"`([^`]+)`", cell):
        path = ROOT / name if (ROOT / name).exists() else ROOT / "python/tenon/lazy" / name
        yield from sorted(path.rglob("*.*")) if path.is_dir() else [path]


@pytest.mark.parametrize(("theirs", "ours", "files"), list(rows_of_names()))
def test_a_name_that_tenon_has_is_in_its_file(theirs, ours, files):
    text = "\n".join(path.read_text() for path in files_of(files))
    for bold in re.findall(r"\*\*`([^`]+)`\*\*", theirs):
        name = re.match(r"[\w:]+", bold)[0].split("::")[-1]
        assert re.search(rf"\b{name}\b", text), f"{files} has no {name}"


def test_aliases_in_python():
    assert tenon.LocalModelTrainingInstance is tenon.LocalTrainingInstance
