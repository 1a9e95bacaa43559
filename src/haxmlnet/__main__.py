"""`python -m haxmlnet` is the command line."""

import sys

from haxmlnet.cli import main

sys.exit(main())
