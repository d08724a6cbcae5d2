"""Which characters there are in NetHack. Others it does not refuse: it makes another one of them."""

from __future__ import annotations

GENDERS = "mal fem"
ALIGNMENTS = {"hum": "law neu cha", "elf": "cha", "dwa": "law", "gno": "neu", "orc": "cha"}
ROLES = {  # races and alignments
    "arc": ("hum dwa gno", "law neu"),
    "bar": ("hum orc", "neu cha"),
    "cav": ("hum dwa gno", "law neu"),
    "hea": ("hum gno", "neu"),
    "kni": ("hum", "law"),
    "mon": ("hum", "law neu cha"),
    "pri": ("hum elf", "law neu cha"),
    "ran": ("hum elf gno orc", "neu cha"),
    "rog": ("hum orc", "cha"),
    "sam": ("hum", "law"),
    "tou": ("hum", "neu"),
    "val": ("hum dwa", "law neu"),
    "wiz": ("hum elf gno orc", "neu cha"),
}
ANY = "@"


def character_of(value: object) -> str:
    if value == ANY:
        return ANY
    parts = value.split("-") if isinstance(value, str) else []
    if len(parts) != 4:
        raise ValueError(f"game option character={value!r} must be like mon-hum-neu-mal, or @ for any")
    role, race, alignment, gender = parts
    races, alignments = ROLES.get(role, ("", ""))
    for part, given, known in (
        ("role", role, " ".join(ROLES)),
        ("race", race, races),
        ("alignment", alignment, " ".join(each for each in alignments.split() if each in ALIGNMENTS.get(race, ""))),
        ("gender", gender, "fem" if role == "val" else GENDERS),
    ):
        if given not in known.split():
            raise ValueError(f"game option character={value!r}: its {part} has to be one of: {known}")
    return str(value)
