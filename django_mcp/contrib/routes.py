"""The URLs of a site that lead to a view, and the variables that a client may put into them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary, WeakSet

from django.conf import settings
from django.core.signals import setting_changed
from django.dispatch import receiver
from django.urls import Resolver404, ResolverMatch, URLResolver, get_resolver
from django.urls.resolvers import LocalePrefixPattern, RegexPattern
from django.utils.regex_helper import normalize
from django.utils.translation import get_language

from django_mcp.contrib.view_decorators import find_views

MAX_URL_BYTES = 8192
"""Of the path of a URL, and of its query, escaped; as common HTTP servers take."""

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """One pattern of a URLconf, with those that lead to it.

    Attributes:
        patterns: of the URL resolvers from the root on, and of the URL pattern.
        forms: how its URLs are built, such as `("/orders/%(pk)s/", {"pk"})`: one for each set of
            variables.
        callback: the view.
        defaults: variables that the URLconf adds.
    """

    patterns: Sequence[Any]
    forms: Sequence[tuple[str, frozenset[str]]]
    callback: Any
    defaults: Mapping[str, Any]
    _views: dict[Callable[[Any], bool], list[list[Any]]] = field(default_factory=dict)

    def find_views(self, is_view: Callable[[Any], bool]) -> list[list[Any]]:
        """Return the views that the callback leads to, each as the last item of what is around it.

        Args:
            is_view: whether something is a view of the kind that is looked for.
        """
        if is_view not in self._views:
            self._views[is_view] = find_views(self.callback, is_view)
        return self._views[is_view]

    @property
    def ordered_names(self) -> list[list[str]]:
        """The variables of each form, in the order of the URL."""
        return [list(dict.fromkeys(_PLACEHOLDER.findall(form))) for form, _names in self.forms]

    @property
    def converters(self) -> dict[str, Any]:
        """The converters of path patterns, by the names of the variables."""
        return {
            name: converter
            for pattern in self.patterns
            for name, converter in pattern.converters.items()
        }

    @property
    def path(self) -> str:
        """The pattern as `ResolverMatch.route` has it."""
        joined = ""
        for part in map(str, self.patterns[1:]):
            # Only a part that stands behind another one loses its mark of a beginning.
            joined += part.removeprefix("^") if joined else part
        return joined

    def captures(self, path: str, texts: Mapping[str, str]) -> bool:
        """Return whether a path matches as a whole, and each variable is exactly its text."""
        captured: dict[str, str] = {}
        rest = path
        for pattern in self.patterns:
            match = pattern.regex.match(rest)
            if match is None:
                return False
            captured.update(
                {name: value for name, value in match.groupdict().items() if value is not None}
            )
            rest = rest[match.end() :]
        return not rest and captured == texts


_routes: WeakKeyDictionary[URLResolver, dict[str | None, list[Route]]] = WeakKeyDictionary()
"""The patterns of each URLconf by language, which all tools share: a site may have thousands.

Those of a URLconf without translated patterns are there once, without a language.
"""

_ANY = "*"


def find_routes(resolver: URLResolver) -> list[Route]:
    """Return the patterns of a URLconf in the order in which Django tries them."""
    known = _routes.setdefault(resolver, {})
    language = get_language()
    routes = known.get(_ANY, known.get(language))
    if routes is None:
        routes = list(_walk(resolver, (), {}))
        is_translated = any(
            _is_translated(pattern) for route in routes for pattern in route.patterns
        )
        known[language if is_translated else _ANY] = routes
    return routes


def _is_translated(pattern: Any) -> bool:
    text = getattr(pattern, "_route", getattr(pattern, "_regex", ""))
    return isinstance(pattern, LocalePrefixPattern) or not isinstance(text, str)


def _walk(resolver: Any, patterns: tuple[Any, ...], defaults: dict[str, Any]) -> Iterator[Route]:
    patterns = (*patterns, resolver.pattern)
    defaults = {**defaults, **resolver.default_kwargs}
    for below in resolver.url_patterns:
        if hasattr(below, "url_patterns"):
            yield from _walk(below, patterns, defaults)
            continue
        walked = (*patterns, below.pattern)
        regex = "".join(pattern.regex.pattern.removeprefix("^") for pattern in walked)
        yield Route(
            patterns=walked,
            forms=[(form, frozenset(names)) for form, names in normalize(regex)],
            callback=below.callback,
            defaults={**defaults, **below.default_args},
        )


def make_urlconf(patterns: list[Any]) -> URLResolver:
    """Return a URLconf of its own for some patterns."""
    return URLResolver(RegexPattern(r"^/"), patterns)


@dataclass(frozen=True, slots=True)
class _Known:
    resolver: URLResolver
    is_of_site: bool
    by_language: dict[str | None, list[Route]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Where the URL of a call leads.

    Attributes:
        match: Django's own result, with the converted variables.
        path: of the URL, without the prefix of a script; None if the site has no such URL.
    """

    match: ResolverMatch
    path: str | None


