"""The tools of one `ModelAdmin`."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.core.exceptions import ObjectDoesNotExist

from django_mcp.contrib.compact_tools import add_compact
from django_mcp.contrib.credentials import find_credential_word
from django_mcp.contrib.finders import note_finder
from django_mcp.contrib.generated import (
    COMPACT,
    CONFIRMED,
    TRUNCATED,
    GeneratedFunction,
    GeneratedOptions,
    converting_key,
    register_generated,
)
from django_mcp.contrib.large_keys import note_model
from django_mcp.contrib.modeladmin.access import (
    CREATE,
    DELETE,
    GET,
    OWN,
    SEARCH,
    UPDATE,
    AdminAccess,
    get_actions,
    make_samples,
)
from django_mcp.contrib.modeladmin.actions import IDS, AdminAction, find_problem
from django_mcp.contrib.modeladmin.checks import (
    find_session_readers,
    note_credentials,
    note_left_out,
    note_problem,
    note_session_readers,
    note_unasked,
    note_unsaved,
)
from django_mcp.contrib.modeladmin.deleting import DELETED_SCHEMA, AdminDeleting
from django_mcp.contrib.modeladmin.inlines import AdminInlines
from django_mcp.contrib.modeladmin.names import AdminNames
from django_mcp.contrib.modeladmin.own_views import find_own_views
from django_mcp.contrib.modeladmin.reading import AdminReading
from django_mcp.contrib.modeladmin.requests import make_request_of, make_request_of_anybody
from django_mcp.contrib.modeladmin.sensitive import (
    find_secret_fields,
    get_form_class,
    is_secret_key,
)
from django_mcp.contrib.modeladmin.several import SeveralObjects
from django_mcp.contrib.modeladmin.shown import AdminShown
from django_mcp.contrib.modeladmin.writing import AdminWriting
from django_mcp.contrib.models.definition import find_words
from django_mcp.contrib.models.reading import describe_tool
from django_mcp.contrib.models.summaries import OUTPUT, SUMMARIZE
from django_mcp.contrib.models.write_arguments import HINTS, IF_UNMODIFIED
from django_mcp.contrib.updating_many import OUTPUT as UPDATED_SCHEMA
from django_mcp.contrib.updating_many import UPDATE_MANY, UpdatingMany
from django_mcp.contrib.updating_many import describe as describe_many
from django_mcp.contrib.view_problems import reading_at_startup
from django_mcp.forms import FormProblem
from django_mcp.log import logger
from django_mcp.protocol.json import JSONObject
from django_mcp.registry.access import read_verdict
from django_mcp.registry.entries import Family, ToolEntry
from django_mcp.registry.problems import RegistrationError, is_of_framework, name_as
from django_mcp.registry.signatures import is_async_callable
from django_mcp.server.asking.confirming import CONFIRMATION
from django_mcp.servers import MCPServer

_OWN_NAMES = {
    CONFIRMATION, IF_UNMODIFIED, TRUNCATED, "message", "messages", "admin_messages",
}  # fmt: skip
"""Names of arguments and results of all tools."""

_RULES = {SUMMARIZE: SEARCH, UPDATE_MANY: UPDATE}
"""Whose permissions the tools ask for that are there by option."""

_METHODS = {
    SEARCH: "has_view_permission",
    GET: "has_view_permission",
    CREATE: "has_add_permission",
    UPDATE: "has_change_permission",
    DELETE: "has_delete_permission",
}
"""The methods of an admin that say who has its tools; the others are its actions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdminOptions:
    """Options of `admin_tools` that are no options of other generated tools.

    Attributes:
        actions: the actions of the admin that become tools; True: all, False: none.
        listed_if: says in place of the admin whether tools are listed for a user.
        allow_sensitive: names of fields that look like secrets and are none.
        aggregates: whether there is a tool that counts and adds up in groups.
        update_many: whether there is a tool that changes several objects.
        is_lenient: whether what cannot be registered is left out, as the site did not name it.
    """

    actions: bool | frozenset[str]
    listed_if: Callable[[Any], Any] | None
    allow_sensitive: frozenset[str]
    aggregates: bool
    update_many: bool
    is_lenient: bool

    @property
    def further(self) -> tuple[str, ...]:
        """What tools do beside `OWN`, by option."""
        options = {SUMMARIZE: self.aggregates, UPDATE_MANY: self.update_many}
        return tuple(name for name, is_on in options.items() if is_on)


