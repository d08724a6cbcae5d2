"""What the trainer and the engines have to agree on when weights travel.

The one room of this floor that the learners' transports import too; it imports nothing of either.
"""
