"""Rules of CONTRIBUTING.md that a program can check."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES = 60  # of a function
FOLDERS = ["src", "runtime", "tools", "accelerators", "js"]  # python/bind/ is one table after the other

# Strings, characters, comments and preprocessor lines: braces in them count for nothing.
NO_CODE = re.compile(
    r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
    re.DOTALL | re.MULTILINE,
)
HEAD = re.compile(r"\)\s*(?:const|noexcept|override|final|mutable|->[\w:<>,&*\s]+|:[^:].*)*\s*$", re.DOTALL)
STATEMENT = re.compile(r"(?:else\s+)?(?:if|for|while|switch|catch|namespace|class|struct|enum|union)\b")


def functions(text):
    """The first line, the number of lines and the head of every function and lambda, by their braces."""
    code = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    begun, line, head_from = [], 1, 0
    for position, letter in enumerate(code):
        if letter == "\n":
            line += 1
        elif letter == "{":
            begun.append((line, head_from, position))
            head_from = position + 1
        elif letter == "}":
            first, from_, brace = begun.pop()
            head = code[from_:brace].strip()
            if HEAD.search(head) and not STATEMENT.match(head) and code[brace - 1].isspace():
                yield first, line - first + 1, head
            head_from = position + 1 if code[brace - 1].isspace() else from_  # y_{x} is a part of its head
        elif letter == ";":
            head_from = position + 1


def test_functions_are_found_by_their_braces():
    text = """
namespace a {
struct B : C {
  B(int x) : C(x), y_{x} {
    call("}", '}');  // }
  }
};
template <class T>
auto f(T x) -> int {
  if (x) {
    each([&](int y) {
      use(y);
    });
  }
  return 1;
}
}  // namespace a
"""
    assert [(first, lines) for first, lines, _ in functions(text)] == [(4, 3), (11, 3), (9, 8)]


def test_no_function_is_longer_than_a_screen():
    found = 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            for first, lines, head in functions(path.read_text()):
                found += 1
                name = " ".join(head.split())[-60:]
                assert lines <= MOST_LINES, f"{path.relative_to(ROOT)}:{first}: {lines} lines: {name}"
    assert found > 5000


# Names that examples in comments give to files, and headers that the build makes.
NO_FILES = re.compile(r"model\.py|.*_generated\.h|embedded/.*|Linking\.md")
FILE = re.compile(r"(?<![\w/.<-])(?:[\w-]+/)*[\w-]+\.(?:h|hpp|cpp|py|mjs|fbs|md)\b")


def test_comments_name_files_that_there_are():
    folders = [*FOLDERS, "python", "include", "format", "tests", "bench", "examples", "docs", "web", "cmake"]
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files = [str(path.relative_to(ROOT)) for path in (*paths, *ROOT.glob("*.*"))]
    ends = {"/".join(file.split("/")[i:]) for file in files for i in range(file.count("/") + 1)}
    found = 0
    for file in files:
        if not file.endswith((".h", ".cpp", ".hpp", ".c", ".py", ".mjs")) or not file.startswith((*FOLDERS, "python")):
            continue
        for number, line in enumerate((ROOT / file).read_text().splitlines(), 1):
            comment = re.search(r"(?://|# |^ ?\*).*", line)
            for name in FILE.findall(comment[0]) if comment else []:
                found += 1
                assert name in ends or NO_FILES.fullmatch(name), f"{file}:{number}: there is no {name}"
    assert found > 100
