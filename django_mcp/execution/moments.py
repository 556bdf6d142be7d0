"""Date-times by the settings of the site: aware with `USE_TZ`, else naive in the time zone of the site."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import overload

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext as _

from django_mcp.server.ports import Today

_MINUTE = timedelta(minutes=1)


def read_moment(moment: datetime, *, needs_offset: bool = False) -> datetime:
    """Return a date-time of a client as code of the site has it.

    Args:
        moment: with an offset, or naive: in the current time zone then.
        needs_offset: whether it gets an offset without `USE_TZ`, too.

    Raises:
        ValidationError: the clocks of the current time zone skip or repeat it, or it has no form in UTC.
    """
    try:
        if not (settings.USE_TZ or needs_offset):
            naive = timezone.make_naive(moment) if timezone.is_aware(moment) else moment
            timezone.make_aware(naive).astimezone(UTC)
            return naive
        aware = _interpret(moment) if timezone.is_naive(moment) else moment
        aware.astimezone(UTC)
    except (OverflowError, ValueError):
        raise ValidationError(_("Enter a valid value.")) from None
    return aware


def parse_moment(text: str) -> datetime | None:
    """Return the date-time of a text, as `read_moment` does; None: it is in no form of ISO 8601."""
    try:
        moment = parse_datetime(text)
    except ValueError:
        return None
    return None if moment is None else read_moment(moment)


def _interpret(moment: datetime) -> datetime:
    """Return a naive date-time in the current time zone, as forms of Django read it."""
    # Loads many modules, which importing a server must not.
    from django.forms.utils import from_current_timezone

    if settings.USE_TZ:
        return from_current_timezone(moment)
    return timezone.make_aware(moment)


@overload
def write_moment(moment: datetime) -> datetime: ...
@overload
def write_moment(moment: None) -> None: ...
def write_moment(moment: datetime | None) -> datetime | None:
    """Return a date-time with an offset that JSON can hold; that of the current time zone, if it has none."""
    if moment is None:
        return None
    return _with_minutes(timezone.make_aware(moment) if timezone.is_naive(moment) else moment)


@overload
def localize(moment: datetime, zone: tzinfo | None = None) -> datetime: ...
@overload
def localize(moment: None, zone: tzinfo | None = None) -> None: ...
def localize(moment: datetime | None, zone: tzinfo | None = None) -> datetime | None:
    """Return a date-time with the offset of the current time zone, or in UTC where JSON could not hold that.

    Args:
        moment: the date-time; None: it stays so.
        zone: the current time zone, for callers with many date-times: to find it takes most of the time.
    """
    if moment is None or timezone.is_naive(moment):
        return write_moment(moment)
    try:
        return _with_minutes(moment.astimezone(zone or timezone.get_current_timezone()))
    except (OverflowError, ValueError):
        return moment


def find_today(now_s: float) -> Today:
    """Return the day in the current time zone, in the active language."""
    zone = timezone.get_current_timezone()
    now = datetime.fromtimestamp(now_s, zone)
    tomorrow = datetime.combine(now.date() + timedelta(days=1), time.min, zone)
    text = _("Today is %(weekday)s, %(date)s, in the time zone %(zone)s.") % {
        "weekday": WEEKDAYS[now.weekday()],
        "date": now.date().isoformat(),
        "zone": timezone.get_current_timezone_name(),
    }
    return Today(text=text, ends_in_s=tomorrow.timestamp() - now_s)


def _with_minutes(moment: datetime) -> datetime:
    """Return a date-time whose offset has no seconds, as those of times before time zones do.

    Source: RFC 3339, section 5.6, `time-numoffset`.
    """
    offset = moment.utcoffset()
    if not offset or not offset % _MINUTE:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return moment
