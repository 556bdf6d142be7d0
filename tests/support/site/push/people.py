"""Change users and permissions from a separate process; prints the key of a new user."""

import sys

import django


def main(action: str, name: str) -> None:
    django.setup()
    from django.contrib.auth.models import Permission, User
    from django.utils import timezone

    from django_mcp.models import APIKey

    users, keys = User.objects.filter(username=name), APIKey.objects.filter(user__username=name)
    if action == "issue":
        user = User.objects.create_user(name)
        print(APIKey.objects.issue(user=user, name="tests")[1])
    elif action == "revoke":
        keys.update(revoked_at=timezone.now())
    elif action == "deactivate":
        users.update(is_active=False)
    elif action == "deactivate aloud":
        user = users.get()
        user.is_active = False
        user.save()
    elif action == "grant":
        users.get().user_permissions.add(Permission.objects.get(codename="view_apikey"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
