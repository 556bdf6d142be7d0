"""`ModelTools`: the class that a site writes for each model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary, ref

from django.db.models import Manager, Model, QuerySet

from django_mcp.auth.permissions import holds, signed_in
from django_mcp.contrib.all_or_nothing import all_or_nothing, saves_state
from django_mcp.contrib.compact_tools import add_compact
from django_mcp.contrib.confirming import RESULT_SCHEMA
from django_mcp.contrib.finders import RelationText, note_finder
from django_mcp.contrib.generated import (
    COMPACT,
    CONFIRMED,
    MAX_RESULTS,
    SINGLE,
    GeneratedFunction,
    GeneratedOptions,
    converting_key,
    refuse_positional,
    register_generated,
)
from django_mcp.contrib.large_keys import note_model
from django_mcp.contrib.models.action_names import ACTIONS, ASKED_AS, find_unknown_actions
from django_mcp.contrib.models.attributes import (
    HOOKS,
    OPTIONS,
    check_functions,
    check_hooks,
    check_options,
    find_unread,
)
from django_mcp.contrib.models.definition import Definition, Fault, read_definition
from django_mcp.contrib.models.deleting import Deleting
from django_mcp.contrib.models.live import ACTION, Live, to_uri
from django_mcp.contrib.models.name_fields import choose_name_field
from django_mcp.contrib.models.names import RelationNames
from django_mcp.contrib.models.reading import Reading, describe_tool
from django_mcp.contrib.models.related import Related
from django_mcp.contrib.models.shown import Shown
from django_mcp.contrib.models.summaries import OUTPUT, SUMMARIZE
from django_mcp.contrib.models.write_arguments import HINTS, IF_UNMODIFIED, Written
from django_mcp.contrib.models.writing import Writing
from django_mcp.contrib.updating_many import OUTPUT as UPDATED_SCHEMA
from django_mcp.contrib.updating_many import UPDATE_MANY, UpdatingMany
from django_mcp.contrib.updating_many import describe as describe_many
from django_mcp.forms import Naming
from django_mcp.log import logger
from django_mcp.registry.access import Permission
from django_mcp.registry.entries import Family, ToolEntry
from django_mcp.registry.problems import (
    RegistrationError,
    check_names,
    describe_source,
    name_as,
    suggest,
)
from django_mcp.servers import MCPServer, choose_server

_GENERATED = tuple(GeneratedOptions.__dataclass_fields__)
_ACTIONS = ("search", "get", SUMMARIZE, ACTION, *HINTS, UPDATE_MANY)


def _find_fault(rows: Any) -> str | None:
    """Return what is wrong with the result of a `get_queryset`, which has to be filtered and ordered."""
    if not isinstance(rows, QuerySet | Manager):
        return f"an object of {type(rows).__name__}. Return a queryset."
    query: Any = getattr(rows, "query", None)
    if query is None:
        return None
    if query.is_sliced:
        return "a slice, which no search can filter or order. Return the queryset without [...]: max_results= limits a page."
    if query.combinator:
        return f"a {query.combinator}, which no search can filter. Join the conditions with Q(...) | Q(...) instead."
    if getattr(rows, "_fields", None) is not None:
        return "rows without objects. Return the queryset without values() and values_list()."
    return None


class ModelTools:
    """Tools for the objects of a model, in the manner of `ModelAdmin`.

    Use:
        class Orders(ModelTools):
            model = Order
            fields = ["number", "status", "lines__product__name"]
            filters = ["status", "placed_at__gte"]

            def get_queryset(self, user):
                return Order.objects.visible_to(user)


        Orders.register()

    That makes the tools `search_orders` and `get_order`. A class whose options are wrong makes none, and
    `manage.py check` says why.

    Attributes:
        model: the model.
        fields: what is shown: fields, fields of related models (`customer__username`), properties of the
            model, and functions of this class that take an instance. A relation by itself is
            shown as primary keys.
        filters: lookups that a search takes as arguments, such as `status` or `placed_at__gte`.
        search: fields that the argument `search` looks at, as `ModelAdmin.search_fields`.
        ordering: the order of a search; by default the model's, as far as its fields are shown.
        sortable_by: fields that callers may order by.
        lookup_field: the unique field that says which object is meant; by default the primary key if it
            is shown, else the first unique field that is.
        name_field: the text field whose values name the objects in arguments of other tools, where the model has no
            unique text and no natural key, or another is better. Register the class before those whose relations
            lead to it.
        everyone: whether all users may see all objects; else define `get_queryset`.
        allow_sensitive: names of fields to be shown although they look like secrets, and of fields that give rights
            and are written on purpose.
        related: `"visible"`: of related rows whose model has a class on the same server, only those and only the fields
            are shown that this class shows the user. `"all"`: all of them are shown to everybody.
        select_related, prefetch_related: relations that properties and functions need.
        max_count: results of a search are counted up to this number.
        aggregates: whether there is a tool `summarize_orders`, which counts and adds up in groups.
        writes: which of `create`, `update` and `delete` become tools.
        update_many: whether there is a tool `update_many_orders`, which changes several objects, after the user has agreed.
        writable: fields that the tools write; by default those of `fields` that can be edited
            and give no rights, as `is_superuser` does.
        form: the `ModelForm` that writes; by default one is made from `writable`.
        version_field: the field that changes with each change of the object. An update has to say it
            and is refused if it is another by now. By default a field such as `updated_at` or
            `version` among `fields`; "": none.
        uri: the template of the URIs of the objects, which are resources; by default `order://{number}`
            for the model `Order` with the lookup field `number`; "": none.
        include, exclude, prefix, names, descriptions, annotations, permission, scopes, check, max_results, toolset, style, app:
            see `GeneratedOptions`; the actions are `search`, `get`, `summarize`, `resource`, those of `writes` and `update_many`. `register` takes them as well.
    """

    model: type[Model]
    fields: Sequence[str] = ()
    filters: Sequence[str] = ()
    search: Sequence[str] = ()
    ordering: Sequence[str] | None = None
    sortable_by: Sequence[str] = ()
    lookup_field: str | None = None
    name_field: str | None = None
    everyone: bool = False
    allow_sensitive: Sequence[str] = ()
    related: str = "visible"
    select_related: Sequence[str] = ()
    prefetch_related: Sequence[Any] = ()
    max_count: int = 1000
    aggregates: bool = False
    writes: Sequence[str] = ()
    update_many: bool = False
    writable: Sequence[str] | None = None
    form: Any = None
    version_field: str | None = None
    uri: str | None = None

    include: Collection[str] | None = None
    exclude: Collection[str] = ()
    prefix: str = ""
    names: Mapping[str, str] = MappingProxyType({})
    descriptions: Mapping[str, Any] = MappingProxyType({})
    annotations: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    permission: Permission = None
    scopes: str | Sequence[str] | None = None
    check: Callable[..., Any] | None = None
    max_results: int = MAX_RESULTS
    toolset: str | None = None
    style: str = SINGLE
    app: bool = False

    def __init__(
        self, server: MCPServer | None = None, options: GeneratedOptions | None = None
    ) -> None:
        if server is None or options is None:
            name = type(self).__qualname__
            raise RegistrationError(f"{name}() is made by {name}.register(): write that alone.")
        # The server holds its tools, and these hold no server that is not used any more.
        self._server = ref(server)
        self.options = options
        self.definition: Definition = read_definition(self, self._functions())
        self.relation_names = RelationNames(
            server, self.definition.shown, self._find_judges, options.check
        )
        self.reading = Reading(
            self.definition,
            self.find_rows,
            self.find_related,
            self.relation_names,
            max_results=options.max_results,
            max_count=self.max_count,
            select_related=self.select_related,
            prefetch_related=self.prefetch_related,
        )
        self._name_problem: str | None = None
        self.live: Live | None = None
        self._created: ToolEntry | None = None
        meta = self.model._meta
        self._family = Family(singular=meta.verbose_name, plural=meta.verbose_name_plural)

    def _functions(self) -> dict[str, Callable[[Any], Any]]:
        """Return the functions of this class that compute fields."""
        # A field may have the name of an option, as that of a content type is called model.
        options = ModelTools.__annotations__
        own = [
            name for name in self.fields if name not in options and not hasattr(ModelTools, name)
        ]
        functions = {name: getattr(self, name, None) for name in own}
        return {name: function for name, function in functions.items() if callable(function)}

    @property
    def own_functions(self) -> dict[str, Callable[..., Any]]:
        """The functions of this class that the site wrote, by name."""
        hooks = {name: getattr(self, name) for name in HOOKS}
        own = {name: hook for name, hook in hooks.items() if hook.__module__ != __name__}
        return own | self._functions()

    # -- what a site overrides

    def get_queryset(self, user: Any) -> QuerySet[Any]:
        """Return the objects that a user may see; the user may be anonymous."""
        objects = self.model._default_manager
        return objects.all() if self.everyone else objects.none()

    def has_permission(self, user: Any, action: str) -> bool:
        """Return whether a user may use an action at all: by default, only those who are signed in write.

        Args:
            user: may be anonymous.
            action: `search`, `get`, `create`, `update` or `delete`. `summarize` is asked as `search`, `update_many` as
                `update` and `resource` as `get`.
        """
        return action in ("search", "get") or bool(user.is_authenticated)

    def get_form_kwargs(self, user: Any) -> Mapping[str, Any]:
        """Return further arguments for the form."""
        return {}

    def get_choices(self, user: Any, name: str, objects: QuerySet[Any]) -> QuerySet[Any]:
        """Return the objects that a user may choose in a field of the form.

        By default those that the `ModelTools` classes of their model let the user see, whatever `related`
        says; `scopes` and `check` of those classes are not asked. If there is none on the same
        server, it is all that the field offers.

        Args:
            user: the user.
            name: of the field.
            objects: those among what the field offers that are chosen in this call, or the members that
                a many-to-many field has.
        """
        return Related(user, self._find_judges, self.definition.key.name).narrow(objects)

    def save_model(self, user: Any, instance: Any, form: Any, change: bool) -> None:  # noqa: FBT001
        """Save an object; set here what no field of the form sets, such as its owner.

        Args:
            user: the user.
            instance: as the form has it.
            form: the valid form.
            change: whether it was there before.
        """
        instance.save(using=instance._state.db)

    def delete_model(self, user: Any, instance: Any) -> None:
        """Delete an object."""
        instance.delete(using=instance._state.db)

    # -- registration

    @classmethod
    def register(
        cls, *positional: object, server: MCPServer | None = None, **options: Any
    ) -> ModelTools:
        """Register the tools of this class on a server, and return the instance that runs them.

        Args:
            positional: nothing; all options are named.
            server: gets the tools; by default the default server.
            options: override those of the class; see `GeneratedOptions`.

        Raises:
            RegistrationError: there is a tool of the same name; `prefix=` or `names=` makes another. Or an
                option has a value of another type.
            TypeError: there is no such option.
        """
        refuse_positional(
            positional,
            f"{cls.__qualname__}.register()",
            "the model is an attribute of the class, `model`",
        )
        server = choose_server(server)
        check_names(options, _GENERATED, f"{cls.__qualname__}.register()")
        # A function of the class is taken as it is, not as a method.
        given = {name: getattr(cls, name) for name in _GENERATED}
        own = {name: getattr(cls, name, None) for name in OPTIONS}
        check_options(cls.__qualname__, {**own, **options})
        with all_or_nothing(server):
            problem = None
            if cls.name_field is not None:
                problem = choose_name_field(server, cls.model, cls.name_field)
            tools = cls(server, GeneratedOptions(**{**given, **options}))
            tools._name_problem = problem
            check_hooks(cls.__qualname__, tools, ModelTools)
            check_functions(cls.__qualname__, tools._functions())
            _registered.setdefault(server, []).append(tools)
            faults = tools.find_faults()
            for fault in faults:
                logger.error("%s makes no tools: %s. %s", cls.__qualname__, fault.text, fault.hint)
            if not faults:
                tools.add_tools(server)
        return tools

    def find_faults(self) -> list[Fault]:
        """Return what is wrong with the options."""
        faults = [*self._misnamed, *self.definition.faults]
        if self.update_many and "update" not in self.writes:
            faults.append(
                Fault(
                    id="django_mcp.M005",
                    text="update_many changes objects as update does, which is not in writes",
                    hint="Add 'update' to writes, or leave update_many out.",
                )
            )
        if self._name_problem is not None:
            faults.append(
                Fault(
                    id="django_mcp.M012",
                    text=f"name_field: {self._name_problem}",
                    hint="Name a text field among fields, and register this class before those whose relations "
                    "lead to it.",
                )
            )
        if not (self.everyone or self._has_rows_of_its_own):
            faults.append(
                Fault(
                    id="django_mcp.M001",
                    text="nothing says which objects a user may see",
                    hint="Define get_queryset(self, user), or set everyone = True.",
                )
            )
        return faults

    @cached_property
    def _misnamed(self) -> list[Fault]:
        """What has the name of no option and of no action, so that nothing would read it."""
        cls = type(self)
        faults = [
            Fault(
                id="django_mcp.M006",
                text=f"{name!r} is no option of a ModelTools class",
                hint=f"{hint} If it is your own, call it `_{name}`.",
            )
            for name, hint in find_unread(cls, ModelTools, self.fields)
        ]
        for option in ("include", "exclude", "names", "descriptions", "annotations"):
            faults += [
                Fault(
                    id="django_mcp.M006",
                    text=f"{option} names {name!r}, which is no action",
                    hint=suggest(name, _ACTIONS),
                )
                for name in getattr(self.options, option) or ()
                if name not in _ACTIONS
            ]
        # Another name would leave the action that is meant open.
        faults += [
            Fault(
                id="django_mcp.M006",
                text=f"has_permission() compares its action with {name!r}, which is never one",
                hint=f"It is called {meant!r} here." if meant else suggest(name, ACTIONS),
            )
            for name, meant in find_unknown_actions(self.has_permission)
        ]
        return faults

    @property
    def _has_rows_of_its_own(self) -> bool:
        return type(self).get_queryset is not ModelTools.get_queryset

    def add_tools(self, server: MCPServer) -> None:
        """Register the tools on a server."""
        note_model(server, self.model)
        definition, reading = self.definition, self.reading
        self._family.key, self._family.members = definition.key.name, (definition.key.name, "pk")
        one, plural = definition.singular, definition.model._meta.verbose_name_plural
        self._add(
            server,
            "search",
            reading.search,
            name=f"search_{definition.plural}",
            description=self._describe("Search", plural),
            input_schema=reading.search_schema,
            output_schema=reading.page_schema,
            read_only=True,
        )
        self._add(
            server,
            "get",
            reading.get,
            name=f"get_{one}",
            description=self._describe("Get one", definition.model._meta.verbose_name),
            input_schema=reading.get_schema,
            output_schema=reading.row_schema,
            read_only=True,
        )
        if self.aggregates:
            self._add(
                server,
                SUMMARIZE,
                reading.summarize,
                name=f"summarize_{definition.plural}",
                description=self._describe("Count and add up, in groups,", plural),
                input_schema=reading.summary_schema,
                output_schema=OUTPUT,
                read_only=True,
            )
        if definition.written is not None:
            self._add_writes(server, definition.written)
        if self.has_resources:
            self._add_resource(server)

    def _add_resource(self, server: MCPServer) -> None:
        definition, options = self.definition, self.options
        word = options.with_prefix(definition.singular)
        uri = self.uri or to_uri(word, definition.key.name)
        about = self._describe("One of the", definition.model._meta.verbose_name_plural)
        self.live = Live(
            definition,
            self.reading,
            self.find_rows,
            self._server,
            uri,
            is_for_all=not self._has_rows_of_its_own
            and type(self.model._default_manager) is Manager,
        )
        self.live.register(
            server,
            options,
            type(self),
            name=options.name_of(ACTION, definition.singular),
            description=options.descriptions.get(ACTION, about),
            listed_if=self._permission_of("get"),
            toolset=options.find_toolset(self.model._meta.app_label),
            **options.annotations.get(ACTION, {}),
        )

    def _add_writes(self, server: MCPServer, written: Written) -> None:
        definition = self.definition
        one, word = definition.singular, definition.model._meta.verbose_name
        writing = Writing(definition, written, self.reading, self)
        deleting = Deleting(definition, writing, self)
        shown = definition.shown.schema
        tools = {
            "create": (writing.create, "Create a new", shown),
            "update": (writing.update, "Change one", shown),
            "delete": (deleting.delete, "Delete one", RESULT_SCHEMA),
        }
        for action, (run, text, output) in tools.items():
            if action in self.writes:
                entry = self._add(
                    server,
                    action,
                    run,
                    name=f"{action}_{one}",
                    description=self._describe(text, word),
                    input_schema=written.describe(action, self.reading.key_schema, self._tell),
                    output_schema=output,
                    atomic=writing.alias,
                    **HINTS[action],
                )
                if action == "update" and self.update_many and entry is not None:
                    self._add_many(server, written, writing, entry)

    def _add_many(
        self, server: MCPServer, written: Written, writing: Writing, single: ToolEntry
    ) -> None:
        """Add the tool that changes several objects as another tool changes one."""
        definition = self.definition
        many = UpdatingMany(writing, definition.model._meta.label, single)
        self._add(
            server,
            UPDATE_MANY,
            many.run,
            name=f"update_many_{definition.plural}",
            description=self._describe(
                "Change the named fields of several", definition.model._meta.verbose_name_plural
            ),
            input_schema=describe_many(
                definition.key,
                self.reading.key_schema,
                self.reading.filter_schemas,
                written.values_schemas(self._tell),
            ),
            output_schema=UPDATED_SCHEMA,
            atomic=writing.alias,
            **HINTS["update"],
        )

    def _add(
        self,
        server: MCPServer,
        action: str,
        run: Callable[..., Any],
        *,
        name: str,
        **tool: Any,
    ) -> ToolEntry | None:
        key = self.definition.key.name
        function = GeneratedFunction(run, type(self), action, origin="model")
        function.find_code = lambda: [type(self)]
        function.family = self._family
        function.asks_itself = action in CONFIRMED
        written = self.definition.written
        if action == "update" and written is not None and written.version is not None:
            function.sources = {IF_UNMODIFIED: written.version.name}
        function.told_at = self._created if action == "update" else None
        function.drops_null = action == "create"
        function.convert_for_check = converting_key(
            key, self.reading.to_key, is_filter=action in ("search", SUMMARIZE, "create")
        )
        options = self.options
        if action == UPDATE_MANY:
            # Each object is asked about, as with the tool for one.
            function.convert_for_check, options = None, replace(options, check=None)
        entry = register_generated(
            server,
            options,
            function,
            action=action,
            name=name,
            app_label=self.model._meta.app_label,
            listed_if=self._permission_of(action),
            **tool,
        )
        if entry is None:
            return None
        if self.options.style == COMPACT:
            add_compact(server, self.model, action, entry, key)
        if action == "search":
            note_finder(server, self.model, entry)
        if action == "create":
            self._created = entry
        return entry

    def _permission_of(self, action: str) -> Callable[..., bool] | None:
        """Return what `has_permission` says of an action; None, if it is always the same."""
        is_own = type(self).has_permission is not ModelTools.has_permission
        action = ASKED_AS.get(action, action)
        if action in ("search", "get") and not is_own:
            return None
        return self._rule_of(action)

    def _rule_of(self, action: str) -> Callable[..., bool]:
        """Return `has_permission` for one action as a function of the user."""

        def may_use(user: Any) -> bool:
            return self.has_permission(user, action)

        name_as(may_use, type(self), "has_permission")
        return may_use

    def _describe(self, text: str, words: Any) -> Any:
        own = type(self).__dict__.get("__doc__")
        return describe_tool(text, words, inspect.cleandoc(own) if own else None)

    @property
    def class_name(self) -> str:
        """The name of the class with its module, for messages."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    # -- the one place that decides which objects a user may use

    def find_rows(self, user: Any, action: str) -> QuerySet[Any]:
        """Return the objects that a user may use for an action."""
        if not self._grants(user, action):
            return self.model._default_manager.none()
        rows = self.get_queryset(user)
        fault = _find_fault(rows)
        if fault is not None:
            raise TypeError(f"{describe_source(self.get_queryset)} returned {fault}")
        return rows

    def _grants(self, user: Any, action: str) -> bool:
        return holds(self._rule_of(action), user)

    def find_related(self, user: Any) -> Related:
        """Return what a user sees of related rows."""
        find = self._find_judges if self.related != "all" else lambda _model: ()
        return Related(user, find, self.definition.key.name)

    def _find_judges(self, model: type[Model]) -> Sequence[ModelTools]:
        """Return the classes on the same server that decide about the rows of a model.

        A row of a model is one of its parent models, too, and that of a proxy one of what it stands for.
        """
        server = self._server()
        known = [] if server is None else _registered.get(server, [])
        for related_model in (model._meta.concrete_model, *model._meta.get_parent_list()):
            judges = [tools for tools in known if tools.model._meta.concrete_model is related_model]
            if judges:
                return judges
        return []

    def is_judged(self, model: type[Model]) -> bool:
        """Return whether a class on the same server says who may see which objects of a model."""
        return bool(self._find_judges(model))

    @property
    def is_writable_by_all(self) -> bool:
        """Whether nothing of this class says which of the users who are signed in may write, or what."""
        return (
            type(self).has_permission is ModelTools.has_permission
            and not self._has_rows_of_its_own
            and self._has_no_rule
        )

    @property
    def is_visible_to_all(self) -> bool:
        """Whether nothing but `get_queryset` of this class says who may see which objects."""
        return self._has_rows_of_its_own and self._has_no_rule

    @property
    def has_resources(self) -> bool:
        """Whether its objects are resources, to whose changes clients can subscribe."""
        return self.uri != "" and self.options.has(ACTION)

    @property
    def is_visible_to_anonymous(self) -> bool:
        """Whether nothing but `get_queryset` says which objects a caller sees who is not signed in."""
        server = self._server()
        if (
            server is None
            or server.options.permission is not None
            or self.options.permission is not None
            or type(self).has_permission is not ModelTools.has_permission
            or not self.is_visible_to_all
        ):
            return False
        authentication = server.engine.authentication
        return authentication is None or authentication.is_public

    @property
    def offers_all_choices(self) -> bool:
        """Whether nothing of this class says who may choose which objects that its form offers."""
        hooks = ("get_choices", "get_form_kwargs")
        is_plain = all(getattr(type(self), each) is getattr(ModelTools, each) for each in hooks)
        return is_plain and self._has_no_rule

    @property
    def _has_no_rule(self) -> bool:
        options = self.options
        # To be signed in is no rule about which user it is.
        is_for_all = options.permission is None or options.permission is signed_in
        return is_for_all and (options.scopes, options.check) == (None, None)

    @property
    def shown(self) -> Shown:
        """The fields that are shown."""
        return self.definition.shown

    @cached_property
    def is_for_all(self) -> bool:
        """Whether all users who may use this see all rows: nothing narrows them."""
        manager = self.model._default_manager
        return (
            type(self).get_queryset is ModelTools.get_queryset
            and type(self).find_rows is ModelTools.find_rows
            and self.everyone
            and type(manager).get_queryset is Manager.get_queryset
        )

    def shows_rows_to(self, user: Any) -> bool:
        """Return whether a user may see any rows at all; nobody may, if the options are wrong."""
        server = self._server()
        return (
            server is not None
            and not self.find_faults()
            and self.options.is_open_to(server, user)
            and self._grants(user, "get")
        )

    def shows_key(self, field: Any) -> bool:
        """Return whether callers are shown the keys of all objects that a relation leads to."""
        is_shown = field.name in self.fields
        return is_shown and (self.related == "all" or not self._find_judges(field.related_model))

    def _tell(self, name: str, model: type[Model]) -> RelationText | None:
        """Return what the description of a field of the form says of the objects that it takes."""
        return self.relation_names.tell(name, self._lead_to(name, model), model)

    def _lead_to(self, name: str, model: type[Model]) -> list[Any]:
        """Return the relation of a name, if it leads to objects of a model; the form may have fields of its own."""
        fields = self.model._meta.get_fields()
        return [each for each in fields if each.name == name and each.related_model is model]

    def find_naming(self, user: Any, name: str, model: type[Model]) -> Naming | None:
        """Return how a user names the objects to choose in a field; None: by their keys alone."""
        return self.relation_names.find_naming(user, name, self._lead_to(name, model), model)

    def find_choices(self, user: Any, name: str, objects: QuerySet[Any]) -> QuerySet[Any]:
        """Return the objects that a user may choose in a field."""
        return self.get_choices(user, name, objects)


_registered: WeakKeyDictionary[MCPServer, list[ModelTools]] = WeakKeyDictionary()


@saves_state
def _save(server: MCPServer) -> Callable[[], object]:
    before = list(_registered.get(server, ()))
    return lambda: _registered.__setitem__(server, before)


def registered_tools() -> list[ModelTools]:
    """Return what was registered in this process, by the name of the class."""
    all_tools = [tools for of_server in _registered.values() for tools in of_server]
    return sorted(all_tools, key=lambda tools: tools.class_name)
