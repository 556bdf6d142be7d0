"""`manage.py mcp_health`: what is wrong now, for cron and for people."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import Error
from django.utils import timezone

from django_mcp.execution.db_connections import run_with_connections
from django_mcp.execution.migrated import find_database_fault
from django_mcp.execution.outages import is_unmigrated
from django_mcp.health.alerts import Alert, note_alerts
from django_mcp.health.conditions import KINDS, Condition, Reading, Signs, parse_condition
from django_mcp.management.base import SiteCommand, wrong_use
from django_mcp.management.terminal import printable
from django_mcp.signals import alert_began, alert_ended

MAX_MINUTES = 24 * 60


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """What was read, and the condition that it was read for, if it was for one."""

    name: str
    reading: Reading
    condition: Condition | None

    @property
    def holds(self) -> bool:
        return self.condition is not None and self.condition.holds(self.reading)

    @property
    def mark(self) -> str:
        if self.condition is None:
            return ""
        return "FAIL" if self.holds else "ok"


class Command(SiteCommand):
    """Print how the site is, and fail if a condition holds."""

    help = (
        "Prints calls, errors, durations, busy threads, waiting calls, lost workers and tasks, Redis, API keys that "
        "expire and refused sign-ins. Ends with 1 if a condition of --fail-on holds, or a database does not answer."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        examples = ", ".join(kind.example for kind in KINDS.values())
        parser.add_argument(
            "--fail-on",
            metavar="CONDITION",
            nargs="+",
            action="extend",
            default=[],
            help=f"end with 1 if one of these holds: {examples}".replace("%", "%%"),
        )
        parser.add_argument(
            "--minutes",
            type=_whole(1, MAX_MINUTES),
            default=5,
            help="how far back calls, tasks and sign-ins are looked at (5)",
        )
        parser.add_argument(
            "--min-calls",
            metavar="CALLS",
            type=_whole(1, 1_000_000),
            default=20,
            help="with fewer calls, nothing is said of errors and p95 (20)",
        )
        parser.add_argument(
            "--alert",
            action="store_true",
            help="send the signals alert_began and alert_ended for the conditions of --fail-on",
        )
        parser.add_argument("--json", action="store_true", help="print JSON for a program to read")

    def handle(self, *args: Any, **options: Any) -> None:
        conditions = _parse_all(options["fail_on"])
        if options["alert"]:
            if not conditions:
                raise wrong_use("--alert needs conditions: name them with --fail-on.")
            if not (alert_began.receivers or alert_ended.receivers):
                self.stderr.write(
                    "No receiver waits for alert_began or alert_ended: connect one in ready() of an AppConfig."
                )
        fault = run_with_connections(find_database_fault)
        if fault:
            if options["json"]:
                self.print_json({"database": fault})
            raise CommandError(f"{fault}.")
        signs = Signs(minutes=options["minutes"], min_calls=options["min_calls"])
        try:
            lines = list(_read(signs, conditions))
            if options["alert"]:
                _tell(signs, lines)
        except Error as error:
            if is_unmigrated(error):
                raise
            raise CommandError(
                f"A database does not answer ({type(error).__name__}: {error})."
            ) from error
        self._show(signs, lines, as_json=options["json"])
        failed = [_explain(signs, line) for line in lines if line.holds]
        if failed:
            raise CommandError("\n".join(failed))

    def _show(self, signs: Signs, lines: Sequence[_Line], *, as_json: bool) -> None:
        if as_json:
            readings = [
                {
                    "name": line.name,
                    "value": line.reading.value,
                    "text": line.reading.text,
                    "condition": line.condition.text if line.condition is not None else None,
                    "holds": line.holds,
                }
                for line in lines
            ]
            now = timezone.now().isoformat()
            self.print_json({"at": now, "minutes": signs.minutes, "readings": readings})
            return
        for line in lines:
            text = f"{line.mark:5}{line.name:10}{line.reading.text}"
            style = self.style.ERROR if line.holds else None
            self.stdout.write(printable(text), style)


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0
        if not least <= number <= most:
            raise ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
        return number

    return read


def _parse_all(texts: Sequence[str]) -> list[Condition]:
    try:
        return list(
            {condition.text: condition for condition in map(parse_condition, texts)}.values()
        )
    except ValueError as error:
        raise wrong_use(str(error)) from None


def _read(signs: Signs, conditions: Sequence[Condition]) -> list[_Line]:
    """Return what was read for the conditions; without any, all that can be read."""
    wanted: list[tuple[str, Condition | None]] = [(each.name, each) for each in conditions]
    wanted = wanted or [(name, None) for name in KINDS]
    known = {name: KINDS[name].read(signs) for name in dict(wanted)}
    for condition in conditions:
        missing = known[condition.name].missing
        if missing:
            # It would be silent for ever.
            raise wrong_use(f"{condition.text} never holds on this site: it needs {missing}.")
    return [_Line(name=name, reading=known[name], condition=each) for name, each in wanted]


def _tell(signs: Signs, lines: Sequence[_Line]) -> None:
    """Send the signals of conditions that begin or end to hold. One that cannot be told stays as it is."""
    now = timezone.now()
    alerts: dict[bool, list[Alert]] = {True: [], False: []}
    for line in lines:
        if line.condition is not None and line.reading.value is not None:
            alert = Alert(
                name=line.name,
                condition=_describe(signs, line.condition),
                text=line.reading.text,
                look=KINDS[line.name].look,
                began_at=now,
            )
            alerts[line.holds].append(alert)
    note_alerts(alerts[True], alerts[False])


def _describe(signs: Signs, condition: Condition) -> str:
    kind = KINDS[condition.name]
    return f"{condition.text} in {signs.minutes} min" if kind.is_of_window else condition.text


def _explain(signs: Signs, line: _Line) -> str:
    condition = "" if line.condition is None else f" ({_describe(signs, line.condition)})"
    return printable(f"{line.name}: {line.reading.text}{condition}. See {KINDS[line.name].look}.")
