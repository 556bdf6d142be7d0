"""Common mistakes in a first project, with the output of the site for each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from django_mcp.conf import SETTINGS
from tests.support.commands import ROOT
from tests.support.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that works after its migrations."""
    return Project(tmp_path)


MIGRATE = "The database lacks tables or columns that this server needs: run manage.py migrate"


@pytest.mark.parametrize(
    "command", ["mcp_prune", "mcp_list --user anna", "mcp_config --client cursor --user anna"]
)
def test_a_command_asks_to_run_migrate(project: Project, command: str):
    done = project.manage(*command.split())

    assert done.returncode == 1
    assert done.stdout.startswith(f"CommandError: {MIGRATE}")
    assert "Traceback" not in done.stdout


def test_a_command_that_works_without_tables_asks_once_to_migrate(project: Project):
    done = project.manage("mcp_call", "total", '{"price": 5}')

    assert done.returncode == 0
    assert done.stdout.count("migrate") == 1
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    "authenticators", [[], ["django_mcp.auth.authenticators.APIKeyAuthenticator"]]
)
def test_an_unmigrated_site_answers_503_and_logs_one_line(
    project: Project, authenticators: list[str]
):
    project.set(DJANGO_MCP={"PUBLIC": not authenticators, "AUTHENTICATORS": authenticators})

    printed = project.post()

    assert "503" in printed
    assert printed.count(MIGRATE) == 2  # the log and the response
    assert "Traceback" not in printed


def test_a_migrated_site_reports_nothing(project: Project):
    assert project.manage("migrate", "-v0").stdout == ""

    assert project.post().startswith("200\n")
    assert project.check() == "System check identified no issues (0 silenced).\n"


# -- missing configuration


def test_the_app_is_not_installed(project: Project):
    project.set(INSTALLED_APPS="[app for app in INSTALLED_APPS if app != 'django_mcp']")

    checked = project.check()

    assert "(django_mcp.E013) 'django_mcp' is not in INSTALLED_APPS" in checked
    assert "Add 'django_mcp' to INSTALLED_APPS" in checked
    assert "Traceback" not in checked
    assert last_line(project.post()).endswith(
        "ImproperlyConfigured: 'django_mcp' is not in INSTALLED_APPS, so no MCP server can be served. "
        "Add 'django_mcp' to INSTALLED_APPS, then run manage.py migrate."
    )
    assert "'django_mcp' is not in INSTALLED_APPS" in last_line(
        project.python("-c", "import mysite.asgi").stdout
    )


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


PLAIN_ASGI = """
import os
from django.core.asgi import get_asgi_application
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
application = get_asgi_application()
"""
ONLY_IMPORTED = """
from django_mcp.asgi import django_mcp_application
"""
IN_ANOTHER_MODULE = """
from mysite.routing import wrapped as application
"""


def test_the_asgi_application_is_not_wrapped(project: Project):
    project.write("mysite/routing.py", (project.folder / "mysite/asgi.py").read_text() + WRAPPED)
    project.write("mysite/asgi.py", ONLY_IMPORTED + PLAIN_ASGI)
    assert "W014" in project.check()
    project.write("mysite/asgi.py", PLAIN_ASGI)

    checked = project.check()

    assert (
        "(django_mcp.W014) mysite.asgi.application does not use django_mcp_application" in checked
    )
    assert "Write application = django_mcp_application(get_asgi_application()) there" in checked
    assert "with from django_mcp.asgi import django_mcp_application at the top" in checked

    project.write("mysite/asgi.py", IN_ANOTHER_MODULE)
    assert "W014" not in project.check()


DROPPED = f"""{ONLY_IMPORTED}{PLAIN_ASGI}
django_mcp_application(application)
"""
OVERWRITTEN = f"""{ONLY_IMPORTED}{PLAIN_ASGI}
application = django_mcp_application(application)
application = get_asgi_application()
"""
WRAPPED_LATER = f"""{ONLY_IMPORTED}{PLAIN_ASGI}
application = django_mcp_application(application)
"""


