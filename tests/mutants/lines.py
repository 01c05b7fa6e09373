"""Records which tests run which line: a pytest plugin that writes coverage's database with a context for each test.

A shared fixture gets its own context, since only the first of its tests runs its lines. Other cached results still
count for the first test alone, so a mutant survives only if the whole suite passes.
"""

import json
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
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.coverage = coverage.Coverage(data_file=folder / DATA, config_file=False, source=[*ROOMS])
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
        (self.folder / TESTS).write_text(json.dumps({"tests": tests, "failed": self.failed}))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Lines(config.rootpath.parent))
