"""Race requests for tokens against each other, each in a thread with a connection of its own.

python -m tests.support.site.oauth_races    prints as JSON what each race ended with
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any
from urllib.parse import urlencode

import django


def main() -> None:
    django.setup()
    from django.core.management import call_command
    from django.utils import timezone
    from oauth2_provider.models import get_refresh_token_model

    call_command("migrate", run_syncdb=True, verbosity=0)
    client, form = make_grant()
    codes = race(client, **form)
    refreshes = race(client, **refresh_with(codes))
    seventh = post(client, **refresh_with(codes))
    families = get_refresh_token_model().objects.values("token_family").distinct().count()
    renewed = [post(client, **refresh_with([each])) for each in refreshes]
    other_client, other_form = make_grant("another-code")
    revoked = post(other_client, **other_form).json()["access_token"]
    revocations = race(other_client, "/oauth/revoke/", token=revoked)
    get_refresh_token_model().objects.filter(revoked__isnull=False).update(
        revoked=timezone.now() - timedelta(hours=1)
    )
    signer, proven = make_assertion()
    assertions = race(signer, meeting="meet_first", **proven)
    thief = post(client, **refresh_with(codes))
    print(
        json.dumps(
            {
                "codes": [[each.status_code, document_of(each).get("error")] for each in codes],
                "refreshes": [
                    [each.status_code, document_of(each).get("error")] for each in refreshes
                ],
                "families": families,
                "seventh": seventh.status_code,
                "revocations": [each.status_code for each in revocations],
                "assertions": [
                    [each.status_code, document_of(each).get("error")] for each in assertions
                ],
                "winners": [each.status_code for each in renewed],
                "thief": thief.status_code,
                "after_the_thief": [
                    post(client, **refresh_with([each])).status_code for each in renewed
                ],
                "left_after_revocation": revoke_beside_refreshes(),
                "after_the_end": end_beside_a_further_pair(),
            }
        )
    )


def revoke_beside_refreshes() -> int:
    """Let a user revoke a client's access while its processes refresh; return the tokens that are left."""
    from django.contrib.auth import get_user_model
    from django.db import connections
    from oauth2_provider.models import get_access_token_model, get_refresh_token_model

    from django_mcp.contrib.oauth.revocation import revoke_tokens
    from tests.support.site.oauth_races.validator import PARTIES, barrier

    client, form = make_grant("a-third-code")
    token = refresh_with([post(client, **form)])
    user = get_user_model().objects.get(username="ada")

    def run(number: int) -> None:
        try:
            if number:
                post(client, meet="yes", **token)
            else:
                barrier.wait(timeout=30)
                revoke_tokens(user.pk, client.client_id)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(PARTIES) as pool:
        list(pool.map(run, range(PARTIES)))
    left: int = get_refresh_token_model().objects.filter(application=client, revoked=None).count()
    return left + int(get_access_token_model().objects.filter(application=client).count())


def end_beside_a_further_pair() -> list[int]:
    """End sign-ins whose oldest token is pruned meanwhile, beside a request for a further pair of each.

    Returns:
        What a refresh with that pair is answered, where rows have locks.
    """
    from django.contrib.auth import get_user_model
    from django.db import connection

    from django_mcp.contrib.oauth.revocation import revoke_tokens

    if connection.vendor != "postgresql":
        return []
    user = get_user_model().objects.get(username="ada")

    def revoke_newest(client: Any, newest: str) -> None:
        post(client, "/oauth/revoke/", token=newest)

    def revoke_access(client: Any, _newest: str) -> None:
        revoke_tokens(user.pk, client.client_id)

    return [
        end_and_refresh(f"code-of-{number}", end)
        for number, end in enumerate([revoke_newest, revoke_access])
    ]


