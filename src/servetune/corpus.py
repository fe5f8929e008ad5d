"""A small world of engineers and servers, told as endless text that a tiny model can learn.

Every story is one ticket: somebody looks at a metric of a server, finds a cause, applies its
remedy, and measures again. Who works in which team, what a server looks like, and which remedy
belongs to which cause never changes, so that most words follow from those before them; names,
numbers and the wording are drawn, so that no two stories need be alike.

Only `random.Random(int).random()` and arithmetic on it are used: both give the same numbers on
every machine and Python version.
"""

from collections.abc import Iterator, Sequence
from itertools import count, islice
from random import Random
from typing import NamedTuple, TypeVar

CORPUS_VERSION: int = 1
"""Raised whenever any function here gives other text than before for the same arguments."""

T = TypeVar("T")


class Engineer(NamedTuple):
    """Who looks at a server; the pronoun and the team never change."""

    name: str
    pronoun: str
    team: str


class Server(NamedTuple):
    """What is looked at, and the words that always follow its name."""

    name: str
    description: str


class Case(NamedTuple):
    """One kind of trouble: the metric that shows it, and what mends it."""

    metric: str
    unit: str
    good: int
    bad: int
    cause: str
    detail: str
    remedy: str


_TEAMS = (
    "kernel", "scheduler", "storage", "network", "quality", "release", "frontend", "capacity",
)  # fmt: skip

_ENGINEERS = tuple(
    Engineer(name, "she" if index % 2 == 0 else "he", _TEAMS[index % len(_TEAMS)])
    for index, name in enumerate(
        (
            "Ada", "Boris", "Chiara", "Dmitri", "Esther", "Felix", "Grace", "Hugo",
            "Ingrid", "Jonas", "Keiko", "Lars", "Miriam", "Nikhil", "Olga", "Pedro",
            "Quinn", "Rafael", "Sofia", "Tariq", "Ursula", "Viktor", "Wanda", "Yusuf",
        )
    )
)  # fmt: skip

_SERVERS = (
    Server("Orion", "an eight card machine in the north hall"),
    Server("Vega", "an old machine behind the glass door"),
    Server("Lyra", "a loaned machine with four cards"),
    Server("Altair", "the busiest machine of the cluster"),
    Server("Rigel", "a quiet machine in the cellar"),
    Server("Mira", "the first machine with liquid cooling"),
    Server("Deneb", "a spare machine near the window"),
    Server("Castor", "one half of a pair that shares a switch"),
    Server("Pollux", "the other half of a pair that shares a switch"),
    Server("Sirius", "the only machine that customers know by name"),
    Server("Antares", "a test machine without a battery"),
    Server("Polaris", "the reference machine for every comparison"),
    Server("Capella", "a rented machine on another continent"),
    Server("Regulus", "a machine that nobody had rebooted for a year"),
    Server("Spica", "a small machine under a desk"),
    Server("Aldebaran", "the largest machine in the south hall"),
)

_CASES = (
    Case("queue depth", "requests", 12, 96, "the batch limit was too low",
         "New requests waited outside while half of the memory stayed empty",
         "raised the batch limit"),
    Case("first token latency", "milliseconds", 80, 640, "long prompts blocked the short ones",
         "One document of forty pages could hold up a whole row of greetings",
         "switched on chunked prefill"),
    Case("cache hit rate", "percent", 35, 70, "every prompt began with the same preamble",
         "The benchmark measured the memory of the server and not its speed",
         "cleared the prefix cache before each round"),
    Case("output throughput", "tokens per second", 450, 180, "the draft model was hardly trusted",
         "Three guesses out of four were thrown away by the verifier",
         "trained the draft head on fresh answers"),
    Case("memory usage", "gigabytes", 48, 76, "the weights were loaded in full precision",
         "Sixteen bits were spent where eight would have been enough",
         "quantized the linear layers"),
    Case("error rate", "failures per hour", 1, 24, "the proxy closed idle connections",
         "The clients blamed the model although it never saw their questions",
         "set a longer timeout on the proxy"),
    Case("power draw", "watts", 350, 690, "the fans fought against a blocked filter",
         "Warm air circled between the racks and came back warmer",
         "cleaned the filter by hand"),
    Case("clock speed", "megahertz", 1980, 1410, "the cards were throttled by heat",
         "The driver lowered the clocks in small steps that no chart had shown",
         "moved two jobs to a cooler rack"),
    Case("start time", "seconds", 45, 120, "the compile cache was lost at each deployment",
         "The same kernels were built again every morning",
         "kept the compile cache on a local disk"),
    Case("token gap", "milliseconds", 7, 19, "the sampler ran on the wrong device",
         "Each step sent the whole vocabulary across the bus and back",
         "moved the sampler to the accelerator"),
    Case("preemption count", "events per minute", 2, 31, "too many long chats were admitted",
         "Finished work was dropped and computed a second time",
         "limited the number of open sequences"),
    Case("network delay", "microseconds", 90, 870, "one cable had been bent at the switch",
         "Packets were repeated so quietly that only the counters knew",
         "replaced the cable"),
    Case("disk wait", "milliseconds", 3, 41, "the logs were written without a buffer",
         "Each line of the log cost one trip to a slow volume",
         "sent the logs through a buffer"),
    Case("tail latency", "milliseconds", 210, 990, "a backup ran at the busiest hour",
         "The median looked healthy while one caller in a hundred gave up",
         "moved the backup to the night"),
    Case("load time", "seconds", 18, 75, "the checkpoint was read from a remote bucket",
         "Four shards arrived one after another over a narrow line",
         "stored the checkpoint next to the server"),
    Case("client load", "percent", 20, 98, "the load generator shared a core with the server",
         "The bottleneck was the tool that should have found it",
         "gave the load generator its own machine"),
)  # fmt: skip

