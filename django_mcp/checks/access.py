"""System checks of who may use what: origins, authentication, permissions, scopes and secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.apps import apps
from django.conf import settings as site_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, Tags
from django.core.exceptions import ImproperlyConfigured

from django_mcp.auth.addresses import METADATA_PATH
from django_mcp.auth.authenticator import Authenticator
from django_mcp.auth.named_scopes import names_scopes
from django_mcp.checks.asked import find_asked
from django_mcp.checks.declared import check, list_some
from django_mcp.conf import settings
from django_mcp.endpoints.mounts import find_mounts
from django_mcp.endpoints.usable_entries import find_key_readers, find_unguarded
from django_mcp.endpoints.well_known import find_undescribed, find_unnamed, find_unreachable
from django_mcp.registry.entries import ToolEntry
from django_mcp.registry.problems import LIKENESS, describe_source, find_near, is_of_framework
from django_mcp.servers import MCPServer, all_servers

_PRIVATE = re.compile(
    r"(^|_)(password|passwd|passphrase|secret|api_?key|(access|refresh|auth|id)_token|credentials?"
    r"|ssn|iban|card_number|e_?mail|phone(_number)?)(_|$)|^token$"
)


@check(Tags.security, id="django_mcp.E005")
def check_origins() -> Iterator[CheckMessage]:
    """E005: any web page could call with its visitors' cookies."""
    if "*" in settings.ALLOWED_ORIGINS and settings.CORS_ALLOW_CREDENTIALS:
        yield Error(
            "DJANGO_MCP['ALLOWED_ORIGINS'] lets every web page call, and "
            "DJANGO_MCP['CORS_ALLOW_CREDENTIALS'] lets it send cookies.",
            hint="List the origins that may send cookies, or take CORS_ALLOW_CREDENTIALS out.",
        )


@check(Tags.security)
def check_authentication() -> Iterator[CheckMessage]:
    """E006, E007, W006, W007: access to the mounted servers."""
    for server in mounted_servers():
        engine = server.engine
        try:
            authentication = engine.authentication
        except ImproperlyConfigured as error:
            yield Error(
                f"An authenticator of the MCP server {server.name!r} is wrong: {error}",
                hint="Name classes or instances of django_mcp.auth.authenticators.Authenticator.",
                id="django_mcp.E006",
            )
            continue
        for authenticator in () if authentication is None else authentication.authenticators:
            for problem in authenticator.find_problems():
                yield Error(
                    f"The MCP server {server.name!r} cannot authenticate anybody: {problem}.",
                    hint="Put that right, or take the authenticator out.",
                    id="django_mcp.E007",
                )
        if (
            authentication is not None
            and not authentication.is_public
            and not authentication.authenticators
        ):
            # Not an error: it is safe, and must not prevent the rest of the site from starting.
            yield checks.Warning(
                f"The MCP server {server.name!r} rejects everybody: it is neither public nor has "
                "authenticators.",
                hint=authentication.remedy,
                id="django_mcp.W007",
            )
        if not site_settings.DEBUG:
            yield from _open_tools(server)


@check(Tags.security, deploy=True)
def check_open_writing() -> Iterator[CheckMessage]:
    """Report W006 also where settings with `DEBUG` are examined for a deployment."""
    for server in mounted_servers() if site_settings.DEBUG else ():
        yield from _open_tools(server)


def mounted_servers() -> list[MCPServer]:
    """Return the servers in the URLconf, once the settings that say who gets in can be read."""
    for key in ("PUBLIC", "AUTHENTICATORS"):
        getattr(settings, key)
    mounted = {mount.server for mount in find_mounts()}
    return [server for server in all_servers() if server in mounted]


def _open_tools(server: MCPServer) -> Iterator[CheckMessage]:
    authentication = server.engine.authentication
    if authentication is not None and not authentication.is_public:
        return
    tools = [tool.name for tool in _find_open_tools(server) if not tool.annotations["readOnlyHint"]]
    if tools:
        yield checks.Warning(
            f"The MCP server {server.name!r} is public, so everybody may use its tools that "
            f"are not marked as read-only: {list_some(tools)}.",
            hint="Mark them with read_only=True if they change nothing, give them a permission, or "
            "set authenticators instead of PUBLIC.",
            id="django_mcp.W006",
        )


