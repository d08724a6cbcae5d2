"""Chess of LMRL-Gym: the tables of endgames, what is heard as a move, published rewards, black's three kinds."""

from __future__ import annotations

import random
import sys

import pytest

from envs.lmrl.chess import opponents
from envs.lmrl.chess.positions import LONGEST_WINS, spaced, unspaced
from envs.lmrl.chess.speech import said_move
from envs.registry import make_game, make_player
from tests.support.glee_games import finish, new
from tests.support.worlds import needs

pytestmark = needs("chess")
chess = pytest.importorskip("chess")
MATE_IN_ONE = "7k/8/6K1/8/8/8/8/R7 w - - 0 1"


def at(position: str, tmp_path, **options):
    file = tmp_path / position.replace("/", "_")  # what a file holds is read once
    file.write_text(f'"{position}"\n')
    return new("chess", 0, start=str(file), **options)


@pytest.mark.parametrize("pieces", ["Q", "R", "QR"])
def test_a_table_agrees_with_every_move_that_the_rules_allow(pieces):
    """White takes the shortest way among its moves, and black the longest, from any position."""
    from envs.lmrl.chess.table import pieces_of, table_of

    draws, table, seen = random.Random(pieces), table_of(pieces), set()
    for _ in range(300):
        board = chess.Board(None)
        squares = draws.sample(range(64), 2 + len(pieces))
        for symbol, square in zip("Kk" + pieces, squares, strict=True):
            board.set_piece_at(square, chess.Piece.from_symbol(symbol))
        board.turn = draws.random() < 0.5
        if not board.is_valid():
            continue
        after = []
        for move in board.legal_moves:
            board.push(move)
            left = pieces_of(board)
            after.append(None if left is None else table_of(left).moves_to_mate(board))
            board.pop()
        if board.turn:
            due = min((moves + 1 for moves in after if moves is not None), default=None)
        else:
            due = 0 if board.is_checkmate() else max(after) if after and None not in after else None
        assert table.moves_to_mate(board) == due, board.fen()
        seen.add(due)
    assert len(seen) > 3 and table.white[table.white < 127].max() == LONGEST_WINS[pieces]


def test_a_game_by_hand(tmp_path):
    game = at(MATE_IN_ONE, tmp_path)
    assert game.observe() == "7 k / 8 / 6 K 1 / 8 / 8 / 8 / 8 / R 7   w   -   -   0   1"
    assert unspaced(game.observe()) == MATE_IN_ONE and "R a 7" in game.actions()
    refused = game.step("Ra9")
    assert refused.rewards == {"white": -1.0} and not refused.executable and not refused.terminated
    assert game.observe().split("\n") == ["that is no legal move .", spaced(MATE_IN_ONE)]
    assert game.step("R b 1").caption == "white plays Rb1, black plays Kg8"
    last = game.step("Thought: the corner.\nMove: Rb8#")
    assert last.terminated and last.rewards == {"white": 1.0} and game.outcome() == {"white": 1.0}
    assert last.caption == "white plays Rb8#: white wins" and game.closing()["white"].endswith("white wins.")
    assert game.facts() == {"position": MATE_IN_ONE, "result": "1-0"}


@pytest.mark.parametrize(
    ("position", "said", "reward", "result"),
    [
        ("7k/5K2/8/8/8/8/8/6Q1 w - - 0 1", "Qg6", 0.0, "1/2-1/2"),  # stalemate
        ("rnbqkbnr/pppp1ppp/8/4p3/8/5P2/PPPPP1PP/RNBQKBNR w KQkq - 0 2", "g4", -1.0, "0-1"),  # the fool's mate
    ],
)
def test_how_a_game_ends(position, said, reward, result, tmp_path):
    game = at(position, tmp_path)
    step = game.step(said)
    assert step.terminated and step.rewards == {"white": reward} and game.outcome() == {"white": 0.0}
    assert game.facts()["result"] == result


def test_a_draw_is_worth_half_only_where_nobody_began_better():
    game = new("chess", 0, start="full")
    game._board, game._result = chess.Board("7k/8/8/8/8/8/8/K7 w - - 0 1"), "1/2-1/2"
    assert game.outcome() == {"white": 0.5}


@pytest.mark.parametrize(
    ("said", "move"),
    [
        *(("Qh4", "Qh4"), ("Q h 4", "Qh4"), ("**Qh4**.", "Qh4"), ("1. e4", "e4"), ("12... Qh4", "Qh4")),
        *(("Move: Qxh4+", "Qxh4+"), ("My move is Qh4#", "Qh4#"), ("I play O-O-O", "O-O-O"), ("e8=Q", "e8=Q")),
        *(('{"action": "Qh4"}', "Qh4"), ("Thought: a fork.\nNext move: Nbd7", "Nbd7"), ("d1h5", "d1h5")),
        *(("Qh4 or Qh5", None), ("Move: Qh4\nMove: Qh5", None), ("", None), ("Qh9", None), ("--", None)),
        *(("I have no idea", None), ("\u041aa1", None)),
    ],
)
def test_what_is_said_in_chess(said, move):
    assert said_move(said) == move


