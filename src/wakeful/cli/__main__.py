"""Layer 5. The same command as `python -m wakeful.cli`."""

from wakeful.cli import main

main()
