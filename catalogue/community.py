"""The files that users share, `docs/benchmarks/community/`: `python -m catalogue.community [FILE ...]` checks them."""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from sharing.hardware.gpus import gpus
from sharing.models.catalogue import find, models
from sharing.problems import did_you_mean
from sharing.speed.community import BenchedModel, Community, Figures
from sharing.speed.forecast import read_per_token
from sharing.speed.gpus import gpu_speeds

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "community"
MARGIN = 1.1
"""Speed over what the bandwidth allows from which a figure is impossible. The fastest known reading has 0.87."""


@cache
def files() -> dict[str, Community]:
    """Every file of the folder, by name."""
    return {path.name: Community.model_validate_json(path.read_bytes()) for path in sorted(FOLDER.glob("*.json"))}


def alone(file: Community) -> Iterator[tuple[BenchedModel, Figures, float]]:
    """What was measured with an entire GPU for one request, with its tokens per second.

    A client of MPS may have a part of the threads, also while the others are idle.
    """
    for model in file.models:
        if "/" not in model.gpu and not model.profile and (not model.mode.startswith("mps") or model.sharers == 1):
            for each in model.figures:
                if each.neighbours == "idle" and each.at_once == 1 and each.tokens_per_s:
                    yield model, each, each.tokens_per_s.value


def errors(path: Path) -> list[str]:
    """The errors of a file, a line each."""
    try:
        file = Community.model_validate_json(path.read_bytes())
    except OSError as error:
        return [f"{path} cannot be read: {error.strerror}."]
    except ValidationError as error:
        return [f"{path}: {'.'.join(map(str, each['loc'])) or 'file'}: {each['msg']}." for each in error.errors()]
    return [
        f"{path}: models.{number}.{line}" for number, each in enumerate(file.models) for line in _errors_of_model(each)
    ]


def _errors_of_model(benched: BenchedModel) -> Iterator[str]:
    model, speed = find(benched.name), gpu_speeds().get(benched.gpu.partition("/")[0])
    if speed is None or benched.gpu not in gpus():
        yield f"gpu: '{benched.gpu}' is unknown. {did_you_mean(benched.gpu, gpus())}"
    if model is None:
        yield f"name: '{benched.name}' is not in the catalogue. {did_you_mean(benched.name, models())}"
    elif benched.quantization != model.quant:
        yield f"quantization: '{benched.quantization}' is not that of {benched.name}, {model.quant}."
    if model is None or speed is None:
        return
    # Each token of a request reads the weights once.
    most = MARGIN * speed.gb_s * 1e9 / read_per_token(model)
    reason = f"{speed.gb_s:,.0f} GB/s allow with {read_per_token(model) / 1e9:.2f} GB per token. Check its unit."
    for number, figures in enumerate(benched.figures):
        for name, limit in (("tokens_per_s", most), ("total_tokens_per_s", most * figures.at_once)):
            figure = getattr(figures, name)
            if figure and figure.high > limit:
                yield f"figures.{number}.{name}: {figure.high:,.4g} is more than the {limit:,.4g} that {reason}"
        first = figures.first_token_ms
        if first and first.low < 1000 / most:
            less = f"{first.low:,.4g} is less than the {1000 / most:,.4g}"
            yield f"figures.{number}.first_token_ms: {less} that {reason}"


if __name__ == "__main__":
    paths = [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.json"))
    found = [line for path in paths for line in errors(path)]
    print("\n".join(found) or f"{len(paths)} files are right.")
    sys.exit(bool(found))
