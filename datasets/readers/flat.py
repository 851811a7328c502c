"""Tables of keypoints whose columns name animal, part and coordinate, such as mouse1_nose_x."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial

from .deeplabcut import AXES, Column
from .doubts import Answers, Doubt


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PARTS = _words(
    "nose snout head neck ear eye mouth beak jaw chin shoulder elbow wrist hand paw finger thumb toe foot ankle knee hip leg "
    "arm limb wing fin body bodycenter center centre centroid middle mid spine spine1 back thorax abdomen torso trunk tail "
    "tailbase tailtip tip base point keypoint node marker part bodypart landmark rump forehead crown whisker antenna "
    "proboscis implant chest belly pelvis "
    "left right l r front back fore hind rear upper lower top bottom mid lateral"
)
_ANIMALS = _words(
    "animal individual mouse mice rat fly fish bird bee ant worm larva zebrafish finch marmoset monkey dog cat pig cow person "
    "human child adult subject track instance id ind resident intruder male female pup dam observer demonstrator partner "
    "stimulus focal"
)
_LAST = re.compile(r"^(?P<stem>.+?)[ _.\-]+(?P<axis>x|y|z|likelihood|score|confidence|p)$", re.IGNORECASE)
_FIRST = re.compile(r"^(?P<axis>x|y|z)(?:[ _.\-]+|(?=\d))(?P<stem>.+)$", re.IGNORECASE)
_BRACKETS = re.compile(r"( *[(\[][^)\]]*[)\]])+$")  # units
_WORDS = re.compile(r"[ _.\-]+")
_MOST_ANIMALS = 50
_MOST_WORDS = 3  # in the name of an animal
_CLEAR = 0.5
SWAP = Doubt("swap", "Are animals and parts the other way round?", ("no", "yes"))  # asked by a switch
Split = dict[str, tuple[str, str]]  # stem -> animal, part


def flat_columns(
    names: Sequence[str], answers: Answers | None = None, animals: Sequence[str] = ()
) -> tuple[list[Column], tuple[Doubt, ...]] | None:
    """Return (animal, part, axis) of columns such as mouse1_nose_y with doubts, or None for other tables.

    Other columns get ("", "", "").

    animals   known animals, which the names of columns begin with
    """
    bare = [_BRACKETS.sub("", name.strip()) for name in names]
    split = [_LAST.match(name) for name in bare]
    if not any(split):
        split = [_FIRST.match(name) for name in bare]
    seconds = {found["stem"] for found in split if found and found["axis"].lower() == "y"}
    stems = {
        found["stem"]: None for found in split if found and found["axis"].lower() == "x" and found["stem"] in seconds
    }
    if len(stems) < 2:
        return None
    doubts: tuple[Doubt, ...] = ()
    if animals:
        animal_of = _split_known(list(stems), animals)
    else:
        animal_of, doubts = _split_animals(list(stems), answers or {})
    columns = [
        (*animal_of[found["stem"]], AXES[found["axis"].lower()]) if found and found["stem"] in stems else ("", "", "")
        for found in split
    ]
    if SWAP.chosen(answers or {}) == "yes":
        columns = [(part, animal, axis) for animal, part, axis in columns]
    return columns, doubts


def _split_known(stems: list[str], animals: Sequence[str]) -> Split:
    owner = {stem: max((a for a in animals if stem.startswith(a)), key=len, default="") for stem in stems}
    return {stem: (a, _part(stem[len(a) :]) or "centre") for stem, a in owner.items()}


def _part(name: str) -> str:
    return " ".join(word for word in _WORDS.split(name) if word)


def _split_animals(stems: list[str], answers: Answers) -> tuple[Split, tuple[Doubt, ...]]:
    """Return (animal, part) of each name, by repetition and by known words, and a doubt if that is unclear."""
    if all(_is_animal(stem) and len(re.findall("[A-Za-z]+", stem)) == 1 for stem in stems):
        return {stem: (_part(stem), "centre") for stem in stems}, ()
    one = {stem: ("animal", _part(stem)) for stem in stems}
    if all(stem.isdigit() for stem in stems):
        doubt = Doubt("animals", "Are the numbers of the columns animals or body parts?", ("animals", "parts"))
        numbered = {stem: (f"animal {stem}", "centre") for stem in stems}
        return (numbered if doubt.chosen(answers) == "animals" else one), (doubt,)
    splits = [_split_at(stems, n) for n in (*range(1, _MOST_WORDS + 1), *range(-1, -_MOST_WORDS - 1, -1))]
    rated = [(rating, split) for split in splits if (rating := _rate(split, len(stems))) is not None]
    if not rated:
        return one, ()
    rated.sort(key=lambda pair: -pair[0])
    found = {stem: rated[0][1].get(stem, (_part(stem), _part(stem))) for stem in stems}
    if rated[0][0] >= _CLEAR and (len(rated) == 1 or rated[1][0] <= rated[0][0] - _CLEAR):
        return found, ()
    choices = {", ".join(dict.fromkeys(animal for animal, _ in split.values())): split for _, split in rated}
    choices["one animal"] = one
    doubt = Doubt("animals", "Which words of the column names are animals?", tuple(choices))
    return choices[doubt.chosen(answers)], (doubt,)


def _split_at(stems: list[str], n: int) -> Split:
    """Take the first n words as the animal, or the last for a negative n; names that are too short are left out."""
    split: Split = {}
    for stem in stems:
        words = _WORDS.split(stem)
        if len(words) > abs(n):
            animal, part = (words[:n], words[n:]) if n > 0 else (words[n:], words[:n])
            name = " ".join(animal)
            split[stem] = (f"animal {name}" if name.isdigit() else name, " ".join(part))
    return split


def _rate(split: Split, n_stems: int) -> float | None:
    """Rate how well animals and parts fit known words, from -1 to 2; None if they cannot be right."""
    parts: dict[str, set[str]] = {}
    for animal, part in split.values():
        parts.setdefault(animal, set()).add(part)
    known = {animal: its for animal, its in parts.items() if _is_animal(animal)}
    if len(known) > 1:  # others, such as corners of the cage, are no animals
        parts = known
    elif len(split) < n_stems or len({frozenset(its) for its in parts.values()}) > 1 or (len(parts) == 1 and not known):
        return None
    if any(map(_is_part, parts)) or not set.intersection(*parts.values()) or len(parts) > _MOST_ANIMALS:
        return None
    words = set().union(*parts.values())
    return _share(_is_animal, parts) + _share(_is_part, words) - _share(_is_animal, words) - (len(parts) == 1)


def _share(test: Callable[[str], bool], names: Collection[str]) -> float:
    return sum(map(test, names)) / len(names)


def _has_word(name: str, known: frozenset[str]) -> bool:
    return any(word.rstrip("0123456789").lower() in known for word in _WORDS.split(name))


_is_animal, _is_part = partial(_has_word, known=_ANIMALS), partial(_has_word, known=_PARTS)
