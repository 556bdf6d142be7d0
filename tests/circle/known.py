"""Known faults: the pattern of a tool and the kind of a fault, with the reason, for each site.

A pattern that fits no fault fails the test, so who mends a fault takes it out.
"""

from __future__ import annotations

_OF_PACKAGE = "the package itself refuses such a row by an exception of its own"
_PATTERNS = "the renderer of its markup has patterns that may take very long"
_PAGE = "the admin has a page of its own in place of the list"

KNOWN: dict[str, dict[tuple[str, str], str]] = {
    "cms": {
        ("cms.PageUser*", "no rows"): "a user with the same name is there",
        ("filer-folder_search", "queries"): "its rules about a folder make a query for each",
        ("filer.folder", "visible"): _PAGE,
    },
    "forum": {
        ("django_nyt-*_create", "internal"): _OF_PACKAGE,
        ("forum*.*", "start"): _PATTERNS,
        ("wiki-urlpath_update", "changed"): "saving one adds a row to those of its inline",
        (
            "wiki-simpleplugin_search",
            "rows",
        ): "reading a row sets its article to that of its revision, whatever the column has",
    },
    "ninja": {
        (
            "token_blacklist-outstandingtoken_update",
            "own values",
        ): "its admin lets it be seen by GET alone",
        ("volumemodel_update_item", "internal"): _OF_PACKAGE,
    },
    "oscar": {
        ("order-shippingeventquantity_update", "internal"): _OF_PACKAGE,
        ("order-shippingeventquantity_update", "own values"): _OF_PACKAGE,
    },
    "rest": {
        ("authtoken.tokenproxy", "start"): "its key is the token",
        ("socialaccount-socialapp_update", "own values"): "its choices are the installed providers",
    },
    "wagtail": {
        ("pages.post", "start"): _PATTERNS,
        ("wagtailcore.*LogEntry", "no rows"): "its actions are those that wagtail has registered",
    },
    "workshop": {
        ("workshop-recipetranslation_create", "internal"): _OF_PACKAGE,
    },
}
