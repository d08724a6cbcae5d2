"""Data science: data is read as documented, and a file that is missing, broken or another is refused by name."""

from __future__ import annotations

import numpy
import pytest

from envs.data_science.players import BOOSTED
from envs.data_science.tables import FILES, NAMES, TableError, table_of
from envs.registry import make_game
from tests.support.data_science_games import closed_in_the_end as closed_in_the_end
from tests.support.data_science_games import write_table


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_the_published_shape_is_read(name, tmp_path):
    write_table(tmp_path / f"{name}.csv", name)
    table = table_of(name, str(tmp_path))
    assert table.x.shape == (FILES[name].rows, FILES[name].columns)
    assert table.classes == ("no", "yes") and table.columns[0] == "column_0"
    assert table.x.dtype == numpy.float64 and table.y.dtype == numpy.int64 and numpy.isfinite(table.x).all()
    assert set(table.x[:, 0]) == {-1.0, 3.5, 20.0}, "an empty cell becomes the median"
    assert set(table.x[:, 1]) == {-1.0, 0.0, 1.0, 2.0}, "no value, Earth, Mars, Venus"
    assert table_of(name, str(tmp_path)) is table
    if name == "breast_w":
        game = make_game("data_science", {"dataset": name, "folder": str(tmp_path)})
        game.reset(0)
        assert game.step(BOOSTED).executable


def test_cells_become_numbers_as_documented(tmp_path):
    """All rows by hand: those of the published shape, so none is sampled away."""
    path = tmp_path / "breast_w.csv"
    lines = ["a,b,c,d,e,f,g,h,i,Class"]
    lines += [
        f"{n},{'NA' if n % 3 else 10 * n},{('x', 'y')[n % 2]},1,1,1,1,True,{n}e-1,{'mb'[n % 2]}" for n in range(69)
    ]
    path.write_text("\ufeff" + "\n".join(lines) + "\n\n")
    table = table_of("breast_w", str(tmp_path))
    assert table.columns == tuple("abcdefghi") and table.classes == ("b", "m")
    middle = 10 * 33.0  # the median of 0, 30, 60 ... 660
    for n, (row, label) in enumerate(zip(table.x, table.y, strict=True)):
        assert list(row) == [n, middle if n % 3 else 10 * n, n % 2, 1, 1, 1, 1, 0, float(f"{n}e-1")]
        assert table.classes[label] == "mb"[n % 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": 68}, "has 68 rows with a class, needs at least 69"),
        ({"columns": 8}, "must have the target column 'Class' and 9 others .OpenML data set 15 .*; it has 9: column 0"),
        ({"target": "class"}, "must have the target column 'Class'"),
        ({"rows": 0}, "has 0 rows"),
    ],
)
def test_a_file_of_another_shape_is_refused(changed, message, tmp_path):
    write_table(tmp_path / "breast_w.csv", "breast_w", **changed)
    with pytest.raises(TableError, match=message):
        table_of("breast_w", str(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a CSV file"),
        (b"\xff\xfe\x00", "not a CSV file"),
        (b"Class,a,b,c,d,e,f,g,h,i\n1,2\n", "row 2 has 2 cells, the header has 10"),
        (b"Class,a,b,c,d,e,f,g,h,i\n" + b"1,2,3,4,5,6,7,8,9,0\n" * 69, "must have 2 to 20 classes"),
    ],
)
def test_a_broken_file_is_refused(content, message, tmp_path):
    (tmp_path / "breast_w.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        make_game("data_science", {"dataset": "breast_w", "folder": str(tmp_path)})


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_asked_for(name, tmp_path):
    with pytest.raises(ValueError) as caught:
        make_game("data_science", {"dataset": name, "folder": str(tmp_path)})
    message = str(caught.value)
    assert str(tmp_path / f"{name}.csv") in message and "\n" not in message
    assert FILES[name].source in message and repr(FILES[name].target) in message and str(FILES[name].columns) in message


def test_the_balance_scale_tips_as_it_should():
    table = table_of("balance_scale", "")
    assert table.x.shape == (125, 4) and table.classes == ("balanced", "left", "right")
    assert len(set(map(tuple, table.x))) == 125 and set(table.x.ravel()) == {1, 2, 3, 4, 5}
    for (left, far, right, wide), label in zip(table.x, table.y, strict=True):
        assert label == (0 if left * far == right * wide else 1 if left * far > right * wide else 2)
    assert list(numpy.bincount(table.y)) == [11, 61, 53]


def test_the_names_are_those_of_the_published_experiments_and_three_more():
    published = {"pharyngitis", "health_insurance", "spaceship_titanic", "airlines", "balance_scale", "breast_w"}
    assert set(NAMES) == published | {"breast_cancer", "iris", "wine"}
