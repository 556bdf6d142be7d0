"""Alerts: signals when a condition begins and when it ends to hold, each sent once.

A row says that a condition holds. The process that inserts it sends `alert_began`, and the one that deletes it sends
`alert_ended`, so several machines may look at the same time. If a receiver fails, the row is as before, and the next look
sends the signal again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.dispatch import Signal
from django.utils import timezone

from django_mcp.execution.background import send_signal
from django_mcp.models import HealthAlert
from django_mcp.signals import alert_began, alert_ended

FORGOTTEN_AFTER = timedelta(days=1)
"""A condition that nobody has looked at for so long has ended: the command line names another limit by now."""

MAX_FORGOTTEN = 100
"""Such conditions that one look ends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """A condition that has begun to hold, or that no longer does.

    Attributes:
        name: what is watched, such as `"errors"`.
        condition: it with its limit and its time, such as `"errors=5% in 5 min"`.
        text: what was read now, such as `"12.5 % of 80 calls"`.
        look: where to look next.
        began_at: since when it holds, or held.
    """

    name: str
    condition: str
    text: str
    look: str
    began_at: datetime


def note_alerts(holding: Iterable[Alert], others: Iterable[Alert]) -> None:
    """Send the signals for conditions that hold and did not at the last look, and for those that do not any more.

    Receivers run here, in order, and their exceptions are logged.
    """
    now = timezone.now()
    for alert in holding:
        values = {"began_at": alert.began_at, "checked_at": now}
        row, is_new = HealthAlert.objects.get_or_create(condition=alert.condition, defaults=values)
        if not is_new:
            HealthAlert.objects.filter(pk=row.pk).update(checked_at=now)
        elif not _send(alert_began, alert):
            row.delete()
    for alert in others:
        known = HealthAlert.objects.filter(pk=alert.condition).first()
        if known is not None:
            _end(known, alert)
    for row in HealthAlert.objects.filter(checked_at__lt=now - FORGOTTEN_AFTER)[:MAX_FORGOTTEN]:
        name = row.condition.partition("=")[0].partition(" ")[0]
        text = "nobody has looked at it for a day"
        ended = Alert(name=name, condition=row.pk, text=text, look="", began_at=row.began_at)
        _end(row, ended)


def _end(row: HealthAlert, alert: Alert) -> None:
    values = {"began_at": row.began_at, "checked_at": row.checked_at}
    # Of several that look at the same time, one deletes it.
    is_ended = HealthAlert.objects.filter(pk=row.pk).delete()[0] > 0
    if is_ended and not _send(alert_ended, replace(alert, began_at=row.began_at)):
        HealthAlert.objects.get_or_create(condition=alert.condition, defaults=values)


def _send(signal: Signal, alert: Alert) -> bool:
    return send_signal(signal, HealthAlert, alert=alert)
