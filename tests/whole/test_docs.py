"""README and docs: the site builds, nothing in it is stale, and it is short enough to be read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import parley
from cluster.recipe.fields import dotted_keys
from cluster.recipe.renamed import RENAMED
from docs.reference import FOLDER, PAGES
from docs.words import DOCS, LIMIT, LONGEST_README, counted

ROOT = Path(__file__).parents[2]
SOURCES = (".py", ".yaml", ".yml", ".cfg", ".sh", ".sbatch", ".cpu", ".gpu", ".md", ".jinja")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    made = build(ROOT / "mkdocs.yml", folder)
    assert made.returncode == 0 and "WARNING" not in made.stderr, made.stderr
    return folder


def build(settings: Path, folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", settings, "-d", folder],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_the_generated_files_are_what_is_generated(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run: python -m docs.reference"


def test_the_pages_written_by_hand_are_short_enough_to_be_read():
    words = counted()
    assert sum(words.values()) <= LIMIT, words
    assert words["README.md"] <= LONGEST_README


def test_the_site_has_every_page_and_asks_nobody_for_anything(site):
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert pages <= {page.relative_to(site) for page in site.rglob("*.html")}
    loaded = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=[\"']?(https?:[^\"'\s>]+)")
    asked = {address for page in site.rglob("*.html") for address in loaded.findall(page.read_text(encoding="utf-8"))}
    assert asked == set()
    styles = "".join(page.read_text(encoding="utf-8") for page in site.rglob("*.css"))
    assert not re.findall(r"url\([\"']?https?:|@import", styles)


@pytest.mark.parametrize("line", ["[gone](no_such_page.md)", "[gone](index.md#no-such-heading)", "![](images/no.png)"])
def test_a_link_that_leads_nowhere_breaks_the_build(tmp_path, line):
    (tmp_path / "docs").mkdir()
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(settings)
    (tmp_path / "docs" / "index.md").write_text("# Start\n")
    assert build(tmp_path / "mkdocs.yml", tmp_path / "site").returncode == 0
    (tmp_path / "docs" / "index.md").write_text(f"# Start\n\n{line}\n")
    assert build(tmp_path / "mkdocs.yml", tmp_path / "site").returncode != 0


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("new_game", ("class HotCold(Game):", "def test_a_game_by_hand():", "name: hot-cold", "--no-build-isolation")),
        ("new_method", ("class Same(CreditMethod):", "class Brief(RewardFunction):", "loss: my_methods:Plain")),
    ],
)
def test_the_site_shows_the_files_of_the_examples(site, name, lines):
    page = re.sub(r"<[^>]+>", "", (site / "how-to" / f"{name}.html").read_text(encoding="utf-8"))
    assert [line for line in lines if line not in page] == []


def test_an_editor_finds_the_schema_on_the_site_and_it_is_what_the_command_prints(site):
    shown = [sys.executable, "-m", "cluster", "config", "--schema"]
    printed = subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, timeout=120).stdout
    assert (site / "reference" / "recipe.schema.json").read_text(encoding="utf-8") == printed != ""


def test_python_that_the_pages_show_is_python_and_uses_what_parley_has():
    blocks = [
        (page.name, block)
        for page in [ROOT / "README.md", *DOCS.rglob("*.md")]
        if page.parent != FOLDER  # generated: declarations without their bodies
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    ]
    used = set()
    for page, block in blocks:
        compile(block, page, "exec")
        used |= {(page, name) for name in re.findall(r"\bparley\.(\w+)", block)}
    assert [each for each in sorted(used) if each[1] not in parley.__all__] == []
    assert len(blocks) > 4 and len(used) > 3


def test_links_of_the_readme_lead_somewhere(site):
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 10
    for link in links:
        path, _, heading = link.partition("#")
        assert (ROOT / path).is_file(), link
        if heading:
            page = (site / path.removeprefix("docs/")).with_suffix(".html").read_text(encoding="utf-8")
            assert f'id="{heading}"' in page, link


def test_pages_that_the_repository_names_exist():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    named = {
        (path, page)
        for path in tracked
        if path.endswith(SOURCES) and (ROOT / path).is_file()
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", (ROOT / path).read_text(encoding="utf-8"))
    }
    made = {"docs/results/gpu_report.md", "docs/how-to/NAME.md"}  # by `make gpu-check`; by whoever adds a page
    assert [each for each in sorted(named) if each[1] not in made and not (ROOT / each[1]).is_file()] == []
    assert len(named) > 20


def test_settings_that_the_pages_name_exist():
    known = [f"{key}." for key in dotted_keys()]
    sections = "|".join({key.partition(".")[0] for key in known if key.count(".") > 1})
    named = {
        (page.name, key)
        for page in [ROOT / "README.md", *DOCS.rglob("*.md")]
        for key in re.findall(rf"`((?:{sections})\.[a-z_.]+?)\.?(?:=[^`]*)?`", page.read_text(encoding="utf-8"))
    }
    named = {each for each in named if not each[1].endswith((".json", ".jsonl"))}  # files of a run
    named -= {("settings.md", old) for old in RENAMED}
    assert [each for each in sorted(named) if not any(key.startswith(f"{each[1]}.") for key in known)] == []
    assert len(named) > 50


def test_the_page_of_settings_says_the_new_name_of_every_one():
    page = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8").partition("## Settings with a new name")[2]
    assert dict(re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", page, re.MULTILINE)) == RENAMED


def tasks() -> list[tuple[str, list[str]]]:
    """(what is added, the files to open) of the table in the page about contributing."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", (DOCS / "contributing.md").read_text(encoding="utf-8"), re.MULTILINE)
    return [(task, re.findall(r"`([^`]+)`", files)) for task, files in rows if "`" in files]


def test_there_are_ten_tasks():
    assert len(tasks()) >= 10


@pytest.mark.parametrize(("task", "files"), tasks())
def test_what_is_to_be_opened_to_add_something_is_there_and_is_little(task, files):
    assert 1 <= len(files) <= 3
    for file in files:
        path = ROOT / file
        assert path.parent.is_dir() if path.stem == "NAME" else path.is_file(), file


def test_the_citation_names_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert f"\nversion = {citation['version']}\n" in (ROOT / "setup.cfg").read_text(encoding="utf-8")
    assert citation["cff-version"] == "1.2.0" and citation["title"] and citation["authors"]