@pytest.mark.parametrize(
    ("text", "is_told"), [(DROPPED, True), (OVERWRITTEN, True), (WRAPPED_LATER, False)]
)
def test_the_wrapped_asgi_application_is_dropped(project: Project, text: str, is_told: bool):
    project.write("mysite/asgi.py", text)
    project.set(
        MIDDLEWARE="[*MIDDLEWARE, 'mysite.rules.LoginRequired', 'mysite.rules.other']",
    )
    project.write("mysite/rules.py", RULES)

    checked = project.manage("check", "--deploy").stdout

    assert ("(django_mcp.W014) mysite.asgi.application does not use" in checked) is is_told
    assert ("(django_mcp.W003) mysite.rules.LoginRequired may answer" in checked) is is_told
    assert ("(django_mcp.I001)" in checked) is not is_told


RULES = """
def LoginRequired(get_response):
    return get_response

def other(get_response):
    return get_response
"""


OFFICE_ONLY = """
from django.http import HttpResponseForbidden

def office_only(get_response):
    def answer(request):
        if request.META["REMOTE_ADDR"] != "192.0.2.7":
            return HttpResponseForbidden()
        return get_response(request)
    return answer
"""


def test_an_access_rule_of_the_site_does_not_run(project: Project):
    project.write("mysite/rules.py", OFFICE_ONLY)
    project.set(MIDDLEWARE="[*MIDDLEWARE, 'mysite.rules.office_only']")

    checked = project.check()

    assert "(django_mcp.W034) This entry of MIDDLEWARE can refuse requests, and does" in checked
    assert "for MCP calls: mysite.rules.office_only." in checked

    project.write("mysite/asgi.py", PLAIN_ASGI)
    assert "W034" not in project.check()


def test_the_asgi_application_is_not_wrapped_and_not_set(project: Project):
    with (project.folder / "mysite/settings.py").open("a") as file:
        file.write("del ASGI_APPLICATION\nINSTALLED_APPS = INSTALLED_APPS[1:]\n")
    assert "W014" not in project.check()

    project.write("mysite/asgi.py", PLAIN_ASGI)
    assert "(django_mcp.W014) mysite.asgi.application does not use" in project.check()

    (project.folder / "mysite/asgi.py").unlink()
    assert "W014" not in project.check()


WRAPPED = "\nwrapped = application\n"


def test_runserver_serves_wsgi(project: Project):
    project.set(INSTALLED_APPS="INSTALLED_APPS[1:]")

    # The invalid address stops it after the checks.
    printed = project.manage("runserver", "--noreload", "192.0.2.1:8000").stdout

    assert "(django_mcp.W015) This runserver serves WSGI" in printed
    assert "put 'daphne' first in INSTALLED_APPS and set ASGI_APPLICATION" in printed
    assert "W015" not in project.check()


def test_runserver_says_where_mcp_is(project: Project):
    # The invalid address stops it after it has loaded the application.
    printed = project.manage("runserver", "--noreload", "192.0.2.1:8000").stdout

    assert " at /mcp: tools " in printed


