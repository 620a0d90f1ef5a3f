"""The versions of the API's protocol that this library speaks; the server uses the highest that both know, or refuses."""

OLDEST = 1
NEWEST = 2
HEADER = ("X-Lattice-Protocol", f"{OLDEST}-{NEWEST}")
