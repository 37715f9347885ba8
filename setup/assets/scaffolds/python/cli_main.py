"""Makes the program run as ``python -m {{module}}`` too."""

from .cli import main

main()
