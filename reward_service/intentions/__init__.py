"""Intentions: utterances that mean the same, found by clustering, and credit shared inside each.

utterance -> gist -> embedding -> intention (a numbered cluster) -> label history
(label history, label of the action) -> mean return of all turns that share it
"""
