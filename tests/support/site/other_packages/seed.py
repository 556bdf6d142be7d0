"""Fill the site's database, and print the API keys of its users as JSON."""

from __future__ import annotations

import json

import django


def main() -> None:
    django.setup()
    from django.contrib.auth.models import Permission, User
    from helpdesk.models import Queue, Ticket
    from push_notifications.models import GCMDevice

    from django_mcp.models import APIKey

    ada, bob, eve = (
        User.objects.create_user(name, is_staff=is_staff)
        for name, is_staff in (("ada", True), ("bob", True), ("eve", False))
    )
    for user, slug in ((ada, "hardware"), (bob, "payroll")):
        queue = Queue.objects.create(title=slug.title(), slug=slug)
        # The queue makes the permission to work on it.
        user.user_permissions.add(
            Permission.objects.get(codename=queue.permission_name.partition(".")[2])
        )
        for title in ("first", "second"):
            Ticket.objects.create(queue=queue, title=f"{slug} {title}")
        GCMDevice.objects.create(user=user, registration_id=f"{user.username}-phone")
    for codename in ("view_ticket", "add_ticket", "change_ticket", "view_gcmdevice"):
        ada.user_permissions.add(Permission.objects.get(codename=codename))
    bob.user_permissions.add(Permission.objects.get(codename="view_ticket"))
    keys = {
        user.username: APIKey.objects.issue(user=user, name="tests")[1] for user in (ada, bob, eve)
    }
    print(json.dumps(keys))


if __name__ == "__main__":
    main()
