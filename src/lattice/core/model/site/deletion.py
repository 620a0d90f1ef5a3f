"""What an administrator may delete once nothing uses it. See docs/architecture/core.md."""

from enum import StrEnum


class Deletable(StrEnum):
    TENANT = "tenant"
    PROJECT = "project"
    VCLUSTER = "vcluster"
    NODE = "node"
