"""Which move an utterance names: in SAN ("Qh4", "exd5", "O-O", "e8=Q"), with or without signs for check and mate, its
signs apart or together; also in the long form "d1h5". It stands alone, after a label, or in the line that says it.
"""

from __future__ import annotations

import re
from typing import Any

from envs.text.answer import THOUGHT, Labels, undecorated, unlabelled

NO_MOVE = "that is no legal move ."
SIGNS = "K Q R B N P k q r b n p 0 1 2 3 4 5 6 7 8 9 / - w a b c d e f g h x + # = O"

_LABELS = Labels(move="(?:next |best |chess )?move|san|action|play", answer="answer|response|output|choice|decision")
_LEAD = re.compile(r"(?:my (?:next |best )?move is|i(?: wi)?ll (?:play|move|choose)|i(?: play| move)|play)[: ]+", re.I)
_NUMBER = re.compile(r"\d{1,3} ?\.(?: ?\.\.)? ?")
_SAN = re.compile(r"[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](?:=?[QRBN])?[+#]?|[O0]-[O0](?:-[O0])?[+#]?")
_LONG = re.compile(r"[a-h][1-8][a-h][1-8][qrbn]?")


def said_move(utterance: str) -> str | None:
    """As it is written in one word, whether it is legal or not."""
    parts = _LABELS.parts(utterance)
    said = {part.first for part in parts[1:] if part.kind != THOUGHT and part.first}
    if not said:
        said = {line for paragraph in unlabelled(parts) for line in paragraph}
    found = {move for line in said if (move := _move(line))}
    return found.pop() if len(found) == 1 else None


def _move(line: str) -> str | None:
    if len(line) > 80:
        return None
    line = undecorated(_LEAD.sub("", undecorated(line), count=1).rstrip(" .!?"))
    line = _NUMBER.sub("", line, count=1) if _NUMBER.match(line) else line
    word = line.replace(" ", "")
    return word if _SAN.fullmatch(word) or _LONG.fullmatch(word) else None


def legal_move(board: Any, utterance: str) -> Any | None:
    said = said_move(utterance)
    if said is None:
        return None
    try:
        return board.parse_san(said.replace("0", "O")) if not _LONG.fullmatch(said) else board.parse_uci(said)
    except ValueError:
        return None
