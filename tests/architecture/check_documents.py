"""Checks links, anchors, paths, names of tests, citations and lengths of paragraphs."""

import re
from pathlib import Path

CODE = ("src", "tests", "bench", "scripts", "setup", "cmake", "configs", "examples")
SUFFIXES = {".h", ".cpp", ".cu", ".py", ".pyi", ".sh", ".cmake", ".txt", ".yaml", ".js"}
COMMENT_START = re.compile(r"^\s*(?:///?<?|#|\*)?\s*", re.MULTILINE)
CITATION = re.compile(r'(?<![\w/.-])([\w.-][\w./-]*\.md)\b((?:,\s+"[^"]+"(?:\s+and\s+"[^"]+")*)?)')
CITED_LINK = re.compile(r'\]\(([^)#\s]+\.md)\)((?:,\s+"[^"]+"(?:\s+and\s+"[^"]+")*))')
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
PATH = re.compile(r"`((?:src|docs|tests|bench|scripts|setup|configs)/[\w./-]+)`")
TEST = re.compile(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MAX_WORDS_OF_PARAGRAPH = 80
MAX_WORDS_OF_CELL = 40


def pages_of(root):
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("src/**/README.md")])


def code_of(root):
    for folder in CODE:
        for file in sorted((root / folder).rglob("*")):
            planted = file.name == "documents_test.py"  # cites missing pages, to see them refused
            if file.suffix in SUFFIXES and file.is_file() and not planted:
                yield file


def headings_of(page):
    text = FENCE.sub("", page.read_text())
    return [found.strip() for found in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]


def slug_of(heading):
    kept = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
    return kept.replace(" ", "-")


def anchors_of(page):
    counts = {}
    for slug in map(slug_of, headings_of(page)):
        count = counts[slug] = counts.get(slug, -1) + 1
        yield slug if count == 0 else f"{slug}-{count}"


def find_cited(root, file, name):
    """Finds a cited page from the root of the project, or from the folder of the citing file."""
    for folder in (root, file.parent):
        if (folder / name).is_file():
            return folder / name
    return None


def check_citations(root):
    for file in [*pages_of(root), *code_of(root)]:
        text = file.read_text(errors="replace")
        is_page = file.suffix == ".md"
        if ".md" not in text:
            continue
        joined = " ".join((text if is_page else COMMENT_START.sub("", text)).split("\n"))
        found = CITED_LINK.findall(joined)
        if not is_page:
            found += CITATION.findall(joined)
        for name, quoted in found:
            page = find_cited(root, file, name)
            if page is None:
                yield f"{file.relative_to(root)}: cites {name}, which is not there"
                continue
            for heading in re.findall(r'"([^"]+)"', quoted):
                heading = " ".join(heading.split())
                if heading not in headings_of(page):
                    yield f'{file.relative_to(root)}: cites {name}, "{heading}": no such heading'


def check_links(root):
    for page in pages_of(root):
        for target, anchor in LINK.findall(page.read_text()):
            if "://" in target:
                continue
            leads_to = page.parent / target if target else page
            if not leads_to.exists():
                yield f"{page.relative_to(root)}: link to {target}, which is not there"
            elif anchor and anchor not in anchors_of(leads_to):
                yield f"{page.relative_to(root)}: link to {target}#{anchor}: no such heading"


def check_paths(root):
    for page in pages_of(root):
        for path in PATH.findall(page.read_text()):
            if not (root / path.rstrip("/")).exists():
                yield f"{page.relative_to(root)}: names {path}, which is not there"


def check_tests(root):
    """Checks that a lemma names a test that exists."""
    sources = [file.read_text() for file in sorted((root / "tests").rglob("*_test.cpp"))]
    tests = {f"{suite}.{name}" for source in sources for suite, name in TEST.findall(source)}
    for page in sorted(root.glob("docs/theory/*.md")):
        for named in re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", page.read_text()):
            if named not in tests:
                yield f"{page.relative_to(root)}: names the test {named}, which is not there"


def check_rooms(root):
    for room in sorted((root / "src").iterdir()):
        if room.is_dir() and any(room.rglob("*.cpp")) and not (room / "README.md").is_file():
            yield f"src/{room.name}: no README.md"


def paragraphs_of(text):
    """Runs of prose lines; a list item begins a paragraph of its own."""
    paragraph = []
    for line in [*FENCE.sub("", text).split("\n"), ""]:
        begins_item = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        is_prose = line.strip() and not re.match(r"\s*(?:\||#)", line)
        if paragraph and (begins_item or not is_prose):
            yield " ".join(paragraph)
            paragraph = []
        if is_prose:
            paragraph.append(line.strip())


def check_lengths(root):
    """Checks the lengths of paragraphs and cells: guides are read by people in a hurry."""
    for page in sorted(root.glob("docs/guides/*.md")):
        text = page.read_text()
        for paragraph in paragraphs_of(text):
            if len(paragraph.split()) > MAX_WORDS_OF_PARAGRAPH:
                yield (f"{page.relative_to(root)}: a paragraph of {len(paragraph.split())} words, "
                       f"at most {MAX_WORDS_OF_PARAGRAPH}: {paragraph[:60]}")
        for line in re.findall(r"^\|.*\|$", FENCE.sub("", text), re.MULTILINE):
            for cell in line.strip("|").split("|"):
                if len(cell.split()) > MAX_WORDS_OF_CELL:
                    yield (f"{page.relative_to(root)}: a cell of {len(cell.split())} words, "
                           f"at most {MAX_WORDS_OF_CELL}: {cell.strip()[:60]}")


def check_documents(root):
    checks = (check_links, check_paths, check_tests, check_rooms, check_citations,
              check_lengths)
    return [violation for check in checks for violation in check(root)]
