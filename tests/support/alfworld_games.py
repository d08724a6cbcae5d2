"""Small games of ALFWorld's form, with rules, words and rooms of our own, for a world whose data is the user's."""

from __future__ import annotations

import json
import random
from pathlib import Path

DOMAIN = """
(define (domain flat)
 (:requirements :adl :typing)
 (:types agent location receptacle object kind)
 (:predicates
  (at ?a - agent ?l - location) (stands ?r - receptacle ?l - location) (in ?o - object ?r - receptacle)
  (door ?r - receptacle) (opened ?r - receptacle) (holds ?a - agent ?o - object) (busy ?a - agent)
  (warms ?r - receptacle) (chills ?r - receptacle) (washes ?r - receptacle) (lamp ?o - object) (lit ?o - object)
  (hot ?o - object) (cold ?o - object) (clean ?o - object) (thought ?a - agent)
  (isa ?o - object ?k - kind) (isplace ?r - receptacle ?k - kind))
 (:action walk :parameters (?a - agent ?from - location ?to - location ?r - receptacle)
  :precondition (and (at ?a ?from) (stands ?r ?to))
  :effect (and (not (at ?a ?from)) (at ?a ?to)))
 (:action unlatch :parameters (?a - agent ?l - location ?r - receptacle)
  :precondition (and (at ?a ?l) (stands ?r ?l) (door ?r) (not (opened ?r)))
  :effect (opened ?r))
 (:action grab :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
  :precondition (and (at ?a ?l) (stands ?r ?l) (in ?o ?r) (or (not (door ?r)) (opened ?r)) (not (busy ?a))
                     (not (lamp ?o)))
  :effect (and (not (in ?o ?r)) (holds ?a ?o) (busy ?a)))
 (:action drop :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
  :precondition (and (at ?a ?l) (stands ?r ?l) (holds ?a ?o) (or (not (door ?r)) (opened ?r)))
  :effect (and (in ?o ?r) (not (holds ?a ?o)) (not (busy ?a))))
 (:action warm :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
  :precondition (and (at ?a ?l) (stands ?r ?l) (holds ?a ?o) (warms ?r))
  :effect (and (hot ?o) (not (cold ?o))))
 (:action chill :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
  :precondition (and (at ?a ?l) (stands ?r ?l) (holds ?a ?o) (chills ?r))
  :effect (and (cold ?o) (not (hot ?o))))
 (:action wash :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
  :precondition (and (at ?a ?l) (stands ?r ?l) (holds ?a ?o) (washes ?r))
  :effect (clean ?o))
 (:action switch :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
  :precondition (and (at ?a ?l) (stands ?r ?l) (in ?o ?r) (lamp ?o))
  :effect (lit ?o))
 (:action think :parameters (?a - agent) :precondition () :effect (thought ?a)))
"""
HERE = "[{o.indefinite + ' ' + o.name | in(o:object, r:receptacle)}]"
WORDS = {
    "intro": [{"rhs": "-= A flat of one room =-\\n\\nAround you, you see #furniture#.\\n\\n#task#"}],
    "furniture": [{"rhs": "[{#called(r)# | stands(r:receptacle, l:location)}]"}],
    "called(r)": [{"rhs": "{r.indefinite} {r.name}"}],
    "task": [{"rhs": "Your task is to: TASK."}],
    "content": [
        {"condition": "door(r:receptacle) & opened(r:receptacle)", "rhs": f"In the {{r.name}}, you see {HERE}."},
        {"condition": "door(r:receptacle)", "rhs": "The {r.name} is shut."},
        {"rhs": f"On the {{r.name}}, you see {HERE}."},
    ],
    "walked": [{"rhs": "You stand before the {r.name}. #content#"}],
    "unlatched": [{"rhs": "The {r.name} swings open. #content#"}],
    "grabbed": [{"rhs": "You have the {o.name} now."}],
    "dropped": [{"rhs": "You leave the {o.name} at the {r.name}."}],
    "changed": [{"rhs": "The {r.name} does its work on the {o.name}."}],
    "switched": [{"rhs": "The {o.name} shines."}],
    "thought": [{"rhs": "You think of your task."}],
    "list_empty": [{"rhs": "nothing"}],
    "list_separator": [{"rhs": ", "}],
    "list_last_separator": [{"rhs": ", and "}],
}
ACTIONS = {
    "walk": ("go to {r}", "walked"),
    "unlatch": ("open {r}", "unlatched"),
    "grab": ("take {o} from {r}", "grabbed"),
    "drop": ("move {o} to {r}", "dropped"),
    "warm": ("heat {o} with {r}", "changed"),
    "chill": ("cool {o} with {r}", "changed"),
    "wash": ("clean {o} with {r}", "changed"),
    "switch": ("use {o}", "switched"),
    "think": ("inventory", "thought"),
}
PLACES = {  # how many of each, and what is true of it
    "cabinet": (3, "door"),
    "shelf": (2, ""),
    "table": (1, ""),
    "fridge": (1, "door chills"),
    "microwave": (1, "door warms"),
    "sink": (1, "washes"),
}
THINGS = {"mug": 2, "egg": 2, "book": 1, "desklamp": 1}
TASKS = {  # task: (its words, thing, place, what has to be true beside)
    "pick_and_place_simple": ("put some mug on shelf", "Mug", "Shelf", "(in ?o ?r)"),
    "look_at_obj_in_light": (
        "examine the book with the desklamp",
        "Book",
        "DeskLamp",
        "(and (holds agent1 ?o) (lit {desklamp}))",
    ),
    "pick_clean_then_place_in_recep": ("put a clean mug in cabinet", "Mug", "Cabinet", "(and (in ?o ?r) (clean ?o))"),
    "pick_heat_then_place_in_recep": ("heat some egg and put it in table", "Egg", "Table", "(and (in ?o ?r) (hot ?o))"),
    "pick_cool_then_place_in_recep": ("put a cool egg in shelf", "Egg", "Shelf", "(and (in ?o ?r) (cold ?o))"),
    "pick_two_obj_and_place": (
        "find two egg and put them in cabinet",
        "Egg",
        "Cabinet",
        "(exists (?p - object) (and (isa ?p eggtype) (not (= ?o ?p)) (in ?o ?r) (in ?p ?r)))",
    ),
}


