"""What a run was, on one page that needs nothing but a browser.

loop --samples--> samples.jsonl                       while the run goes on
run folder --reading--> figures, curves, intentions, games --page--> report.html
"""
