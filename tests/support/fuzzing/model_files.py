"""Fuzzing of model files: parts changed under valid checksums and lengths.

`make fuzz` feeds them to the process that reads uploaded models. An accepted file must then answer every
request for a model within the same memory.
"""

import copy
import io
import json
import random
import struct
import zlib
from dataclasses import dataclass, replace

import numpy as np

from app.services import errors
from app.services.readers.process.tasks import model
from sampler import fit, pack, prepare, warm
from sampler.data.linear_terms import slope_names
from sampler.errors import SamplerError
from sampler.noise import component_names
from sampler.posterior.several.stored import posterior_of
from sampler.storage.draws import Draws
from sampler.storage.model_file import START, read_parts, write_model
from sampler.training import LinearTraining
from sampler.trees.soft.draws import SoftDraws
from tests.support.models import kinds
from tests.support.models.questions import DEAR, answer, questions
from tests.support.models.random_forests import random_draws

QUESTIONS = 8  # asked of a file
HEADER = START  # the header begins like the file
BLOCK_CHECKSUM = slice(8, 12)
# Position and format of each number in the head of a block.
FIELDS = [(4, "<B"), (5, "<B"), (6, "<B"), (7, "<B"), (12, "<I"), (16, "<I"), (20, "<Q"), (28, "<Q")]
SOFT_FIELDS = [(20, "<I"), (24, "<I"), (36, "<d")]
WHOLE = [0, 1, 2, 3, 7, 254, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63, 2**64 - 1]
FLOATS = [0.0, -0.0, 1.5, -1.0, 1e-320, 1e150, 1e200, 1.7e308, -1.7e308, np.inf, -np.inf, np.nan]
TEXTS = [
    "",
    "a\0",
    "\ud800",
    "x" * 300,
    "y",
    "x1",
    "c",
    "gaussian",
    "probit",
    "categorical",
    "number",
    "category",
]
ALWAYS = [None, True, False, *WHOLE, *(-whole for whole in WHOLE), 10**400, *FLOATS, *TEXTS]


@dataclass
class File:
    """A model file in parts, any of which may be wrong."""

    index: dict  # entries besides the lengths of the parts, or replacing them
    text: object
    arrays: bytes
    chains: list

    def to_bytes(self) -> bytes:
        """Encode the file with correct checksums."""
        header = sealed(b"BARTHEAD", json.dumps(self.text).encode("utf-8", "surrogatepass"), self.arrays)
        index = {
            "header": len(header),
            "chains": [[len(block) for block in chain] for chain in self.chains],
        } | self.index
        parts = header + b"".join(block for chain in self.chains for block in chain)
        return sealed(b"BARTMODL", json.dumps(index).encode("utf-8", "surrogatepass"), parts)


def sealed(magic: bytes, text: bytes, parts: bytes) -> bytes:
    """Encode a file or a header with the length of its text and the checksum of its content."""
    body = struct.pack("<I", len(text)) + text + parts
    return magic + struct.pack("<HI", 1, zlib.crc32(body)) + body


def sealed_block(block: bytes) -> bytes:
    """Encode a block with the checksum of its content."""
    if len(block) < BLOCK_CHECKSUM.stop:
        return block
    rest = block[: BLOCK_CHECKSUM.start] + block[BLOCK_CHECKSUM.stop :]
    return block[: BLOCK_CHECKSUM.start] + struct.pack("<I", zlib.crc32(rest)) + rest[BLOCK_CHECKSUM.start :]


def taken_apart(data: bytes) -> File | None:
    """Split a file into the parts that it lists."""
    try:
        header, chains, statistics, _ = read_parts(data)
        (length,) = struct.unpack_from("<I", header, HEADER.size - 4)
        text = json.loads(header[HEADER.size : HEADER.size + length])
    except (SamplerError, struct.error, ValueError, RecursionError):
        return None
    return File({"statistics": statistics}, text, header[HEADER.size + length :], chains)


