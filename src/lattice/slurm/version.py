"""The version of Slurm that is emulated."""

VERSION = "22.05.8"
