"""The documentation is true: reference pages, links, commands, examples and the annotated tree."""

import ast
import importlib
import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from haxmlnet.cli import build_parser

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
WRITTEN_PAGES = [page for page in PAGES if page.parent.name != "reference"]
TEXT_FILES = sorted([*PAGES, *DOCS.rglob("*.py"), *DOCS.rglob("*.svg")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Where and how the text was made is of no use to a reader: paths of one machine, places outside the repository.
FORBIDDEN = re.compile(r"/work\b|/home/|/root/|/Users/|/tmp/|\bsessions?\b|shared/", re.IGNORECASE)


def page_name(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page, *languages):
    text = page.read_text("utf-8")
    return [body for language, body in FENCE.findall(text) if language in languages]


def prose(page):
    return FENCE.sub("", page.read_text("utf-8"))


def headings(page):
    titles = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def load_build_reference():
    spec = importlib.util.spec_from_file_location("build_reference", DOCS / "build_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["settings.md", "cli.md", "python.md"])
def test_reference_is_up_to_date(name):
    made = load_build_reference().make_pages()[name]
    assert (DOCS / "reference" / name).read_text("utf-8") == made, "run 'make reference'"


def test_reference_has_no_other_pages():
    assert {page.name for page in (DOCS / "reference").iterdir()} == set(load_build_reference().make_pages())


def test_reference_does_not_depend_on_the_terminal(monkeypatch):
    before = load_build_reference().make_pages()
    monkeypatch.setenv("COLUMNS", "40")
    assert load_build_reference().make_pages() == before


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_relative_links_lead_somewhere(page):
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), f"{target} does not exist"
        assert file.is_relative_to(ROOT)
        if anchor:
            assert anchor in headings(file), f"{target}: no such heading"


def test_every_page_is_linked_from_the_index():
    index = DOCS / "index.md"
    linked = {(index.parent / target.partition("#")[0]).resolve() for target in LINK.findall(prose(index))}
    assert {page for page in PAGES if page != index} <= linked


def tree_entries():
    """Give the paths of the README's annotated tree; two spaces of indent are one folder."""
    tree = next(body for body in blocks(ROOT / "README.md", "text") if body.startswith("src/haxmlnet/"))
    folders: list[str] = []
    for line in tree.splitlines():
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth:] = [name]
        yield "".join(folders)


def test_annotated_tree_names_only_what_exists():
    for entry in tree_entries():
        path = ROOT / entry
        assert path.is_dir() if entry.endswith("/") else path.is_file(), f"{entry} does not exist"


def test_annotated_tree_names_every_package_and_top_module():
    source = ROOT / "src" / "haxmlnet"
    packages = {f"{init.parent.relative_to(ROOT).as_posix()}/" for init in source.rglob("__init__.py")}
    modules = {module.relative_to(ROOT).as_posix() for module in source.glob("*.py")}
    assert (packages | modules) - set(tree_entries()) == set()


def test_annotated_tree_names_every_top_folder_with_files():
    folders = [folder for folder in ("benchmarks", "docs", "tests") if any((ROOT / folder).rglob("*.*"))]
    assert {f"{folder}/" for folder in folders} <= set(tree_entries())


def commands(page):
    for body in blocks(page, "sh"):
        for line in body.replace("\\\n", " ").splitlines():
            for part in re.split(r"\s\|\s", line):
                words = shlex.split(part, comments=True)
                if words and words[0] == "haxmlnet":
                    yield words[1:]


@pytest.mark.parametrize("page", WRITTEN_PAGES, ids=page_name)
def test_commands_can_be_parsed(page):
    for words in commands(page):
        try:
            build_parser().parse_args(words)
        except SystemExit:
            pytest.fail(f"haxmlnet {shlex.join(words)}")


def test_commands_are_found():
    assert len(list(commands(ROOT / "README.md"))) >= 5


@pytest.mark.parametrize("page", WRITTEN_PAGES, ids=page_name)
def test_flags_in_prose_exist(page):
    parser = build_parser()
    choices = next(action.choices for action in parser._actions if isinstance(action.choices, dict))
    known = {flag for command in choices.values() for flag in command._option_string_actions}
    named = set(re.findall(r"`(--[a-z][a-z-]*)", prose(page)))
    assert named - known == set()


@pytest.mark.parametrize("page", WRITTEN_PAGES, ids=page_name)
def test_python_examples_import_what_exists(page):
    for body in blocks(page, "python"):
        for node in ast.walk(ast.parse(body)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("haxmlnet"):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names)


def test_new_evidence_costs_one_file_and_one_line(tmp_path, capsys):
    names = {"__name__": "example"}
    exec(blocks(ROOT / "docs/how-to/add-evidence.md", "python")[0], names)
    assert float(capsys.readouterr().out) > 75
    model, texts = names["model"], names["test"].texts[:20]
    assert "keyword: keyword share" in model.trees_[0].feature_names
    model.save(tmp_path / "model")
    assert (tmp_path / "model" / "keyword.safetensors").is_file()
    loaded = names["KeywordTree"].load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(texts).scores, model.predict(texts).scores)


@pytest.mark.parametrize("file", TEXT_FILES, ids=page_name)
def test_nothing_speaks_of_one_machine(file):
    found = FORBIDDEN.findall(file.read_text("utf-8"))
    assert not found
