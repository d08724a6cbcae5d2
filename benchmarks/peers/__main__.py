from benchmarks.peers.contest import measure, tables
from benchmarks.report import run_alone

run_alone("peers", measure, tables)