def end_and_refresh(code: str, end: Callable[[Any, str], None]) -> int:
    """End a sign-in as its oldest token is pruned and another request is inside of its transaction."""
    from django.db import connection, connections
    from oauth2_provider.models import get_refresh_token_model

    client, form = make_grant(code)
    first = post(client, **form)
    second = post(client, **refresh_with([first]))
    newest = refresh_with([post(client, **refresh_with([second]))])["refresh_token"]
    oldest = get_refresh_token_model().objects.filter(application=client).earliest("pk")
    has_pair, has_ended, began = Event(), Event(), Event()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]

    def hold(execute: Any, query: str, *rest: Any) -> Any:
        done = execute(query, *rest)
        if query.startswith('INSERT INTO "oauth2_provider_refreshtoken"'):
            has_pair.set()
            with connection.connection.cursor() as cursor:
                while not has_ended.is_set():
                    cursor.execute("SELECT cardinality(pg_blocking_pids(%s))", [pid])
                    if cursor.fetchone()[0]:
                        break
        return done

    def get_further_pair() -> Any:
        try:
            oldest.delete()
            with connection.execute_wrapper(hold):
                return post(client, **refresh_with([second]))
        finally:
            connections.close_all()

    def overtake(execute: Any, query: str, *rest: Any) -> Any:
        if query.startswith('UPDATE "oauth2_provider_refreshtoken"') and not began.is_set():
            began.set()
            further.append(pool.submit(get_further_pair))
            has_pair.wait(timeout=30)
        return execute(query, *rest)

    further: list[Any] = []
    with ThreadPoolExecutor(1) as pool:
        try:
            with connection.execute_wrapper(overtake):
                end(client, newest)
        finally:
            has_ended.set()
        pair = further[0].result()
    return int(post(client, **refresh_with([pair])).status_code)


def refresh_with(responses: list[Any]) -> dict[str, str]:
    """Return the form that uses the refresh token of the one good response."""
    found = (document_of(each).get("refresh_token") for each in responses)
    return {"grant_type": "refresh_token", "refresh_token": next(filter(None, found), "")}


def document_of(response: Any) -> dict[str, Any]:
    is_json = response["content-type"] == "application/json"
    found: dict[str, Any] = response.json() if is_json else {}
    return found


def make_grant(code: str = "the-code") -> tuple[Any, dict[str, str]]:
    """Return a client, and the form with which it changes a code that a user gave it."""
    from django.contrib.auth import get_user_model
    from django.utils import timezone
    from oauth2_provider.models import get_application_model, get_grant_model

    from tests.unit.contrib.oauth.test_authorizing import CHALLENGE, REDIRECT, VERIFIER

    client = get_application_model().objects.create(
        client_type="public",
        authorization_grant_type="authorization-code",
        redirect_uris=REDIRECT,
    )
    user, _created = get_user_model().objects.get_or_create(username="ada")
    get_grant_model().objects.create(
        user=user,
        application=client,
        code=code,
        redirect_uri=REDIRECT,
        scope="mcp",
        code_challenge=CHALLENGE,
        code_challenge_method="S256",
        expires=timezone.now() + timedelta(minutes=1),
    )
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER}
    return client, {**form, "redirect_uri": REDIRECT}


def make_assertion() -> tuple[Any, dict[str, str]]:
    """Return a client with a key, and a form that proves the key, with a code that nobody has."""
    from oauth2_provider.models import get_application_model

    from django_mcp.contrib.oauth.models import ClientKeys
    from tests.support.oauth.published import key_set, proof, signing_key

    client = get_application_model().objects.create(
        client_type="confidential",
        authorization_grant_type="authorization-code",
        redirect_uris="https://client.example/callback",
    )
    ClientKeys.objects.create(application=client, jwks=json.dumps(key_set(signing_key())))
    form = {"grant_type": "authorization_code", "code": "no-code"}
    return client, {**form, **proof(client.client_id, "http://localhost")}


def post(client: Any, path: str = "/oauth/token/", **form: str) -> Any:
    from django.test import Client

    body = urlencode({**form, "client_id": client.client_id})
    kind = "application/x-www-form-urlencoded"
    where = Client(raise_request_exception=False)
    return where.post(path, body, content_type=kind, headers={"Host": "localhost"})


def race(client: Any, path: str = "/oauth/token/", meeting: str = "meet", **form: str) -> list[Any]:
    """Return the responses to several equal requests at once."""
    from django.db import connections

    from tests.support.site.oauth_races.validator import PARTIES

    def run(_number: int) -> Any:
        try:
            return post(client, path, **{meeting: "yes"}, **form)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(PARTIES) as pool:
        return list(pool.map(run, range(PARTIES)))


if __name__ == "__main__":
    main()