WRAPPER = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django
django.setup()
from django.core.management import call_command
call_command("runserver", "192.0.2.1:8000", use_reloader=False, skip_checks=False)
"""


def test_a_command_that_calls_runserver_says_the_same(project: Project):
    printed = project.python("-c", WRAPPER).stdout
    project.set(INSTALLED_APPS="INSTALLED_APPS[1:]")
    by_wsgi = project.python("-c", WRAPPER).stdout

    assert " at /mcp: tools " in printed
    assert "(django_mcp.W015) This runserver serves WSGI" in by_wsgi


def test_no_url_leads_to_the_default_server(project: Project):
    project.write("mysite/urls.py", "urlpatterns = []")

    checked = project.check()

    assert (
        "(django_mcp.W016) 1 entry of the default MCP server cannot be called over HTTP: no URL leads "
        "to it." in checked
    )
    assert 'Write path("", include("django_mcp.urls")) into the root URLconf.' in checked


@pytest.mark.parametrize("line", ["ROOT_URLCONF = None", "del ROOT_URLCONF"])
def test_there_is_no_urlconf(project: Project, line: str):
    with (project.folder / "mysite/settings.py").open("a") as file:
        file.write(line)

    checked = project.check()

    assert "(django_mcp.W016) 1 entry of the default MCP server cannot be called" in checked
    assert "ROOT_URLCONF is not set." in checked
    assert "into the root URLconf, and set ROOT_URLCONF to its module." in checked
    assert "Traceback" not in checked
    assert project.python("-c", "import mysite.asgi").stdout == ""
    assert last_line(project.manage("mcp_doctor").stdout) == (
        "CommandError: The server 'django-mcp' is not in the URLconf. Include django_mcp.urls, or name "
        "its endpoint with --url."
    )


def test_a_closed_server_is_configured_for_a_user_only(project: Project):
    project.set(DJANGO_MCP={})

    done = project.manage("mcp_config", "--client", "cursor")

    assert done.returncode == 2
    assert done.stdout == (
        "CommandError: The server 'django-mcp' is not public, so mcp_stdio would not start: name "
        "the user with --user.\n"
    )


def test_the_demo_has_oauth_only_with_its_extra(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(HIDE)

    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "demo"],
        env={**os.environ, "SHOP_OAUTH": "1", "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == "SHOP_OAUTH=1 needs django-oauth-toolkit: pip install -e '.[oauth]'\n"


HIDE = """
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: (
    None if name == "oauth2_provider" else find_spec(name, *rest)
)
"""


# -- users

# As in the full example of Django's documentation: no PermissionsMixin, so no is_superuser.
OWN_USERS = """
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.db import models

class Member(AbstractBaseUser):
    email = models.EmailField(unique=True)
    is_admin = models.BooleanField(default=False)
    objects = BaseUserManager()
    USERNAME_FIELD = "email"

    def has_perm(self, perm, obj=None):
        return True

    def has_module_perms(self, app_label):
        return True

    @property
    def is_staff(self):
        return self.is_admin
"""
USE_PAGES = """
import django
django.setup()
from django.test import Client
from shop.models import Member
client = Client(headers={"host": "localhost"})
client.force_login(Member.objects.create(email="ada@example.org", is_admin=True))
for path in ("", "add/"):
    print(client.get(f"/admin/django_mcp/apikey/{path}").status_code)