class ViewRoutes:
    """The URLs that lead to what a tool calls.

    Those of the site's URLconf count. If it has none for this view, the URLs count that the framework
    would make.

    Args:
        leads_here: whether the callback of a route does what the tool does.
        is_of_view: whether it belongs to the same view, perhaps with other methods. If the site has
            URLs for the view, but none that leads here, the tool cannot be called.
        make_own: makes URLconfs for a view that the site serves nowhere. The URL has to lead here in all
            of them, and the first converts the variables.
    """

    def __init__(
        self,
        leads_here: Callable[[Route], bool],
        is_of_view: Callable[[Route], bool],
        make_own: Callable[[], Sequence[URLResolver]],
    ) -> None:
        self._leads_here = leads_here
        self._is_of_view = is_of_view
        self._make_own = make_own
        self._own: list[_Known] = []
        self._known: tuple[URLResolver | None, list[_Known]] | None = None
        _all_routes.add(self)

    def find(self, given: Mapping[str, Any], fixed: Mapping[str, Any]) -> Found | None:
        """Return where the URL with some variables leads; None if it does not lead here.

        Args:
            given: variables of a client, all of which must be in the URL.
            fixed: variables of the site. Those that are not in the URL are ignored.
        """
        texts = {name: _to_text(value) for name, value in given.items()}
        texts |= {name: str(value) for name, value in fixed.items()}
        matching = []
        for known in self._find_known():
            each = self._find_in(known, given, fixed, texts)
            if each is None:
                return None
            matching.append(each)
        return matching[0]

    def _find_in(
        self,
        known: _Known,
        given: Mapping[str, Any],
        fixed: Mapping[str, Any],
        texts: Mapping[str, str | None],
    ) -> Found | None:
        for route in self._routes(known):
            if any(route.defaults.get(name, value) != value for name, value in fixed.items()):
                continue
            for form, names in route.forms:
                if given.keys() <= names <= texts.keys():
                    resolved = self._resolve(
                        known, route, form, {name: texts[name] for name in names}
                    )
                    if resolved is not None:
                        return resolved
        return None

    def _resolve(
        self, known: _Known, route: Route, form: str, texts: Mapping[str, str | None]
    ) -> Found | None:
        checked = {
            name: text for name, text in texts.items() if text is not None and _is_allowed(text)
        }
        if len(checked) < len(texts):
            return None
        path = _PLACEHOLDER.sub(lambda found: checked[found[1]], form)
        if {".", ".."} & set(path.split("/")) or len(quote(path)) > MAX_URL_BYTES:
            return None
        if not route.captures(path, checked):
            return None
        try:
            match = known.resolver.resolve(path)
        except Resolver404:
            return None
        leads_here = any(match.func is route.callback for route in self._routes(known))
        if match.route != route.path or not leads_here:
            return None
        return Found(match=match, path=path if known.is_of_site else None)

    def takes(self, names: frozenset[str], fixed: frozenset[str]) -> bool:
        """Return whether a URL can have exactly some variables of a client, and any of the site's."""
        return any(
            names <= found <= names | fixed
            for route in self._find_routes()
            for _, found in route.forms
        )

    @property
    def callbacks(self) -> list[Any]:
        """The views to which the URLs lead; none where the tool cannot be called."""
        return [route.callback for route in self._find_routes()]

    def _find_routes(self) -> list[Route]:
        return self._routes(self._find_known()[0])

    def _routes(self, known: _Known) -> list[Route]:
        language = get_language()
        if language not in known.by_language:
            routes = find_routes(known.resolver)
            known.by_language[language] = [route for route in routes if self._leads_here(route)]
        return known.by_language[language]

    def forget(self) -> None:
        """Keep nothing of a URLconf that a test had for a while."""
        self._known = None

    def _find_known(self) -> list[_Known]:
        site = get_resolver() if getattr(settings, "ROOT_URLCONF", None) else None
        if self._known is None or self._known[0] is not site:
            self._known = site, self._choose(site)
        return self._known[1]

    def _choose(self, site: URLResolver | None) -> list[_Known]:
        if site is not None and any(map(self._is_of_view, find_routes(site))):
            return [_Known(site, is_of_site=True)]
        if not self._own:
            self._own = [_Known(route, is_of_site=False) for route in self._make_own()]
        return self._own


_all_routes: WeakSet[ViewRoutes] = WeakSet()
"""One receiver forgets all: to connect another one takes longer the more there are."""


@receiver(setting_changed)
def _forget(*, setting: str, **_about: Any) -> None:
    if setting == "ROOT_URLCONF":
        for routes in list(_all_routes):
            routes.forget()


def _to_text(value: Any) -> str | None:
    """Return the text of a value in a URL; None if it has none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:  # a number of thousands of digits
        return None


def _is_allowed(text: str) -> bool:
    """Return whether a text can be a variable of a URL.

    It is no absolute path, which proxies would shorten, and no text that UTF-8 cannot encode.
    """
    if text.startswith("/") or len(text) > MAX_URL_BYTES:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