def _find_open_tools(server: MCPServer) -> list[ToolEntry]:
    return [entry for entry in find_unguarded(server) if isinstance(entry, ToolEntry)]


@check(Tags.security, id="django_mcp.W045")
def check_unlimited() -> Iterator[CheckMessage]:
    """W045: entries need scopes, and every user who signs in has all of them."""
    for server in mounted_servers():
        authentication = server.engine.authentication
        authenticators = () if authentication is None else authentication.authenticators
        if not authenticators or any(map(_limits_scopes, authenticators)):
            continue
        needs = server.engine.derived.requirements
        asking = [
            guarded.source
            for guarded, scopes in needs.scopes.items()
            if scopes and not needs.rules.get(guarded)
        ]
        if asking:
            kinds = ", ".join(dict.fromkeys(type(each).__name__ for each in authenticators))
            yield checks.Warning(
                f"Scopes of the MCP server {server.name!r} limit nobody: its authenticators ({kinds}) know no scopes, so "
                f"that every user who signs in passes: {list_some(asking)}.",
                hint="Name who may with permission=, which is about users, or set an authenticator whose credentials "
                "have scopes, such as API keys or OAuth.",
            )


def _limits_scopes(authenticator: Authenticator) -> bool:
    """Return whether the credentials may have scopes; of a site's own class, if it names some."""
    cls = type(authenticator)
    base = next(each for each in cls.__mro__ if is_of_framework(each))
    if base is Authenticator and "limits_scopes" not in vars(cls):
        return names_scopes(cls)
    return authenticator.limits_scopes


@check(Tags.security, deploy=True, id="django_mcp.I013")
def check_open_tools() -> Iterator[CheckMessage]:
    """I013: callers who do not sign in may use tools of a public server."""
    for server in mounted_servers():
        authentication = server.engine.authentication
        if authentication is not None and not authentication.is_public:
            continue
        names = [tool.name for tool in _find_open_tools(server)]
        if names:
            is_half = authentication is not None and authentication.authenticators
            kind = "has authenticators and is public" if is_half else "is public"
            yield Info(
                f"The MCP server {server.name!r} {kind}: without signing in, everybody may use {len(names)} of its "
                f"tools: {list_some(names)}.",
                hint="Give a permission to tools that return what is not for everybody, such as "
                "permission=signed_in, or take PUBLIC out.",
            )


@check(Tags.security, id="django_mcp.W008")
def check_permissions() -> Iterator[CheckMessage]:
    """W008: a permission does not exist, so that only superusers pass it, or the users have none."""
    yield from _find_unknown_permissions()
    yield from _find_unknown_in_code()
    yield from _find_unasked_objects()


def _find_unknown_permissions() -> Iterator[CheckMessage]:
    if not apps.is_installed("django.contrib.auth"):
        return
    from django.contrib.auth import get_user_model

    from django_mcp.auth.permissions import find_unknown_permissions

    users_have_permissions = hasattr(get_user_model(), "has_perm")
    for server in all_servers():
        if not users_have_permissions:
            rules = server.engine.derived.requirements.rules
            named = [each.source for each in rules if any(isinstance(r, str) for r in rules[each])]
            if named:
                yield checks.Warning(
                    f"{named[0]}{_count_others(named)} a permission, which nobody has: the model "
                    f"{site_settings.AUTH_USER_MODEL} has no has_perm().",
                    hint="Let the model extend PermissionsMixin, or write a function of the user as permission=.",
                )
            continue
        sources: dict[tuple[str, str | None], list[str]] = {}
        for source, name, near in find_unknown_permissions(server.engine.derived.requirements):
            sources.setdefault((name, near), []).append(source)
        for (name, near), needing in sources.items():
            yield checks.Warning(
                f"{needing[0]}{_count_others(needing)} the permission {name!r}, which no model of the installed apps has.",
                hint=_suggest(name, near, f"permission=lambda user: user.{name}"),
            )


