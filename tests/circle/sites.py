"""The sites of the circle: the apps of each, and the settings that its packages ask for."""

from __future__ import annotations

from typing import Any

OSCAR = [
    "oscar.config.Shop",
    "oscar.apps.analytics.apps.AnalyticsConfig",
    "oscar.apps.checkout.apps.CheckoutConfig",
    "oscar.apps.address.apps.AddressConfig",
    "oscar.apps.shipping.apps.ShippingConfig",
    "oscar.apps.catalogue.apps.CatalogueConfig",
    "oscar.apps.catalogue.reviews.apps.CatalogueReviewsConfig",
    "oscar.apps.communication.apps.CommunicationConfig",
    "oscar.apps.partner.apps.PartnerConfig",
    "oscar.apps.basket.apps.BasketConfig",
    "oscar.apps.payment.apps.PaymentConfig",
    "oscar.apps.offer.apps.OfferConfig",
    "oscar.apps.order.apps.OrderConfig",
    "oscar.apps.customer.apps.CustomerConfig",
    "oscar.apps.search.apps.SearchConfig",
    "oscar.apps.voucher.apps.VoucherConfig",
    "oscar.apps.wishlists.apps.WishlistsConfig",
    "oscar.apps.dashboard.apps.DashboardConfig",
    "oscar.apps.dashboard.reports.apps.ReportsDashboardConfig",
    "oscar.apps.dashboard.users.apps.UsersDashboardConfig",
    "oscar.apps.dashboard.orders.apps.OrdersDashboardConfig",
    "oscar.apps.dashboard.catalogue.apps.CatalogueDashboardConfig",
    "oscar.apps.dashboard.offers.apps.OffersDashboardConfig",
    "oscar.apps.dashboard.partners.apps.PartnersDashboardConfig",
    "oscar.apps.dashboard.pages.apps.PagesDashboardConfig",
    "oscar.apps.dashboard.ranges.apps.RangesDashboardConfig",
    "oscar.apps.dashboard.reviews.apps.ReviewsDashboardConfig",
    "oscar.apps.dashboard.vouchers.apps.VouchersDashboardConfig",
    "oscar.apps.dashboard.communications.apps.CommunicationsDashboardConfig",
    "oscar.apps.dashboard.shipping.apps.ShippingDashboardConfig",
    "widget_tweaks",
    "haystack",
    "treebeard",
    "sorl.thumbnail",
    "django_tables2",
]

WAGTAIL = [
    "wagtail.contrib.forms",
    "wagtail.contrib.redirects",
    "wagtail.embeds",
    "wagtail.sites",
    "wagtail.users",
    "wagtail.snippets",
    "wagtail.documents",
    "wagtail.images",
    "wagtail.search",
    "wagtail.admin",
    "wagtail",
    "modelcluster",
    "taggit",
    "django_filters",
    "tests.circle.pages",
]

CMS = [
    "cms",
    "menus",
    "treebeard",
    "sekizai",
    "filer",
    "easy_thumbnails",
]

FORUM = [
    "mptt",
    "haystack",
    "widget_tweaks",
    "machina",
    "machina.apps.forum",
    "machina.apps.forum_conversation",
    "machina.apps.forum_conversation.forum_attachments",
    "machina.apps.forum_conversation.forum_polls",
    "machina.apps.forum_feeds",
    "machina.apps.forum_moderation",
    "machina.apps.forum_search",
    "machina.apps.forum_tracking",
    "machina.apps.forum_member",
    "machina.apps.forum_permission",
    "django_nyt",
    "sekizai",
    "sorl.thumbnail",
    "wiki",
    "wiki.plugins.attachments",
    "wiki.plugins.notifications",
    "wiki.plugins.images",
    "wiki.plugins.macros",
]

WORKSHOP = [
    "django_countries",
    "djmoney",
    "guardian",
    "import_export",
    "mptt",
    "parler",
    "phonenumber_field",
    "polymorphic",
    "reversion",
    "simple_history",
    "solo",
    "taggit",
    "treebeard",
    "tests.circle.workshop",
]

REST = [
    "rest_framework",
    "rest_framework.authtoken",
    "django_filters",
    "drf_spectacular",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "dj_rest_auth",
    "dj_rest_auth.registration",
    "simple_history",
    "tests.circle.api",
]

NINJA = [
    "ninja_extra",
    "ninja_jwt",
    "ninja_jwt.token_blacklist",
    "simple_history",
    "tests.circle.operations",
]

_HAYSTACK = {
    "HAYSTACK_CONNECTIONS": {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
}

SITES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "oscar": (OSCAR, _HAYSTACK),
    "wagtail": (
        WAGTAIL,
        {
            "WAGTAIL_SITE_NAME": "circle",
            "WAGTAIL_I18N_ENABLED": True,
            "WAGTAILADMIN_BASE_URL": "http://localhost",
            "LANGUAGES": [("en", "English"), ("de", "German"), ("fr", "French")],
            "WAGTAIL_CONTENT_LANGUAGES": [("en", "English"), ("de", "German"), ("fr", "French")],
        },
    ),
    "cms": (
        CMS,
        {
            "CMS_CONFIRM_VERSION4": True,
            "LANGUAGES": [("en", "English"), ("de", "German")],
            "CMS_TEMPLATES": [("page.html", "Page")],
            "X_FRAME_OPTIONS": "SAMEORIGIN",
        },
    ),
    "forum": (
        FORUM,
        {
            **_HAYSTACK,
            "CACHES": {
                "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
                "machina_attachments": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
            },
        },
    ),
    "ninja": (NINJA, {}),
    "rest": (
        REST,
        {
            "REST_FRAMEWORK": {"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"},
            "ACCOUNT_EMAIL_VERIFICATION": "none",
        },
    ),
    "workshop": (
        WORKSHOP,
        {
            "LANGUAGES": [("en", "English"), ("de", "German")],
            "PARLER_LANGUAGES": {1: ({"code": "en"}, {"code": "de"}), "default": {"fallbacks": []}},
            "AUTHENTICATION_BACKENDS": [
                "django.contrib.auth.backends.ModelBackend",
                "guardian.backends.ObjectPermissionBackend",
            ],
        },
    ),
}
"""The apps and the further settings of each site, by its name."""