class AdminTools:
    """Registers the tools of one `ModelAdmin`.

    Args:
        server: gets the tools.
        site: the admin site.
        model_admin: of the model.
        options: of the tools of this model.
        own: of `admin_tools`.
        sample: of `AdminAccess`.

    Attributes:
        offered: the names of the actions that the admin has.
    """

    def __init__(
        self,
        server: MCPServer,
        site: AdminSite,
        model_admin: ModelAdmin[Any],
        options: GeneratedOptions,
        own: AdminOptions,
        sample: Any,
    ) -> None:
        self._server = server
        self._site = site
        self._admin: Any = model_admin
        self._options = options
        self._own = own
        self._label = describe_admin(model_admin)
        if not getattr(model_admin.model._meta.pk, "concrete", False):
            raise TypeError("its primary key has several columns")
        self._access = AdminAccess(site, model_admin, sample)
        self._request = make_request_of_anybody(site)
        find_secret_fields(model_admin, self._request)
        self._names = AdminNames(server, self._access, options.check, own.allow_sensitive)
        self._shown = AdminShown(self._access, self._request, own.allow_sensitive)
        self._inlines = AdminInlines(
            self._access, self._request, self._find_taken, own.allow_sensitive, self._names
        )
        self._reading = AdminReading(
            self._access,
            self._shown,
            self._inlines,
            self._request,
            max_results=options.max_results,
            allow_sensitive=own.allow_sensitive,
            names=self._names,
        )
        self._writing = AdminWriting(
            self._access,
            self._shown,
            self._reading,
            self._inlines,
            self._request,
            own.allow_sensitive,
            self._names,
        )
        self._deleting = AdminDeleting(self._access, self._reading)
        self._refused: list[str] = []
        self.offered: list[str] = []
        self._actions = self._find_actions()
        for name, action in list(self._actions.items()):
            # One tool deletes one object or several.
            if action.is_deletion and options.has(DELETE):
                action.argument = self._reading.key
                self._deleting.several = self._actions.pop(name)
        self._singular, self._plural = find_words(model_admin.model)
        meta = model_admin.model._meta
        self._family = Family(
            singular=meta.verbose_name,
            plural=meta.verbose_name_plural,
            key=self._reading.key,
            members=(self._reading.key, "pk"),
            find_refused=self._find_refused,
        )
        self._entries: list[ToolEntry] = []
        self._created: ToolEntry | None = None

    def _find_refused(self, user: Any, role: str, keys: Collection[Any]) -> Collection[Any]:
        """See `Family`. It makes a query only for an admin that decides about each object."""
        if role not in (UPDATE, DELETE) or not self._access.overrides(_METHODS[role]):
            return ()
        request = make_request_of(user, self._site)
        by_key = {self._access.to_key(key): key for key in keys}
        rows = self._access.find_rows(request, role).filter(pk__in=by_key)
        for row in rows:
            self._access.lead_to_object(request, role, row.pk)
            if self._access.keep_allowed(request, role, [row]):
                del by_key[row.pk]
        return set(by_key.values())

    def register(self) -> list[ToolEntry]:
        """Register them, and return those that the options include."""
        note_model(self._server, self._access.model)
        if unasked := find_own_views(self._access):
            note_unasked(self._server, self._label, unasked)
        if readers := find_session_readers(self._admin):
            note_session_readers(self._server, self._label, readers)
        for name in ("save_model", "delete_model"):
            note_unsaved(self._server, self._label, self._admin, name)
        for problem in (*self._reading.problems, *self._inlines.problems):
            note_left_out(self._server, self._label, problem)
        self._add_reading()
        self._add_writing()
        for name, action in self._actions.items():
            self._add_action(name, action)
        return self._entries

    @property
    def _sources(self) -> Mapping[str, str]:
        """The member of an object that an update has to be sent."""
        version = self._writing.version
        return {} if version is None else {IF_UNMODIFIED: version.name}

    def _find_taken(self) -> set[str]:
        """Return the names of arguments and results that no rows of an inline can have."""
        meta, sample = self._admin.model._meta, self._access.sample
        names = {str(name) for name in self._shown.names_of_page(self._request, sample)}
        names |= {model_field.name for model_field in (*meta.fields, *meta.many_to_many)}
        for obj in (sample, None):
            # What is wrong with the form is reported with the tools that write.
            with contextlib.suppress(Exception):
                form = get_form_class(self._admin, self._request, obj, is_change=False)
                names |= set(form.base_fields)
        return names | _OWN_NAMES

    @property
    def actions(self) -> list[str]:
        """The names of all that can become a tool."""
        own = [SEARCH, GET, CREATE, UPDATE, DELETE, *self._own.further]
        return [*own, *self._actions, *self._refused]

    def _find_actions(self) -> dict[str, AdminAction]:
        chosen, actions = self._own.actions, {}
        for name, (function, description) in get_actions(self._admin, self._request).items():
            self.offered.append(name)
            if chosen is False or (chosen is not True and name not in chosen):
                continue
            if self._is_refused(name, function):
                continue
            problem = find_problem(name, function, (*OWN, *self._own.further))
            if problem is not None:
                note_problem(self._server, f"The action {name!r} of {self._label}", *problem)
                continue
            actions[name] = AdminAction(
                self._access,
                self._reading,
                self._deleting,
                name=name,
                function=function,
                description=description,
                max_results=self._options.max_results,
            )
        return actions

    def _is_refused(self, name: str, function: Callable[..., Any]) -> bool:
        """Return whether an action is about passwords or sign-ins, and is not named; `manage.py check` then says so."""
        named = self._own.actions if isinstance(self._own.actions, frozenset) else frozenset()
        word = find_credential_word([name, getattr(function, "__name__", "")])
        if word is None or name in named or name in (self._options.include or ()):
            return False
        self._refused.append(name)
        if self._options.has(name):
            what = f"The action {name!r} of {self._label}"
            hint = f"Name it if it may be one: actions=[{name!r}]. Or leave it out with exclude=."
            note_credentials(self._server, what, word, hint)
        return True

    def _add_reading(self) -> None:
        meta, reading = self._admin.model._meta, self._reading
        self._add(
            SEARCH,
            reading.search,
            name=f"search_{self._plural}",
            description=describe_tool("Search", meta.verbose_name_plural, None),
            input_schema=reading.search_input,
            output_schema=reading.search_output,
            read_only=True,
        )
        self._add(
            GET,
            reading.get,
            name=f"get_{self._singular}",
            description=describe_tool("Get one", meta.verbose_name, None),
            input_schema=reading.get_input,
            output_schema=reading.get_output,
            read_only=True,
        )

        if not self._own.aggregates or not self._options.has(SUMMARIZE):
            return
        if self._access.judges_objects:
            told = "no tool summarizes its objects, since it decides about each of them"
            note_left_out(self._server, self._label, told)
            return
        self._add(
            SUMMARIZE,
            reading.summarize,
            name=f"summarize_{self._plural}",
            description=describe_tool(
                "Count and add up, in groups,", meta.verbose_name_plural, None
            ),
            input_schema=reading.summary_input,
            output_schema=OUTPUT,
            read_only=True,
        )

    def _add_writing(self) -> None:
        writing, deleting = self._writing, self._deleting
        written = writing.output
        # A row without a key is added by each of two equal calls.
        adds_rows = {UPDATE: {"idempotent": False}} if self._inlines else {}
        tools: dict[str, tuple[Any, str, Callable[[], JSONObject], JSONObject]] = {
            CREATE: (writing.create, "Add one", writing.create_input, written),
            UPDATE: (
                writing.update,
                "Change one",
                writing.update_input,
                written,
            ),
            DELETE: (deleting.delete, "Delete one", lambda: deleting.input, DELETED_SCHEMA),
        }
        for action, (run, text, make_schema, output) in tools.items():
            schema = self._make_schema(action, make_schema)
            if schema is not None:
                entry = self._add(
                    action,
                    self._access.in_transaction(run),
                    name=f"{action}_{self._singular}",
                    description=describe_tool(text, self._admin.model._meta.verbose_name, None),
                    input_schema=schema,
                    output_schema=output,
                    atomic=writing.alias,
                    **{**HINTS[action], **adds_rows.get(action, {})},
                )
                if action == UPDATE and entry is not None and self._own.update_many:
                    self._add_many(entry)

    def _add_many(self, single: ToolEntry) -> None:
        """Add the tool that changes several objects as another tool changes one."""
        writing, reading = self._writing, self._reading
        label = f"{self._site.name}:{self._access.model._meta.label}"
        several = SeveralObjects(self._access, reading, writing)
        many = UpdatingMany(several, label, single)
        self._add(
            UPDATE_MANY,
            self._access.in_transaction(many.run),
            name=f"update_many_{self._plural}",
            description=describe_tool(
                "Change the named fields of several",
                self._admin.model._meta.verbose_name_plural,
                None,
            ),
            input_schema=describe_many(
                writing.key, reading.key_schema, reading.filter_schemas, writing.values_schemas()
            ),
            output_schema=UPDATED_SCHEMA,
            atomic=writing.alias,
            **HINTS[UPDATE],
        )

    def _add_action(self, name: str, action: AdminAction) -> None:
        self._add(
            name,
            self._access.in_transaction(action.run),
            name=f"{re.sub(r'[^A-Za-z0-9_]+', '_', name)}_{self._plural}",
            description=action.description,
            input_schema=action.input,
            output_schema=action.output,
            atomic=self._writing.alias,
            is_run=True,
            asks_itself=action.is_deletion,
        )

    def _make_schema(self, action: str, make: Callable[[], JSONObject]) -> JSONObject | None:
        """Return an input schema; None, if there is none, which `manage.py check` then says."""
        if not self._options.has(action):
            return None
        try:
            return make()
        except FormProblem as problem:
            told, hint = str(problem), problem.hint
        except Exception as error:
            logger.debug("No form of %s", self._label, exc_info=True)
            told = f"its form cannot be made without an object of the site: {error!r}"
            hint = "Leave it out with exclude=, or let get_form() take a request of any user."
        note_problem(self._server, f"{action!r} of {self._label}", told, hint)
        return None

    def _add(
        self,
        action: str,
        run: Callable[..., Any],
        *,
        name: str,
        is_run: bool = False,
        asks_itself: bool = False,
        **tool: Any,
    ) -> ToolEntry | None:
        argument = IDS if is_run else self._reading.key
        check = _about_each(self._options.check, self._reading.key, argument)
        is_many = not is_run and action == UPDATE_MANY
        if is_many:
            check = None  # each object is asked about, as with the tool for one
        is_filter = not is_run and action in (SEARCH, SUMMARIZE, CREATE)
        to_key = self._access.to_key if is_filter else self._to_keys
        function = GeneratedFunction(run, type(self._admin), action, origin="admin")
        function.find_rules = self._access.find_rules
        function.find_code = lambda: [type(self._admin), *self._admin.inlines]
        function.family = self._family
        # Those that change one object ask about rights alone.
        function.asks_itself = asks_itself or (not is_run and action in CONFIRMED)
        function.sources = self._sources if action == UPDATE else {}
        if not is_run:
            function.told_at = self._created if action == UPDATE else None
            function.drops_null = action == CREATE
        if not is_many:
            function.convert_for_check = converting_key(argument, to_key, is_filter=is_filter)
        try:
            entry = register_generated(
                self._server,
                replace(self._options, check=check),
                function,
                action=action,
                name=name,
                app_label=self._admin.opts.app_label,
                listed_if=self._own.listed_if
                or self._make_rule(_RULES.get(action, action) if not is_run else action),
                **tool,
            )
            if entry is not None and self._options.style == COMPACT:
                self._add_compact(action, entry, is_run=is_run)
        except RegistrationError as error:
            if not self._own.is_lenient:
                raise
            hint = (
                f'Give it another name: names={{"{self._admin.opts.label_lower}.{action}": ...}}.'
            )
            note_problem(self._server, f"{action!r} of {self._label}", str(error), hint)
            return None
        if entry is not None:
            self._entries.append(entry)
            if action == CREATE and not is_run:
                self._created = entry
            if action == SEARCH:
                note_finder(self._server, self._admin.model, entry)
        return entry

    def _add_compact(self, action: str, entry: ToolEntry, *, is_run: bool) -> None:
        try:
            key = self._reading.key
            add_compact(self._server, self._admin.model, action, entry, key, is_run=is_run)
        except RegistrationError:
            # No list has it.
            self._server.remove_tool(entry.name)
            raise

    def _to_keys(self, given: Any) -> Any:
        """Return a key as the model has it, or a list of keys without those that no object can have.

        The tool refuses a list with one of them.
        """
        if not isinstance(given, list):
            return self._access.to_key(given)
        keys = []
        for each in given:
            with contextlib.suppress(ObjectDoesNotExist):
                keys.append(self._access.to_key(each))
        return keys

    def _make_rule(self, action: str) -> Callable[[Any], bool]:
        def may_use(user: Any) -> bool:
            return self._access.allows(make_request_of(user, self._site), action)

        name_as(may_use, type(self._admin), _METHODS.get(action, "get_actions"))
        kind = self._site.__class__  # the default site is lazy
        if not is_of_framework(kind.has_permission):
            may_use.__qualname__ += f" and {kind.__module__}.{kind.__qualname__}.has_permission"
        return may_use