def _find_unknown_in_code() -> Iterator[CheckMessage]:
    """Yield the permissions that no user has, and that the site's functions ask users for."""
    if not apps.is_installed("django.contrib.auth"):
        return
    from django.contrib.auth import get_user_model

    from django_mcp.auth.permissions import (
        find_known_permissions,
        find_near_permission,
        is_asked_of_django,
    )

    user_model = get_user_model()
    # Another backend may know names that no model has.
    if not hasattr(user_model, "has_perm") or not is_asked_of_django(user_model):
        return
    known = find_known_permissions()
    labels = {config.label for config in apps.get_app_configs()}
    asking: dict[str, dict[str, None]] = {}
    for function, name in (each for server in all_servers() for each in find_asked(server)):
        # What belongs to an app that is not installed may be for sites that have it.
        is_of_app = "." not in name or name.partition(".")[0] in labels
        near = None if name in known else find_near_permission(name, known)
        is_misspelt = near is not None and bool(find_near(name, [near], cutoff=LIKENESS))
        if name not in known and (is_of_app or is_misspelt):
            asking.setdefault(name, {})[describe_source(function)] = None
    for name, sources in asking.items():
        others = f" and {len(sources) - 1} more ask" if len(sources) > 1 else " asks"
        yield checks.Warning(
            f"{next(iter(sources))}{others} has_perm() for {name!r}, which no model of the installed apps has.",
            hint=_suggest(name, find_near_permission(name, known), f"user.{name}"),
        )


def _find_unasked_objects() -> Iterator[CheckMessage]:
    """Yield the checks of objects that no backend grants: Django's own knows permissions on models alone."""
    if not apps.is_installed("django.contrib.auth"):
        return
    from django.contrib.auth import get_user_model

    from django_mcp.auth.permissions import knows_models_alone, object_permission

    if not knows_models_alone(get_user_model()):
        return
    asking = [
        entry.source
        for server in all_servers()
        for entry in server.registry.entries()
        if isinstance(entry.access.check, object_permission)
    ]
    if asking:
        yield checks.Warning(
            f"{asking[0]}{_count_others(asking)} a permission on one object with object_permission(), which no backend "
            "of AUTHENTICATION_BACKENDS grants, so that only superusers pass.",
            hint="Add a backend that knows permissions on objects, such as that of django-guardian, or write a check= "
            "that looks at the object itself.",
        )


def _suggest(name: str, near: str | None, instead_of_flag: str) -> str:
    if name in _FLAGS:
        first = f"Did you mean {instead_of_flag}? If not, declare"
    elif near:
        first = f"Did you mean {near!r}? If not, declare"
    else:
        first = "Declare" if "." in name else "Write it as app_label.codename and declare"
    return f"{first} it in Meta.permissions of a model and migrate."


_FLAGS = ("is_active", "is_authenticated", "is_staff", "is_superuser")


def _count_others(sources: list[str]) -> str:
    return f" and {len(sources) - 1} more need" if len(sources) > 1 else " needs"


@check(id="django_mcp.W021")
def check_own_keys() -> Iterator[CheckMessage]:
    """W021: users may make API keys, and no server reads them."""
    if settings.CONNECT_KEY_DAYS is None or any(map(find_key_readers, mounted_servers())):
        return
    yield checks.Warning(
        "DJANGO_MCP['CONNECT_KEY_DAYS'] is set, but no MCP server in the URLconf reads API keys, so "
        "that users can make none.",
        hint="Add 'django_mcp.auth.authenticators.APIKeyAuthenticator' to DJANGO_MCP['AUTHENTICATORS'], "
        "or take CONNECT_KEY_DAYS out.",
    )


@check(deploy=True, id="django_mcp.I004")
def check_reach() -> Iterator[CheckMessage]:
    """I004: entries that nobody can use over HTTP, because the server has no authenticators."""
    for server in mounted_servers():
        authentication = server.engine.authentication
        if authentication is not None and authentication.authenticators:
            continue
        needs = server.engine.derived.requirements
        asking = {
            guarded.source
            for guarded, rules in needs.rules.items()
            if any(isinstance(rule, str) for rule in rules)
        }
        asking.update(guarded.source for guarded in needs.scopes)
        if asking:
            yield Info(
                f"The MCP server {server.name!r} has no authenticators, so over HTTP nobody "
                f"has the permissions or scopes that {len(asking)} of its functions need: "
                f"{', '.join(sorted(asking)[:3])}{' and more' if len(asking) > 3 else ''}.",
                hint="Set authenticators, unless they are for calls in process only.",
            )


