"""Models that value a turn in its context, trained on finished games while play goes on.

episodes -> memory of the latest games -> network, trained on a snapshot -> one number for each turn
"""
