"""Writes the tables of `sharing/data` that are made of the facts again: `python -m catalogue`."""

from pathlib import Path

from catalogue import quantized, speed_errors
from catalogue.table import names, table

DATA = Path(__file__).resolve().parent.parent / "sharing" / "data"

if __name__ == "__main__":
    (DATA / "models.csv").write_text(table(), encoding="utf-8", newline="")
    (DATA / "model_names.csv").write_text(names(), encoding="utf-8", newline="")
    (DATA / "quantizations.csv").write_text(quantized.table(), encoding="utf-8", newline="")
    (DATA / "gpu_speed.csv").write_text(speed_errors.table(), encoding="utf-8", newline="")
