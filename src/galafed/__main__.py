"""`python -m galafed` is `gala`."""

from galafed.cli import main

main()