_MOMENTS = (
    "On Monday morning", "On Tuesday afternoon", "After the release", "Before lunch",
    "On Friday evening", "During the night shift", "A week later", "At the end of the quarter",
)  # fmt: skip

_OPENINGS = (
    "{moment}, {name} from the {team} team looked at the {metric} of {server}, {description}.",
    "{moment}, the {metric} of {server} worried {name} from the {team} team.",
    "{moment}, an alarm about the {metric} of {server}, {description}, woke {name}.",
)
_OBSERVATIONS = (
    "It had {moved} from {good} to {bad} {unit} since the last deployment.",
    "The chart showed {bad} {unit} instead of the usual {good}.",
    "Nobody had expected {bad} {unit} on a machine that used to report {good}.",
)
_CAUSES = (
    "The traces showed that {cause}.",
    "It took an hour to learn that {cause}.",
    "A colleague guessed that {cause}, and the traces agreed.",
)
_REMEDIES = (
    "So {pronoun} {remedy} and ran the benchmark again.",
    "With one small change {pronoun} {remedy} and waited for the next round.",
    "Then {pronoun} {remedy}, asked for a review, and repeated the measurement.",
)
_RESULTS = (
    "The {metric} went back to {good} {unit}, well within the agreed limit.",
    "After five repeats the {metric} was {good} {unit}, and the interval was narrow.",
    "This time the {metric} settled at {good} {unit}.",
)
_CLOSINGS = (
    "The numbers went into the report and the ticket was closed.",
    "The {team} team thanked {name} and copied the change to every other server.",
    "{name} wrote down what had happened, so that nobody would have to find it twice.",
)


def _draw(random: Random, options: Sequence[T]) -> T:
    """One of the options; the earlier ones come more often, as words in real text do."""
    draw = random.random()
    return options[int(draw * draw * len(options))]


def _around(random: Random, value: int) -> int:
    """A whole number within a tenth of `value`, and at least 1."""
    spread = value // 10
    return max(1, value - spread + int(random.random() * (2 * spread + 1)))


def _story(random: Random) -> Iterator[str]:
    """The sentences of one ticket, in order."""
    engineer = _draw(random, _ENGINEERS)
    server = _draw(random, _SERVERS)
    case = _draw(random, _CASES)
    slots = {
        "moment": _draw(random, _MOMENTS),
        **engineer._asdict(),
        **case._asdict(),
        "server": server.name,
        "description": server.description,
        "good": str(_around(random, case.good)),
        "bad": str(_around(random, case.bad)),
        "moved": "risen" if case.bad > case.good else "fallen",
    }
    yield _draw(random, _OPENINGS).format(**slots)
    yield _draw(random, _OBSERVATIONS).format(**slots)
    yield _draw(random, _CAUSES).format(**slots)
    if random.random() < 0.75:
        yield case.detail + "."
    yield _draw(random, _REMEDIES).format(**slots)
    yield _draw(random, _RESULTS).format(**slots)
    yield _draw(random, _CLOSINGS).format(**slots)


def sentences(seed: int) -> Iterator[str]:
    """Endless sentences, story after story; each ends with a full stop.

    Raises:
        ValueError: seed is negative (`random.Random` takes -1 for 1).
    """
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}")
    random = Random(seed)
    return (sentence for _ in count() for sentence in _story(random))


def passage(seed: int, words: int) -> str:
    """Text of exactly `words` words from the start of a story, usually cut within a sentence.

    Made for prompts: no `passage` shares its stream with a `training_text`, whatever the seeds.

    Raises:
        ValueError: seed is negative or words is less than 1.
    """
    if words < 1:
        raise ValueError(f"words must be 1 or more, got {words}")
    stream = (word for sentence in sentences(2 * seed + 1) for word in sentence.split())
    return " ".join(islice(stream, words))


def training_text(seed: int, characters: int) -> str:
    """Whole sentences, joined by single spaces, of at least `characters` characters together.

    Raises:
        ValueError: seed is negative.
    """
    parts: list[str] = []
    length = 0
    for sentence in sentences(2 * seed):
        if length >= characters:
            break
        parts.append(sentence)
        length += len(sentence) + 1
    return " ".join(parts)
