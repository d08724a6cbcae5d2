"""Credit: per-turn rewards in, per-token advantages out; pure functions of ragged arrays.

A method is one class in a file of its name: its settings, what it needs beside rewards, and

    credit(turns: Turns, state: dict[str, float]) -> Credit

which returns one advantage for every trained token of the batch, in batch order: trajectory
after trajectory, turn after turn, token after token. What it must remember between updates
is in `state`, which is saved with the run; it never changes the dictionary it was given, so
an update that fails leaves no trace.

What a method needs is named in `needs` and stands in the optional fields of Turns; whoever
holds the model reads them off it (learners/update/reading.py). `states`, log-probs and values of
the policy come from one forward pass, `hindsight` and `reference` from one more each.
A trained token is a sampled one (`SeatSequence.mask`), never the first of its sequence. If
it stands at position p, then its log-prob comes from the logits at p - 1 and its value is
read from the hidden state at p - 1, before the token is known:

    V[t, j] = V(o_t, w_<j)      everything up to observation t and the tokens of utterance t
                                before its j-th; V[t, 1] = V(o_t) is read where the
                                observation ends, which is the value of the turn

One forward pass thus gives log-probs and values at the same positions, in the order of the
advantages. A trajectory that was cut off goes on in a state nobody acted in: its bootstrap
value is V(next observation), read at the last token of what its seat would have been shown
next (`Episode.closing`). A true end is worth 0, and a bootstrap value there is not looked at.

Everything is computed in float64; only what goes to the loss is rounded to float32.
"""
