"""Writes `models.csv`, `model_names.csv` and `gpu_speed.csv` of `sharing/data` again: `python -m catalogue`."""

from pathlib import Path

from catalogue import speed_errors
from catalogue.table import names, table

DATA = Path(__file__).resolve().parent.parent / "sharing" / "data"

if __name__ == "__main__":
    (DATA / "models.csv").write_text(table(), encoding="utf-8", newline="")
    (DATA / "model_names.csv").write_text(names(), encoding="utf-8", newline="")
    (DATA / "gpu_speed.csv").write_text(speed_errors.table(), encoding="utf-8", newline="")
