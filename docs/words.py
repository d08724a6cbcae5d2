"""How many words of documentation there are to read: `python -m docs.words`.

A word is what stands between white space and holds a letter or a digit, code blocks included. Counted are README.md
and the pages that are written by hand, not those of docs/reference (generated) and docs/results (measured).
tests/whole/test_docs.py holds the limits.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LIMIT = 20_000
LONGEST_README = 900


def counted() -> dict[str, int]:
    """Path from the root -> words, of every page that counts."""
    left_out = (DOCS / "reference", DOCS / "results")
    pages = [page for page in sorted(DOCS.rglob("*.md")) if not any(page.is_relative_to(each) for each in left_out)]
    return {str(page.relative_to(ROOT)): words(page.read_text("utf-8")) for page in [ROOT / "README.md", *pages]}


def words(text: str) -> int:
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def main() -> None:
    words = counted()
    for page, count in sorted(words.items(), key=lambda item: -item[1]):
        print(f"{count:7,}  {page}")
    print(f"{sum(words.values()):7,}  words in all, at most {LIMIT:,}")


if __name__ == "__main__":
    main()