def test_the_expert_mates_as_fast_as_can_be_and_black_holds_out_as_long():
    from envs.lmrl.chess.table import table_of

    for seed in range(12):
        options = {"pieces": "QR"[seed % 2], "least": 6}
        game, expert = new("chess", seed, **options), make_player("chess", "expert", options)
        expert.reset(seed)
        needed = table_of(options["pieces"]).moves_to_mate(chess.Board(game._first))
        assert needed >= 6 and len(finish(game, {"white": expert})) == needed and game.outcome() == {"white": 1.0}


def test_players_of_endgames_have_their_stated_strength():
    for who, stated in (("mediocre", 0.3), ("random", 0.0)):
        won = 0.0
        for seed in range(40):
            game, player = new("chess", seed, pieces="Q"), make_player("chess", who, {})
            player.reset(seed)
            finish(game, {"white": player})
            won += game.outcome()["white"]
        assert abs(won / 40 - stated) < 0.2, (who, won / 40)


@pytest.mark.parametrize(
    ("position", "said", "answer"),
    [
        ("6k1/5ppp/8/3q4/8/8/Q4PPP/6K1 w - - 0 1", "h3", "Qxa2"),  # a queen that hangs
        ("r5k1/5ppp/8/8/8/8/5PPP/1N4K1 w - - 0 1", "Nd2", "Ra1+"),  # mate on the next move but one
    ],
)
def test_black_searches_where_no_table_helps(position, said, answer, tmp_path):
    steps = [at(position, tmp_path).step(said) for _ in range(2)]
    assert steps[0] == steps[1], "the same draws, the same answer"
    assert steps[0].caption == f"white plays {said}, black plays {answer}"


ENGINE = """#!{python}
import sys, chess
log = open({log!r}, "a", buffering=1)
board = chess.Board()
for line in sys.stdin:
    words = line.split()
    if line.startswith("setoption"):
        print(line.strip(), file=log)
    if words[:1] == ["uci"]:
        print("option name Threads type spin default 1 min 1 max 8")
        print("option name UCI_LimitStrength type check default false")
        print("option name UCI_Elo type spin default 2000 min 1350 max 2850")
        print("uciok", flush=True)
    elif words[:1] == ["isready"]:
        print("readyok", flush=True)
    elif words[:2] == ["position", "fen"]:
        board = chess.Board(" ".join(words[2:8]))
        for move in words[9:]:
            board.push_uci(move)
    elif words[:1] == ["go"]:
        if board.fullmove_number > 90:
            sys.exit(3)
        print("bestmove", min(move.uci() for move in board.legal_moves), flush=True)
    elif words[:1] == ["quit"]:
        break
"""


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """A program that speaks UCI, found on the PATH as stockfish; it dies when asked late in a game."""
    program = tmp_path / "bin" / "stockfish"
    program.parent.mkdir()
    program.write_text(ENGINE.format(python=sys.executable, log=str(tmp_path / "log")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(opponents, "_programs", {})
    yield tmp_path / "log"
    for each in opponents._programs.values():
        each._stop()


def test_stockfish_answers_at_the_nearest_strength_that_it_knows_and_is_started_anew(engine, tmp_path):
    game = at(MATE_IN_ONE, tmp_path, opponent="stockfish")
    assert game.slow and game.step("Rb1").caption == "white plays Rb1, black plays Kg8"
    assert "UCI_Elo value 1350" in engine.read_text() and "UCI_LimitStrength value true" in engine.read_text()
    dying = at(MATE_IN_ONE.replace("0 1", "0 95"), tmp_path, opponent="stockfish")
    with pytest.raises(RuntimeError, match="^stockfish failed: EngineTerminatedError"):
        dying.step("Rb1")
    assert at(MATE_IN_ONE, tmp_path, opponent="stockfish").step("Rb1").executable
    assert engine.read_text().count("UCI_Elo") == 2, "one program for all games, and another after it died"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"start": "/no/such"}, "start='/no/such' is neither endgames nor full nor a file"),
        ({"start": 3}, "start=3 must be"),
        ({"pieces": "B"}, "pieces='B' must be one of: all"),
        ({"pieces": "QR", "least": 8}, "least=8: with pieces='QR' no win takes longer than 6 moves"),
        ({"start": "full", "least": 3}, "options pieces and least are for start='endgames'"),
        ({"opponent": "deep blue"}, "opponent='deep blue' must be one of"),
        ({"opponent": "stockfish"}, "the PATH has no program stockfish"),
        ({"depth": 9}, "depth=9 must be"),
        ({"text": "drawn"}, "text='drawn' must be"),
    ],
)
def test_impossible_options_are_one_line(options, told, monkeypatch):
    monkeypatch.setenv("PATH", "/no/such")
    monkeypatch.setattr(opponents, "_programs", {})
    with pytest.raises(ValueError, match="^game option") as refused:
        make_game("chess", options)
    assert told in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 300


@pytest.mark.parametrize("text", ["", "x\n", "8/8/8/8/8/8/8/8 w - - 0 1", MATE_IN_ONE.replace(" w ", " b ")])
def test_what_is_no_file_of_positions_is_one_line(text, tmp_path):
    (tmp_path / "mine.txt").write_text(text)
    with pytest.raises(ValueError, match="^game option start=") as refused:
        make_game("chess", {"start": str(tmp_path / "mine.txt")})
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300