def mutated(corpus: list[bytes], dice: random.Random) -> bytes:
    """Return one of the corpus with a few changes."""
    file = None
    while file is None:
        file = taken_apart(dice.choice(corpus))
    changes = [_change_text, _change_text, _change_index, _change_block, _change_block, _change_arrays]
    try:
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            dice.choice(changes)(file, dice)
        return file.to_bytes()
    except (RecursionError, ValueError):  # deeper than JSON can be written
        return b"BARTMODL"


def _change_text(file: File, dice: random.Random) -> None:
    file.text = _changed(file.text, dice)


def _change_index(file: File, dice: random.Random) -> None:
    lengths = {"chains": [[len(block) for block in chain] for chain in file.chains]}
    changed = _changed(file.index | dice.choice([{}, {}, lengths, {"header": 18}]), dice)
    file.index = changed if isinstance(changed, dict) else {"statistics": changed}


def _changed(value: object, dice: random.Random) -> object:
    """Return the value with one place in it changed."""
    places: list[tuple] = []
    waiting = [value]
    while waiting:
        container = waiting.pop()
        keys = (
            list(container)
            if isinstance(container, dict)
            else range(len(container))
            if isinstance(container, list)
            else []
        )
        places += [(container, key) for key in keys]
        waiting += [container[key] for key in keys if isinstance(container[key], dict | list)]
    if not places:
        return _any(value, dice)
    # top-level fields as often as the many places of schema and cuts
    chosen = [place for place in places if place[0] is value] if dice.random() < 0.3 else places
    inside, key = dice.choice(chosen or places)
    kind = dice.randrange(8)
    if kind == 0 and isinstance(inside, list):
        inside[key:key] = [copy.deepcopy(inside[key])] * dice.choice([1, 2, 1000])
    elif kind == 1:
        del inside[key]
    elif kind == 2 and isinstance(inside, dict):
        inside[dice.choice(["new", "moves", "divide", "filter", "values", ""])] = _any(inside[key], dice)
    elif kind == 3:
        inside[key] = copy.deepcopy(dice.choice(places)[0])
    else:
        inside[key] = _any(inside[key], dice)
    return value


def _any(value: object, dice: random.Random) -> object:
    """Return another value in place of the given one."""
    kind = dice.randrange(6)
    if kind == 0 and isinstance(value, int | float) and value == value:
        return value + dice.choice([-1, 1, 0.5]) if dice.random() < 0.5 else value * dice.choice([2, -1])
    if kind == 1:
        content: object = value
        for _ in range(dice.choice([1, 2, 20, 300, 900])):
            content = [content] if dice.random() < 0.5 else {"a": content}
        return content
    if kind == 2:
        return dice.choice([list, dict])()
    if kind == 3:
        return [dice.choice([[], {}, 0, "", value])] * dice.choice([1, 200, 20_000])
    if kind == 4:
        return {"grow": dice.choice([5, None, [], {}, {"proposed": 1}, {"proposed": 1, "accepted": 2.5}])}
    return dice.choice(ALWAYS)


