"""Runs in a browser, while they go on.

    run folders --followed--> what has changed --events--> the page
                    +---------figures, games, one game ----> the page, when it asks

The page is the report's, with what only a live one can have: it is read-only, and neither the run nor its folder
knows of it.
"""
