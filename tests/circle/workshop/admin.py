"""The admin of the models, each with the class that its package has for it."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.contenttypes.admin import GenericTabularInline
from guardian.admin import GuardedModelAdmin
from import_export.admin import ImportExportModelAdmin
from mptt.admin import DraggableMPTTAdmin
from parler.admin import TranslatableAdmin
from polymorphic.admin import PolymorphicChildModelAdmin, PolymorphicParentModelAdmin
from reversion.admin import VersionAdmin
from simple_history.admin import SimpleHistoryAdmin
from solo.admin import SingletonModelAdmin
from treebeard.admin import TreeAdmin
from treebeard.forms import movenodeform_factory

from tests.circle.workshop import models


@admin.register(models.Price)
class PriceAdmin(admin.ModelAdmin):
    list_display = ["name", "net", "gross", "fee", "currency"]
    list_filter = ["net_currency", "currency"]
    search_fields = ["name"]


@admin.register(models.Contact)
class ContactAdmin(admin.ModelAdmin):
    list_display = ["name", "phone", "country", "visited", "colors"]
    list_filter = ["country", "colors", "user"]
    search_fields = ["name", "phone"]


@admin.register(models.Plain)
class PlainAdmin(admin.ModelAdmin):
    list_display = ["name", "state", "rank", "is_open", "due_on", "settings"]
    list_filter = ["state", "rank", "is_open", "due_on", ("code", admin.EmptyFieldListFilter)]
    search_fields = ["name", "code"]
    date_hierarchy = "changed"


class NoteInline(GenericTabularInline):
    model = models.Note


@admin.register(models.Article)
class ArticleAdmin(SimpleHistoryAdmin):
    list_display = ["title"]
    inlines = [NoteInline]


class MembershipInline(admin.TabularInline):
    model = models.Membership


@admin.register(models.Club)
class ClubAdmin(admin.ModelAdmin):
    inlines = [MembershipInline]
    filter_horizontal = ["guests"]


@admin.register(models.Recipe)
class RecipeAdmin(TranslatableAdmin):
    list_display = ["title", "minutes", "language_column"]


@admin.register(models.Project)
class ProjectAdmin(PolymorphicParentModelAdmin):
    base_model = models.Project
    child_models = [models.ArtProject, models.ResearchProject]


class ProjectChildAdmin(PolymorphicChildModelAdmin):
    base_model = models.Project


admin.site.register([models.ArtProject, models.ResearchProject], ProjectChildAdmin)
admin.site.register(models.Genre, DraggableMPTTAdmin)
admin.site.register(models.Album)
for _model in (models.Place, models.Chapter, models.Folder):
    admin.site.register(_model, type("Admin", (TreeAdmin,), {"form": movenodeform_factory(_model)}))
admin.site.register(models.Settings, SingletonModelAdmin)
admin.site.register(models.Note)
admin.site.register(models.Member)
admin.site.register(models.Topic)


@admin.register(models.Report)
class ReportAdmin(GuardedModelAdmin, ImportExportModelAdmin, VersionAdmin):
    pass
