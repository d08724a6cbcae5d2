"""The shortest way to a task's goal from every state that can be reached."""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from envs.virtualhome.home import Action, State, achieved, actions_of, after, start_of
from envs.virtualhome.task import Task, TaskError

MOST_STATES = 200_000  # seconds to minutes of planning, once in a process


@lru_cache(maxsize=16)
def best_actions(task: Task) -> dict[State, tuple[int, Action | None]]:
    """State -> how many actions are needed from it, and the first of them; at the goal 0 and
    None. States from which the goal is out of reach are left out."""
    came_from: dict[State, list[tuple[State, Action]]] = {start_of(task): []}
    waiting, reached = deque(came_from), []
    while waiting:
        state = waiting.popleft()
        if achieved(task, state):
            reached.append(state)
            continue
        for action in actions_of(task):
            then = after(task, state, action)
            if then is None:
                continue
            if then not in came_from:
                if len(came_from) >= MOST_STATES:
                    raise TaskError(f"task {task.source}: more than {MOST_STATES} states, too many to plan in")
                came_from[then] = []
                waiting.append(then)
            came_from[then].append((state, action))
    best: dict[State, tuple[int, Action | None]] = {state: (0, None) for state in reached}
    waiting = deque(reached)
    while waiting:
        state = waiting.popleft()
        for before, action in came_from[state]:
            if before not in best:
                best[before] = best[state][0] + 1, action
                waiting.append(before)
    if start_of(task) not in best:
        raise TaskError(f"task {task.source}: no actions lead to its goal")
    return best


@lru_cache(maxsize=16)
def phrases_of_plan(task: Task) -> tuple[str, ...]:
    """The actions of one shortest way from the start to the goal, as the agent says them."""
    best, state, phrases = best_actions(task), start_of(task), []
    while (action := best[state][1]) is not None:
        phrases.append(action.phrase)
        state = after(task, state, action)
    return tuple(phrases)
