"""The Slurm whose manners these are."""

VERSION = "22.05.8"
