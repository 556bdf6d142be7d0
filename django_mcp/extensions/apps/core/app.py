"""App: the page that hosts show with a call of a tool, and what it may do there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from django_mcp.extensions.apps.core.confirm import OUTCOME, PAGE, Confirm, read_confirm
from django_mcp.protocol.json import JSONObject, present
from django_mcp.registry.entries import Entry, Find, ToolEntry

EXTENSION: Final = "io.modelcontextprotocol/ui"
"""Source: SEP-1865, MCP Apps."""

HTML_KEY: Final = "django_mcp/html"
"""The key in `_meta` of a result for the part of a page that the server rendered."""

ERRORS_KEY: Final = "django_mcp/errors"
"""The key in `_meta` of an error for what is wrong with the fields of a form: lists of texts by field.

Those of the field `""` concern the form as a whole.
"""

MIME_TYPE: Final = "text/html;profile=mcp-app"

FORM_TEMPLATE: Final = "django_mcp/apps/form.html"
"""The page of a form, for all tools that have no other."""

FORM_FRAGMENT: Final = "django_mcp/apps/_form.html"
"""The part of that page with the fields."""

SENT_FRAGMENT: Final = "django_mcp/apps/_sent.html"
"""The part of that page with the result of the tool that the form calls."""

PERMISSIONS: Mapping[str, str] = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboard_write": "clipboardWrite",
}
"""What a page can ask the host for, with the names on the wire."""

VISIBILITIES = ("app", "model")
"""Values of `visible_to=`, as on the wire. Hosts follow them; they are no access rules."""

_ORIGIN = re.compile(r"(?:https|wss|http)://(?:\*\.)?[A-Za-z0-9.-]+(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Csp:
    """The origins outside of a page that it uses, such as `https://tiles.example`.

    A page without them loads nothing from outside, which is the safest and works in every host.

    Args:
        connect: for `fetch` and WebSockets.
        resource: for images, scripts, styles, fonts and media.
        frame: for frames.
        base_uri: for `<base>`.
    """

    connect: Sequence[str] = ()
    resource: Sequence[str] = ()
    frame: Sequence[str] = ()
    base_uri: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in self.__slots__:
            origins = getattr(self, name)
            if isinstance(origins, str) or not isinstance(origins, Sequence):
                raise TypeError(f"csp has {name}={origins!r}: write a list of origins")
            for origin in origins:
                if not isinstance(origin, str) or not _ORIGIN.fullmatch(origin):
                    raise ValueError(
                        f"csp has {origin!r}, which is no origin such as 'https://tiles.example'"
                    )
            object.__setattr__(self, name, tuple(origins))

    @property
    def origins(self) -> tuple[str, ...]:
        """All origins."""
        return (*self.connect, *self.resource, *self.frame, *self.base_uri)

    def to_wire(self) -> JSONObject:
        """Return the object that hosts read."""
        return present(
            connectDomains=list(self.connect) or None,
            resourceDomains=list(self.resource) or None,
            frameDomains=list(self.frame) or None,
            baseUriDomains=list(self.base_uri) or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A result of which a part of a page is made, see `App`.

    Attributes:
        tool: that was called.
        arguments: of the call, as the client sent them.
        result: the structured result.
        user: who called; may be anonymous.
        find: returns the tool of a name, if this caller may call it.
        variables: what the tool left for the template in `AppContext.variables`.
    """

    tool: ToolEntry
    arguments: JSONObject
    result: Any
    user: Any
    find: Find
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class AppContext:
    """What a tool gets as `ctx.extensions["io.modelcontextprotocol/ui"]`.

    Attributes:
        is_shown: whether the client shows pages.
        variables: for the template of the part of the page.
    """

    is_shown: bool
    variables: dict[str, Any] = field(default_factory=dict)


