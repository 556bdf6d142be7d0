"""The serializers of the API."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework_nested.relations import NestedHyperlinkedIdentityField

from tests.circle.api.models import Company, Label, Project, Step, Task


class LabelSerializer(serializers.ModelSerializer):
    class Meta:
        model = Label
        fields = "__all__"


class CompanySerializer(serializers.ModelSerializer):
    website_url = serializers.URLField(source="website", allow_null=True, required=False)
    projects = serializers.StringRelatedField(many=True, read_only=True)
    size_name = serializers.CharField(source="get_size_display", read_only=True)

    class Meta:
        model = Company
        fields = [
            "id", "name", "slug", "size", "size_name", "website_url", "is_active", "budget",
            "settings", "logo", "made_at", "projects",
        ]  # fmt: skip


class ShortCompanySerializer(serializers.ModelSerializer):
    class Meta:
        model = Company
        fields = ["id", "name", "slug", "size", "is_active"]


class ProjectSerializer(serializers.ModelSerializer):
    owner = serializers.HiddenField(default=serializers.CurrentUserDefault())
    labels = serializers.SlugRelatedField(
        slug_field="word", many=True, queryset=Label.objects.all(), required=False
    )
    company = ShortCompanySerializer(read_only=True)
    company_id = serializers.PrimaryKeyRelatedField(
        source="company", queryset=Company.objects.all()
    )
    open_tasks = serializers.SerializerMethodField()

    class Meta:
        model = Project
        fields = ["id", "title", "owner", "starts", "labels", "company", "company_id", "open_tasks"]

    @extend_schema_field(int)
    def get_open_tasks(self, project: Project) -> int:
        return sum(task.state == "open" for task in project.tasks.all())


class StepSerializer(serializers.ModelSerializer):
    class Meta:
        model = Step
        fields = ["position", "text"]


class TaskSerializer(serializers.ModelSerializer):
    """Writes the steps of a task with it."""

    url = NestedHyperlinkedIdentityField(
        view_name="project-tasks-detail", parent_lookup_kwargs={"project_pk": "project__pk"}
    )
    steps = StepSerializer(many=True, required=False)
    secret_hint = serializers.CharField(write_only=True, required=False, allow_blank=True)

    class Meta:
        model = Task
        fields = [
            "url", "id", "text", "note", "state", "hours", "takes", "changed_at", "steps",
            "secret_hint",
        ]  # fmt: skip
        read_only_fields = ["id"]

    def _write_steps(self, task: Task, steps: Any) -> Task:
        if steps is not None:
            task.steps.all().delete()
            Step.objects.bulk_create(Step(task=task, **step) for step in steps)
        return task

    def create(self, validated_data: dict[str, Any]) -> Task:
        validated_data.pop("secret_hint", None)
        steps = validated_data.pop("steps", None)
        return self._write_steps(Task.objects.create(**validated_data), steps)

    def update(self, instance: Task, validated_data: dict[str, Any]) -> Task:
        validated_data.pop("secret_hint", None)
        steps = validated_data.pop("steps", None)
        return self._write_steps(super().update(instance, validated_data), steps)


class MoveSerializer(serializers.Serializer):
    state = serializers.ChoiceField(choices=["open", "done"])
    reason = serializers.CharField(required=False, allow_blank=True)


class PersonSerializer(serializers.ModelSerializer):
    class Meta:
        model = get_user_model()
        fields = ["id", "username", "first_name", "last_name"]
        read_only_fields = ["username"]
