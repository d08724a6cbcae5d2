"""Real runs that are broken on purpose, to count what is lost: `python -m benchmarks.chaos`.

schedule.py   which fault comes when: a pure function of the seed
room.py       where a trial lives: processes, shared memory and disk of its own
trial.py      one run, one fault, and what became of it
evidence.py   what the run left behind, and what is wrong with it
table.py      faults by process and mode
"""