def _change_arrays(file: File, dice: random.Random) -> None:
    text = file.text if isinstance(file.text, dict) else {}
    cuts = text.get("num_cuts")
    kind = dice.randrange(4)
    if kind == 0 and isinstance(cuts, list):  # more reference rows than a fit keeps, all present
        text["num_reference"] = rows = dice.choice([0, 1, 199, 201, 1000, 5000])
        size = 8 * sum(count for count in cuts if isinstance(count, int) and abs(count) < 1000)
        file.arrays = file.arrays[: max(size, 0)] + dice.randbytes(min(rows * len(cuts), 1 << 20))
    elif kind == 1:
        file.arrays = file.arrays[: dice.randrange(len(file.arrays) + 1)]
    elif kind == 2 and len(file.arrays) >= 8:
        at = 8 * dice.randrange(len(file.arrays) // 8)
        file.arrays = file.arrays[:at] + struct.pack("<d", dice.choice(FLOATS)) + file.arrays[at + 8 :]
    else:
        file.arrays += bytes(dice.choice([1, 8, 1000]))


def _change_block(file: File, dice: random.Random) -> None:
    kind = dice.randrange(10)
    if not any(file.chains) or kind == 0:
        file.chains = dice.choice(
            [[], [[]], [*file.chains, []], file.chains * 2, file.chains[:1], [[]] * 300]
        )
        return
    chain = dice.choice([chain for chain in file.chains if chain])
    at = dice.randrange(len(chain))
    block = chain[at]
    if kind == 1:
        chain[at:at] = [block] * dice.choice([1, 5])
        return
    if kind == 2:
        block = block[: dice.choice([*range(64), dice.randrange(len(block) + 1)])]
    elif kind == 3 and len(block) > 48:
        place = 36 + 8 * dice.randrange((len(block) - 44) // 8 + 1)
        block = block[:place] + struct.pack("<d", dice.choice(FLOATS)) + block[place + 8 :]
    elif kind == 4 and block:
        place = dice.randrange(len(block))
        block = block[:place] + bytes([block[place] ^ 1 << dice.randrange(8)]) + block[place + 1 :]
    else:
        place, code = dice.choice(FIELDS + SOFT_FIELDS)
        size = struct.calcsize(code)
        if len(block) >= place + size:
            (had,) = struct.unpack_from(code, block, place)
            number = had + dice.choice([-1, 1]) if dice.random() < 0.3 else dice.choice(WHOLE)
            value = dice.choice(FLOATS) if code == "<d" else int(number) % 256**size
            block = block[:place] + struct.pack(code, value) + block[place + size :]
    chain[at] = sealed_block(block)


def read(data: bytes, name: str = kinds.KINDS[0]) -> None:
    """Process a file of a kind as the service does; raises ServiceError or MemoryError if it is refused."""
    out = io.BytesIO()
    answer = json.loads(json.dumps(model(io.BytesIO(data), out, {}), allow_nan=False))
    try:
        _ask(kinds.Kind(name), answer, out.getvalue(), random.Random(zlib.crc32(data)))
    except (errors.ServiceError, MemoryError) as error:
        raise AssertionError(f"it was taken, and then {error!r}") from error


def _ask(kind: kinds.Kind, contents: dict, parts: bytes, dice: random.Random) -> None:
    """Ask a stored model some of all questions, which the file chooses; refusals are valid answers."""
    header, at = parts[: contents["header"]], contents["header"]
    blocks: list[list[bytes]] = []
    for chain in contents["chains"]:
        blocks.append([])
        for _, length in chain:
            blocks[-1].append(parts[at : at + length])
            at += length
    posterior = posterior_of(header, blocks, contents["statistics"])
    posterior.nbytes  # noqa: B018  asked by the cache
    for part in [posterior] if posterior.several is None else [posterior, posterior.several]:
        asked = [
            ask
            for name, ask in questions(kind, part).items()
            if not name.startswith(DEAR) or not dice.randrange(20)
        ]
        for ask in dice.sample(asked, min(QUESTIONS, len(asked))):
            answer(ask, part)


def _columns(seed: int = 0) -> tuple[dict, np.ndarray]:
    dice = np.random.default_rng(seed)
    x = {f"x{j}": np.round(dice.normal(size=30), 3) for j in (1, 2)} | {"c": ["a", "b", "d"] * 10}
    x["x2"][::7] = np.nan
    return x, np.round(dice.normal(size=30), 3)


def _file(method: str, draws: list, y: object = None, **settings: object) -> bytes:
    x, numbers = _columns()
    problem = prepare(x, numbers if y is None else y, target_name="y", method=method, num_draws=4, **settings)
    statistics = [{"moves": {"grow": {"proposed": 4, "accepted": 1}}}] * len(draws)
    return write_model(problem.header(), [[pack(each[:2]), pack(each[2:])] for each in draws], statistics)


def _beside(each: Draws, *forests: str, **scalars: float) -> Draws:
    """Add further forests, the same again, and scalars that are the same in all draws."""
    named = {name: np.full(each.num_draws, value) for name, value in scalars.items()}
    return replace(each, scalars=named, forests=dict.fromkeys(forests, each))


def _of_every_kind(forests: list[Draws]) -> list[bytes]:
    """Return files of sums of trees with more parts: noise, a linear part, transforms, classes and counts."""
    exposure = np.linspace(0.5, 3.0, 30)
    linear = prepare(*_columns(), linear=True, num_draws=4).training.part(LinearTraining)
    slopes = dict.fromkeys(slope_names(len(linear.terms.column)), 0.3)
    counts = [0, 1, 5] * 10
    kinds = [
        (None, {"noise": "t"}, (), {"degrees": 4.0}),
        (None, {"noise": "t-forest"}, ("precision",), {"degrees": 2.5}),
        (None, {"noise": "mixture"}, (), dict.fromkeys(component_names(), 0.1)),
        (None, {"linear": True}, (), slopes),
        (None, {"transform": "yeo-johnson"}, (), {}),
        (np.linspace(1.0, 9.0, 30), {"transform": "log"}, (), {}),
        (["a", "b", "d"] * 10, {"family": "categorical", "linear": False}, ("class 1", "class 2"), {}),
        (counts, {"family": "poisson", "exposure": exposure}, (), {}),
        (counts, {"family": "zero-inflated-negative-binomial"}, ("zeros",), {"dispersion": 1.5}),
    ]
    return [
        _file("bart", [_beside(each, *more, **scalars) for each in forests], y, num_trees=3, **settings)
        for y, settings, more, scalars in kinds
    ]


def _of_several() -> bytes:
    """Return a file of two numbers and a class."""
    x, numbers = _columns()
    y = {"y": numbers, "z": numbers + np.sin(np.arange(30)), "k": ["no", "yes", "no"] * 10}
    lengths = {"num_chains": 2, "num_burnin": 3, "num_draws": 4}
    return fit(x, y, family="auto", num_trees=3, seed=1, progress=False, linear=False, **lengths).to_bytes()


def _with_values(seed: int, width: int) -> object:
    draws = random_draws(seed, 4, 1, 5, num_codes=20)
    leaves = int(np.count_nonzero(draws.feature < 0))
    value = np.random.default_rng(seed).uniform(0.1, 0.5, (leaves, width))
    return replace(draws, leaf=np.zeros_like(draws.leaf), value=value, log_weight=np.zeros(4))


def _soft(seed: int) -> SoftDraws:
    dice = np.random.default_rng(seed)
    is_split = np.array([True, False, False] * 4)
    return SoftDraws.from_parts(
        num_trees=1, sharpness=0.1, sigma=np.ones(4), log_weight=np.zeros(4), is_split=is_split,
        threshold=dice.uniform(size=4), direction=dice.dirichlet(np.ones(5), 4),
        value=dice.normal(size=(8, 1)),
    )  # fmt: skip


def seed_of(name: str) -> list[bytes]:
    """Return a fitted file of a kind; loads every kernel, as its answers may need any."""
    warm()
    return [kinds.fitted(name).to_bytes()]


def seeds() -> list[bytes]:
    """Return a file of each kind of draws; loads the kernels that read them."""
    for group in ("prediction", "heavy-tails", "mixtures", "count-quantiles", "soft-prediction", "shapley"):
        warm(group)
    forests = [random_draws(seed, 4, 3, 5, num_codes=20) for seed in range(2)]
    classes = ["no", "yes", "no"] * 10
    return [
        _file("bart", forests, num_trees=3),
        _file(
            "bart",
            [replace(each, sigma=np.ones(4)) for each in forests],
            classes,
            num_trees=3,
            family="probit",
        ),
        _file("bcart", [_with_values(seed, 1) for seed in range(2)]),
        _file("bcart-mean-variance", [_with_values(seed, 2) for seed in range(2)]),
        _file("rjhmc-df", [_soft(seed) for seed in range(2)]),
        *_of_every_kind(forests),
        _of_several(),
    ]
