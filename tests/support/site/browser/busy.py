"""Code that a shell of the site runs to fill its pages with long names and many rows, and to empty them."""

CLEAR = """
from django_mcp.extensions.tasks.site.models import Task
from django_mcp.models import APIKey, CallRecord, DisabledEntry, ErrorGroup, Session, Stream, Worker
for each in (Session, Stream, Worker, Task, CallRecord, ErrorGroup, APIKey, DisabledEntry):
    each.objects.all().delete()
"""

BUSY = (
    CLEAR
    + """
import uuid
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from django_mcp.models import Subscription
now = timezone.now()
admin = get_user_model().objects.get(username="admin")
long = "administrator.of.all.things@example.org"
user = get_user_model().objects.filter(username=long).first() or get_user_model().objects.create_user(long)
worker = Worker.objects.create(
    host="web-production-eu-central-1", pid=41234, lease_until=now + timedelta(hours=1),
    in_flight={"total": 3, "threads": [0, 32, 0], "sessions": {}, "callers": []})
for number in range(30):
    whose = {"server": "browser-site", "revision": "2025-11-25", "user": user, "principal_key": "session:1",
             "client_name": "claude-desktop-for-business", "client_version": "2.14.0"}
    session = Session.objects.create(digest=uuid.uuid4().hex, expires_at=now + timedelta(hours=1), **whose)
    Stream.objects.create(worker=worker, session=session, kind="get", **whose)
    Subscription.objects.create(session=session, uri="shop://products/" + "x" * 60, uri_digest=str(number))
    Task.objects.create(
        id=f"busy-{number}", tool="export_all_orders_of_a_year", server="browser-site", revision="2025-11-25",
        user=user, call={}, rounds={}, created_at=now, updated_at=now, expires_at=now + timedelta(hours=1),
        leased_until=now + timedelta(hours=1), ttl_ms=3_600_000, poll_ms=1000)
    CallRecord.objects.create(
        started_at=now - timedelta(seconds=number), minute=int(now.timestamp()) // 60, duration_ms=1234.5, step=36,
        server="browser-site", method="tools/call", name="greet", outcome="fault", reference="0123456789ab",
        error="django.db.utils.OperationalError", revision="2025-11-25", session=session.pk.hex, user=user,
        client_name="claude-desktop-for-business", client_version="2.14.0", result_chars=123456)
ErrorGroup.objects.create(
    fingerprint="b" * 32, server="browser-site", method="tools/call", name="export_all_orders_of_a_year", outcome="fault",
    kind="fault", error="django.db.utils.OperationalError", place="shop.mcp.export_all_orders_of_a_year", calls=30,
    first_seen_at=now - timedelta(days=3), last_seen_at=now)
APIKey.objects.issue(user=admin, name="the laptop that travels")
DisabledEntry.objects.create(server="browser-site", kind="tools", key="find_products", disabled_by=user)
DisabledEntry.objects.create(server="browser-site", kind="prompts", key="toast", disabled_by=user)
"""
)