def grammar(task: str) -> str:
    parts = [f'grammar :: """\n{json.dumps(WORDS, indent=1)}\n""";'.replace("TASK", task).replace("\\\\n", "\\n")]
    parts += [
        f'action {name} {{\n template :: "{said}";\n feedback :: "#{told}#";\n}}'
        for name, (said, told) in ACTIONS.items()
    ]
    return "\n".join(parts)


def problem(task: str, seed: int) -> str:
    """A room that chance has furnished."""
    draw = random.Random(seed)
    _, _, place, wanted = TASKS[task]
    places = [
        (kind, f"{kind}_bar_{draw.randrange(100):02}_bar_{n}")
        for kind, (count, _) in PLACES.items()
        for n in range(count)
    ]
    things = [
        (kind, f"{kind}_bar_{draw.randrange(100):02}_bar_{n}") for kind, count in THINGS.items() for n in range(count)
    ]
    places = [(kind, f"{each}_bar_sinkbasin" if kind == "sink" else each) for kind, each in places]
    facts = ["at agent1 loc_bar_0"]
    for number, (kind, each) in enumerate(places, 1):
        facts += [f"stands {each} loc_bar_{number}", f"isplace {each} {kind}type"]
        facts += [f"{fact} {each}" for fact in PLACES[kind][1].split()]
    for kind, each in things:
        away = [where for sort, where in places if sort not in (place.lower(), "table" if kind == "egg" else "")]
        facts += [f"in {each} {draw.choice(away)}", f"isa {each} {kind}type"]
        facts += [f"lamp {each}"] * (kind == "desklamp")
    lamp = next(each for kind, each in things if kind == "desklamp")
    thing, where = TASKS[task][1].lower(), "cabinet" if place == "DeskLamp" else place.lower()
    goal = f"(isa ?o {thing}type) (isplace ?r {where}type) {wanted.format(desklamp=lamp)}"
    kinds = " ".join(f"{kind}type" for kind in (*PLACES, *THINGS))
    return (
        "(define (problem room)\n (:domain flat)\n (:objects agent1 - agent\n"
        f"  {' '.join(f'loc_bar_{number}' for number in range(len(places) + 1))} - location\n"
        f"  {' '.join(each for _, each in places)} - receptacle\n  {' '.join(each for _, each in things)} - object\n"
        f"  {kinds} - kind)\n (:init {' '.join(f'({fact})' for fact in facts)})\n"
        f" (:goal (exists (?o - object ?r - receptacle) (and {goal}))))"
    )


def write_game(folder: Path, split: str, task: str, seed: int, solvable: bool = True, mark: str = "") -> Path:
    """`mark`: behind the name of the thing, as Sliced is."""
    words, thing, place, _ = TASKS[task]
    at = folder / "json_2.1.1" / split / f"{task}-{thing}{mark}-None-{place}-{seed}" / f"trial_{seed:03}"
    at.mkdir(parents=True)
    game = {"pddl_domain": DOMAIN, "grammar": grammar(words), "pddl_problem": problem(task, seed)}
    path = at / "game.tw-pddl"
    path.write_text(json.dumps(game | {"solvable": solvable, "walkthrough": []}))
    (at / "traj_data.json").write_text(json.dumps({"task_type": task}))
    return path


def write_games(folder: Path) -> Path:
    """Two games of each task to train on, and one each in the other splits."""
    for number, task in enumerate(TASKS):
        for split, seeds in {"train": (1, 2), "valid_seen": (3,), "valid_unseen": (4,)}.items():
            for seed in seeds:
                write_game(folder, split, task, 10 * number + seed)
    return folder