MakeContext: TypeAlias = Callable[[Rendered], Mapping[str, Any]]
"""Returns variables for the template of a part of a page. Runs where the tool does, and may use the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsForm:
    """The form of all arguments of a tool, made from its input schema: `App(form=ArgumentsForm())`.

    Args:
        keys: the arguments that say which object is meant. The tool that opens the form takes them, and they are
            no fields of it.
        read: the name of the tool that returns the object with these `keys`, whose values the form starts with. Only
            the fields that the user changes are sent then. None: the form starts with the defaults.
        sources: the values of the result of `read` that other arguments start with, by argument, such as
            `{"if_unmodified": "updated_at"}`. An argument that is here is sent and not shown.
    """

    keys: Sequence[str] = ()
    read: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """The page of a tool.

    Args:
        template: the name of a template, which Django's engines find; None: the tool has no page, and is
            called by another's.
        fragment: the name of a template that is rendered with each `result` and becomes a part of the page;
            None: there is none.
        context: a function of the `Rendered` result that returns further variables for the fragment; None: it gets
            `result`, `arguments`, `tool` and `user`.
        form: a form class of Django, which a parameter of the tool is annotated with, or an `ArgumentsForm`. A second
            tool, `open_` and the name of this one, shows the form, on `template`, by default one of this package.
            `fragment` is rendered with the result of this tool.
        initial: a function that returns what the form starts with: a dict, or the object that a `ModelForm` changes. Its
            first parameter is the user, or the context if it is called `ctx`; the others are arguments of the tool.
        csp: origins outside of the page that it uses.
        permissions: what the page asks the host for: `"camera"`, `"microphone"`, `"geolocation"`,
            `"clipboard_write"`.
        prefers_border: whether the host should draw a border around it; None: as the host likes.
        domain: the host's own name for the origin of the page. Each host has another form, and a wrong
            one keeps it from showing the page, so leave it out unless a host's manual asks for it.

    Raises:
        ValueError, TypeError: a value is wrong; the text says what it may be.
    """

    template: str | None = None
    fragment: str | None = None
    context: MakeContext | None = None
    form: Any = None
    initial: Callable[..., Any] | None = None
    csp: Csp | None = None
    permissions: Sequence[str] = ()
    prefers_border: bool | None = None
    domain: str | None = None

    def __post_init__(self) -> None:
        self._check_form()
        for name in ("template", "fragment"):
            template = getattr(self, name)
            if template is not None and (not isinstance(template, str) or not template):
                raise ValueError(f"{name} is {template!r:.60}: write the name of a template")
        if self.template is None and self.fragment is None and self.form is None:
            raise ValueError("an app needs a template, or a fragment for the page of another")
        if self.context is not None and not callable(self.context):
            raise ValueError(f"context is {self.context!r:.60}: write a function")
        if self.context is not None and self.fragment is None:
            raise ValueError("context= is for a fragment, and there is none")
        if isinstance(self.permissions, str):
            raise TypeError(f"permissions is a text: write [{self.permissions!r}]")
        for permission in self.permissions:
            if permission not in PERMISSIONS:
                raise ValueError(
                    f"{permission!r} is no permission of a page; these are {', '.join(PERMISSIONS)}"
                )
        object.__setattr__(self, "permissions", tuple(self.permissions))
        if self.csp is not None and not isinstance(self.csp, Csp):
            raise ValueError(f"csp is {self.csp!r:.60}: write Csp(connect=[...])")

    def _check_form(self) -> None:
        if self.form is not None and not isinstance(self.form, type | ArgumentsForm):
            raise ValueError(f"form is {self.form!r:.60}: write a form class")
        if self.initial is None:
            return
        function: object = self.initial
        if not callable(function) or not isinstance(self.form, type):
            raise TypeError(
                f"initial is {self.initial!r:.60}: write a function, and form= with a form class"
            )

    def to_wire(self) -> JSONObject:
        """Return `_meta.ui` of the page as hosts read it."""
        return present(
            csp=None if self.csp is None else self.csp.to_wire(),
            permissions={PERMISSIONS[name]: {} for name in self.permissions} or None,
            prefersBorder=self.prefers_border,
            domain=self.domain,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a tool has with hosts that show pages.

    Attributes:
        app: its page; None: it has none.
        visibility: who should call it, as on the wire; None: everybody.
        opening: what was declared, if another tool shows its form; `app` then is what this tool has itself.
        sends_to: the tool that its form calls, if it shows one.
        sends_into: the argument of that tool for the values of the form; None: each is an argument.
        confirm: what the user has to agree to before it runs; None: nothing.
    """

    app: App | None = None
    visibility: tuple[str, ...] | None = None
    opening: App | None = None
    sends_to: str | None = None
    sends_into: str | None = None
    confirm: Confirm | None = None


def shown_of(entry: Entry) -> Shown:
    """Return what an entry has with hosts that show pages."""
    shown: Shown = entry.extensions.get(EXTENSION, _NOTHING_SHOWN)
    return shown


_NOTHING_SHOWN: Final = Shown()


def read_shown(value: Any) -> Shown:
    """Return what the options `app=`, `visible_to=` and `confirm=` of a tool say.

    Raises:
        ValueError: one has a wrong value.
    """
    if isinstance(value, Shown):
        return value
    if not isinstance(value, Mapping) or not value.keys() <= {"app", "visible_to", "confirm"}:
        raise ValueError("the options are app=, visible_to= and confirm=")
    app, visible_to = value.get("app"), value.get("visible_to")
    if isinstance(app, str):
        app = App(template=app)
    if app is not None and not isinstance(app, App):
        raise ValueError(f"app= is {app!r:.60}: write the name of a template, or App(...)")
    if visible_to is not None and visible_to not in VISIBILITIES:
        raise ValueError(
            f"visible_to= is {visible_to!r:.60}: write {', '.join(map(repr, VISIBILITIES))}"
        )
    shown = Shown(app=app, visibility=None if visible_to is None else (visible_to,))
    if app is not None and app.form is not None:
        own = None
        if app.fragment is not None:
            own = App(fragment=app.fragment, context=app.context)
        shown = replace(shown, app=own, opening=app)
    confirm = read_confirm(value.get("confirm"))
    return shown if confirm is None else _with_question(shown, confirm)


def _with_question(shown: Shown, confirm: Confirm) -> Shown:
    """Return what a tool has with hosts whose user agrees before it runs: a page of this package, unless it has its own."""
    if shown.visibility == ("model",):
        raise ValueError(
            "confirm= calls the tool from a page, and visible_to='model' hides it from pages"
        )
    app = shown.app or App(template=PAGE)
    app = replace(app, template=app.template or PAGE, fragment=app.fragment or OUTCOME)
    return replace(shown, app=app, confirm=confirm)
