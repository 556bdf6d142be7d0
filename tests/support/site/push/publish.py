"""Send a notification from a separate process, as a command or a Celery task would."""

import sys

import django


def main(uri: str, how: str) -> None:
    django.setup()
    from django.db import transaction

    from django_mcp import notify_resource_updated

    if how == "now":
        print(notify_resource_updated(uri))
        return
    with transaction.atomic():
        print(notify_resource_updated(uri))
        if how == "rollback":
            transaction.set_rollback(True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
