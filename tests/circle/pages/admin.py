"""The admin of the pages, as a site registers them that wants them there as well."""

from django.contrib import admin

from tests.circle.pages import models


class LinkInline(admin.TabularInline):
    model = models.PostLink


@admin.register(models.Post)
class PostAdmin(admin.ModelAdmin):
    list_display = ["title", "published_on", "live"]
    inlines = [LinkInline]


admin.site.register(models.Author)
admin.site.register(models.PostLink)