def describe_admin(model_admin: ModelAdmin[Any]) -> str:
    """Return the name of a `ModelAdmin` for messages."""
    cls = type(model_admin)
    return f"{cls.__module__}.{cls.__qualname__} of {model_admin.model._meta.label}"


def make_tools(
    server: MCPServer,
    site: AdminSite,
    model_admin: ModelAdmin[Any],
    options: GeneratedOptions,
    own: AdminOptions,
) -> AdminTools | None:
    """Return the tools of a `ModelAdmin`; None if they cannot be made, which `manage.py check` then says."""
    what = describe_admin(model_admin)
    if is_secret_key(model_admin.model, own.allow_sensitive):
        name = model_admin.model._meta.pk.name
        hint = f"Add {name!r} to allow_sensitive if it is none, or leave the model out of models=."
        note_problem(server, what, f"its primary key {name!r} looks like a secret", hint)
        return None
    try:
        with reading_at_startup():
            for sample in make_samples(model_admin.model):
                try:
                    return AdminTools(server, site, model_admin, options, own, sample)
                except Exception:
                    logger.debug("%s does not take the object %r", what, sample.pk, exc_info=True)
            return AdminTools(server, site, model_admin, options, own, None)
    except Exception as error:
        # Its methods may need what only a request of a browser has.
        logger.debug("No tools of %s", what, exc_info=True)
        hint = "Let its methods take a request of any user, or leave the model out of models=."
        note_problem(server, what, f"it cannot be described: {error!r}", hint)
        return None


def _about_each(
    check: Callable[..., Any] | None, key: str, argument: str
) -> Callable[..., Any] | None:
    """Return a check that asks the site's own about each object of a call, by the key of the object.

    Args:
        check: of the site; None: there is none.
        key: the name by which it takes the key.
        argument: the argument with the key, or with a list of keys.
    """
    if check is None or is_async_callable(check):
        return check
    try:
        first, *others = inspect.signature(check).parameters.values()
    except (TypeError, ValueError):  # the registration says what is wrong
        return check
    takes_all = any(other.kind is inspect.Parameter.VAR_KEYWORD for other in others)
    names = {other.name for other in others}
    if not takes_all and key not in names:
        return check

    @wraps(check)
    def check_each(subject: Any, **arguments: Any) -> bool:
        given = {name: value for name, value in arguments.items() if takes_all or name in names}
        keys = arguments.get(argument)
        if not isinstance(keys, list):
            return read_verdict(check(subject, **given))
        return all(read_verdict(check(subject, **{**given, key: each})) for each in keys)

    rest = inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)
    check_each.__signature__ = inspect.Signature([first, rest])  # type: ignore[attr-defined]
    return check_each
