"""Prompts that no server has seen: every word is random, even the first.

Ollama caches earlier prompts, and a prompt with the same beginning gets its first token sooner. So each prompt
depends on its run, its model and its number, and on a salt that changes with each call of `tandem bench`. Two
prompts share only the model's template at the beginning. Lengths are the same everywhere, and the results contain
the models' token counts.
"""

import random
from collections.abc import Iterator

TASK = "Write a long story in which all of these words occur."
_WORDS = (
    "anchor apple arrow autumn bakery basket beach bell bicycle bird blanket boat book bottle branch bread bridge "
    "brush butter button cabin candle canvas carpet castle chair cherry circle clock cloud coast coffee copper "
    "corner cotton cousin cradle creek crystal curtain dancer desert diamond doctor dragon drawer dream drum eagle "
    "earth engine evening fabric farmer feather fence field finger flame flower forest fountain fox garden gate "
    "giant glass glove gold grain grass guitar hammer harbor harvest hill honey horse hunter island jacket jewel "
    "journey jungle kettle king kitchen ladder lake lamp lantern leaf leather lemon letter library lighthouse lion "
    "machine maple market meadow melody metal mirror moon morning mountain needle night ocean olive orchard owl "
    "painter palace paper pearl pebble pepper piano pillow pilot planet pocket poet pond prairie prince puzzle "
    "queen rabbit rain raven ribbon river road robin rocket roof rope rose sailor salt sand school season shadow "
    "sheep shell shield silver singer sister sky smoke snow soldier song spoon spring square stable star station "
    "stone storm story stream street sugar summer sun swan table tailor teacher temple thread thunder tiger timber "
    "tower town train tree tunnel turtle uncle valley velvet village violin voyage wagon water wave weather wheel "
    "whistle willow wind window winter wolf wonder wood "
)
WORDS = _WORDS.split()


def prompt(words: int, *marks: object) -> str:
    """A prompt with this number of words before the task. The same marks give the same prompt."""
    draw = random.Random("/".join(map(str, marks)))
    return " ".join(draw.choices(WORDS, k=words)) + f". {TASK}"


def moments(rate: float, *marks: object) -> Iterator[float]:
    """Seconds at which random requests are due, `rate` per second (Poisson). The same marks give the same times."""
    draw = random.Random("/".join(map(str, marks)))
    moment = 0.0
    while True:
        moment += draw.expovariate(rate)
        yield moment
