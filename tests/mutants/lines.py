"""Records which tests run which line: a pytest plugin that writes coverage's database with a context for each test.

Each process of `pytest -n` records its own tests, and the first process joins the records. A shared fixture gets its
own context, since only the first of its tests runs its lines. Other cached results still count for the first test
alone, so a mutant survives only if the whole suite passes.
"""

import json
import os
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

from tests.mutants.sample import ROOMS

DATA = "lines.coverage"
"""Coverage's database: which test runs which line."""
TESTS = "tests.json"
"""The tests of that run, with their seconds and fixtures."""


class Lines:
    def __init__(self, folder: Path, process: str) -> None:
        self.folder, self.process = folder, process
        self.coverage = coverage.Coverage(data_file=folder / f"{process}.{DATA}", config_file=False, source=[*ROOMS])
        self.coverage.set_option("run:relative_files", True)
        self.tests: dict[str, dict[str, object]] = {}
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.current = item.nodeid
        self.coverage.switch_context(item.nodeid)
        self.tests[item.nodeid] = {"fixtures": getattr(item, "fixturenames", [])}
        result = yield
        self.coverage.switch_context("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(f"fixture {fixturedef.argname}")
        result = yield
        self.coverage.switch_context(self.current)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        tests = {name: {**test, "seconds": round(self.seconds[name], 3)} for name, test in self.tests.items()}
        (self.folder / f"{self.process}.{TESTS}").write_text(json.dumps({"tests": tests, "failed": self.failed}))


class Join:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        lines = coverage.CoverageData(str(self.folder / DATA))
        tests: dict[str, object] = {}
        failed: list[str] = []
        for record in sorted(self.folder.glob(f"gw*.{TESTS}")):
            part = json.loads(record.read_text())
            tests |= part["tests"]
            failed += part["failed"]
        for record in sorted(self.folder.glob(f"gw*.{DATA}")):
            part = coverage.CoverageData(str(record))
            part.read()
            lines.update(part)
        lines.write()
        (self.folder / TESTS).write_text(json.dumps({"tests": tests, "failed": failed}))


def pytest_configure(config: pytest.Config) -> None:
    folder = config.rootpath.parent
    process = os.environ.get("PYTEST_XDIST_WORKER")
    config.pluginmanager.register(Lines(folder, process) if process else Join(folder))
