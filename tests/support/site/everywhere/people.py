"""Create users with credentials of every kind; prints those as JSON, by name.

python -m tests.support.site.everywhere.people NAME...
"""

from __future__ import annotations

import json
import secrets
import sys
from datetime import timedelta
from typing import Any

import django

RESOURCE = "http://localhost/mcp"
CSRF = "a" * 32


def main(*names: str) -> None:
    django.setup()
    from django.contrib.auth.models import Group, Permission, User
    from oauth2_provider.models import Application
    from rest_framework.authtoken.models import Token

    clerks = Group.objects.create(name="clerks")
    clerks.permissions.add(Permission.objects.get(codename="view_group"))
    application = Application.objects.create(
        name="tests",
        client_type=Application.CLIENT_PUBLIC,
        authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
        redirect_uris="http://localhost/back",
    )
    found = {}
    for name in names:
        user = User.objects.create_user(name)
        user.groups.add(clerks)
        found[name] = {
            "drf": {"authorization": f"Token {Token.objects.create(user=user).key}"},
            "key": {"authorization": f"Bearer {_make_key(user)}"},
            "session": {"cookie": f"sessionid={_make_session(user)}; csrftoken={CSRF}"},
            "token": {"authorization": f"Bearer {_make_token(user, application)}"},
        }
    print(json.dumps(found))


def _make_key(user: Any) -> str:
    from django_mcp.models import APIKey

    return APIKey.objects.issue(user=user, name="tests")[1]


def _make_token(user: Any, application: Any) -> str:
    from django.utils import timezone
    from oauth2_provider.models import AccessToken

    token = secrets.token_urlsafe(24)
    AccessToken.objects.create(
        user=user,
        application=application,
        token=token,
        scope="mcp",
        expires=timezone.now() + timedelta(hours=1),
        resource=[RESOURCE],
    )
    return token


def _make_session(user: Any) -> str:
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return str(session.session_key)


if __name__ == "__main__":
    main(*sys.argv[1:])
