"""Utterances in the styles of real models are read as a person would read them."""

from __future__ import annotations

from tests.support.styles import styled


def test_there_are_many_styles_and_no_two_are_the_same():
    rows = styled()
    assert len(rows) >= 150 and len(set(rows)) == len(rows)
    assert {row.kind for row in rows} == {
        *("guess", "mention", "ask20", "askcity", "act", "idle", "divide", "decide", "price", "code")
    }