made = client.post("/admin/django_mcp/apikey/add/", {"name": "laptop", "scopes": ""})
print(made.status_code)
"""


def test_a_user_model_without_permissions_mixin_has_keys(project: Project):
    project.write("shop/models.py", OWN_USERS)
    project.set(AUTH_USER_MODEL="'shop.Member'")
    assert "Traceback" not in project.manage("makemigrations", "-v0", "shop").stdout
    assert project.manage("migrate", "-v0").stdout == ""

    printed = project.python("-c", USE_PAGES).stdout

    assert "Traceback" not in printed
    assert printed.split()[:2] == ["200", "200"]
    listed = project.manage("mcp_list", "--user", "ada@example.org").stdout
    assert "Tools (1)" in listed


# -- what the site needs to serve

REDIS = "channels_redis.pubsub.RedisPubSubChannelLayer"


def test_the_doctor_tries_the_database_and_the_channel_layer(project: Project):
    config = {"hosts": ["redis://:s3cret@127.0.0.1:1"]}
    project.set(CHANNEL_LAYERS={"default": {"BACKEND": REDIS, "CONFIG": config}})
    doctor = ("mcp_doctor", "--url", "http://127.0.0.1:1/mcp")

    unmigrated = project.manage(*doctor).stdout
    project.manage("migrate", "-v0")
    migrated = project.manage(*doctor).stdout

    assert "ok    The database 'default' answers" in unmigrated
    assert "note  Migrations are not applied to 'default': " in unmigrated
    assert "Migrations are not applied" not in migrated
    assert (
        "fault The channel layer of CHANNEL_LAYERS, RedisPubSubChannelLayer at 127.0.0.1:1, carries no "
        "messages: ConnectionError: " in migrated
    )
    assert "s3cret" not in migrated
    assert "Traceback" not in unmigrated + migrated


def test_the_doctor_names_a_database_that_does_not_answer(project: Project):
    place = {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": "1"}
    project.set(DATABASES={"default": {**place, "NAME": "shop"}})

    printed = project.manage("mcp_doctor", "--url", "http://127.0.0.1:1/mcp").stdout

    assert (
        "fault The database 'default' at 127.0.0.1:1 does not answer: OperationalError: " in printed
    )
    assert "Traceback" not in printed


# -- registrations


@pytest.mark.parametrize(
    ("registration", "expected"),
    [
        (
            "@tool(readonly=True)\ndef find(): ...",
            "a tool has no option 'readonly'. Did you mean 'read_only'?",
        ),
        ("@tool\ndef find(ctx): ...", "the parameter `ctx` has no annotation"),
        ("@tool(throttle='x')\ndef find(): ...", "throttle= cannot be 'x'. It must be"),
        ("@tool\ndef find(key: 'Nope'): ...", "the name 'Nope' in its annotations does not exist"),
    ],
)
def test_a_wrong_registration_is_one_short_error(
    project: Project, registration: str, expected: str
):
    project.write("shop/mcp.py", f"from django_mcp import tool\n{registration}\n")

    checked = project.check()

    assert checked.count("Traceback") == 1
    assert last_line(checked).startswith(
        "django.core.exceptions.ImproperlyConfigured: shop.mcp cannot be registered: shop.mcp.find ("
    )
    assert f"shop/mcp.py:2): {expected}" in last_line(checked)


# -- settings


@pytest.mark.parametrize("value", ["object()", "[None]", "-1", "''"])
def test_invalid_settings_are_all_reported(project: Project, value: str):
    wrong = [key for key, setting in SETTINGS.items() if not setting.rule.accepts(eval(value))]
    project.set(DJANGO_MCP=f"dict.fromkeys({wrong!r}, {value})")

    checked = project.check()

    assert [
        key for key in wrong if f"(django_mcp.E001) DJANGO_MCP[{key!r}] cannot" not in checked
    ] == []
    assert checked.count("HINT: It must be ") == len(wrong) > 50
    assert "Traceback" not in checked
    started = last_line(project.python("-c", "import mysite.asgi").stdout)
    assert started.startswith("django.core.exceptions.ImproperlyConfigured: DJANGO_MCP[")
    assert "It must be " in started


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("from django_mcp.decorators import tool", "from django_mcp import tool"),
        ("from django_mcp import tols", "Did you mean from django_mcp import tool?"),
        ("import django_mcp.contrib.modeladmins", "Did you mean django_mcp.contrib.modeladmin?"),
        (
            "from django_mcp.contrib.modeladmin import admin_tool",
            "Did you mean from django_mcp.contrib.modeladmin import admin_tools?",
        ),
        ("import django_mcp.servers.tool", "from django_mcp import tool"),
        ("from django_mcp.contrib.models import Unlike", "offers ModelTools, notify_changed."),
    ],
)
def test_an_import_from_the_wrong_place_names_the_right_one(
    project: Project, line: str, remedy: str
):
    project.write("mysite/mcp.py", line)
    project.set(INSTALLED_APPS="[*INSTALLED_APPS, 'mysite']")

    assert remedy in last_line(project.check())