@check(Tags.security)
def check_authorization_servers() -> Iterator[CheckMessage]:
    """E010, O022, W012: clients cannot find out where to get tokens."""
    for text, hint in find_unnamed():
        yield Error(text, hint=hint, id="django_mcp.E010")
    for text, hint in find_unreachable():
        yield Error(text, hint=hint, id="django_mcp.O022")
    for server in find_undescribed():
        yield checks.Warning(
            f"The MCP server {server.name!r} takes tokens of another issuer, and nothing at "
            f"{METADATA_PATH} tells clients of which.",
            hint='Write path("", include("django_mcp.urls")) into the root URLconf.',
            id="django_mcp.W012",
        )


@check(Tags.security, id="django_mcp.W011")
def check_scopes() -> Iterator[CheckMessage]:
    """W011: a scope looks like a wildcard, but is none.

    Source: 2025-11-25 security best practices "Scope Minimization".
    """
    sources = {
        (guarded.source, scope)
        for server in all_servers()
        for guarded, scopes in server.engine.derived.requirements.scopes.items()
        for scope in scopes
    }
    for key in ("SCOPE_IMPLIES", "OAUTH_BASE_SCOPES"):
        sources |= {(f"DJANGO_MCP[{key!r}]", scope) for scope in getattr(settings, key) or ()}
    for source, scope in sorted(sources):
        if "*" in scope:
            yield checks.Warning(
                f"{source} names the scope {scope!r}, which reads as a wildcard and is none.",
                hint="Name each scope; what a broad one stands for is said by SCOPE_IMPLIES.",
            )


@check(Tags.security, id="django_mcp.W039")
def check_implied_scopes() -> Iterator[CheckMessage]:
    """W039: a narrow scope includes a broad one, by their names."""
    for scope, implied in (settings.SCOPE_IMPLIES or {}).items():
        for broad in implied:
            rest = scope.removeprefix(broad)
            if rest[:1] in _SEPARATORS and rest[1:].lower() not in _BROAD and rest != scope:
                yield checks.Warning(
                    f"DJANGO_MCP['SCOPE_IMPLIES'] lets a token with the scope {scope!r} do all that {broad!r} stands "
                    "for.",
                    hint=f"The key is the broad scope, and the list has those that it includes: {{{broad!r}: "
                    f"[{scope!r}]}}.",
                )


_SEPARATORS = (":", ".", "/")
_BROAD = ("*", "admin", "all", "any", "full", "manage", "owner", "write")
"""What says of a scope that it is the broader one, as `orders:admin` or `orders:write` besides `orders`."""


@check(Tags.security)
def check_tools_without_scope() -> Iterator[CheckMessage]:
    """O023: some tools of a server with OAuth need scopes, and others do not say whether they need any.

    A person who allows a client one scope allows it all tools without one.
    """
    for server in mounted_servers():
        authentication = server.engine.authentication
        if authentication is None or authentication.is_public or authentication.required_scopes:
            continue
        if not any(
            authenticator.is_of_this_site or authenticator.authorization_servers
            for authenticator in authentication.authenticators
        ):
            continue
        needs = server.engine.derived.requirements
        tools = server.registry.tools.values()
        unsaid = [
            tool.name for tool in tools if tool not in needs.scopes and tool.access.scopes is None
        ]
        if unsaid and any(tool in needs.scopes for tool in tools):
            yield checks.Warning(
                f"Every token may call {list_some(unsaid)} of the MCP server {server.name!r}, "
                "which name no scope, while its other tools need scopes.",
                hint="Set the SCOPES of the server, which hold for tools that name none, or write "
                "scopes=() on the tools that every token may call.",
                id="django_mcp.O023",
            )


@check(Tags.security, id="django_mcp.W010")
def check_mirrored_arguments() -> Iterator[CheckMessage]:
    """W010: a private argument may be repeated in a header, which proxies log.

    Source: 2026-07-28 server/tools "x-mcp-header", security considerations.
    """
    for server in all_servers():
        for tool in server.registry.tools.values():
            for param in tool.header_params:
                name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^0-9A-Za-z]+", "_", param.path[-1])
                if _PRIVATE.search(name.lower()):
                    yield checks.Warning(
                        f"{tool.source} has its callers repeat the argument {param.pointer} in the "
                        f"header {param.header}, which proxies and servers write into their logs.",
                        hint="Take McpHeader away from it; silence this if it is nothing private.",
                    )
