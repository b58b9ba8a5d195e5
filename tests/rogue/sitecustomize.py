"""A site that is not honest. Python imports this module by itself where its folder is on the path: that of one site.

What the site does is in the variable ROGUE; only the process that works for runs is changed, and nothing in galafed
knows of it.
"""

import os
import sys

if any("worker_process" in argument or "galafed.flower.node" in argument for argument in sys.orig_argv):
    import rogue_site

    rogue_site.corrupt(os.environ["ROGUE"])
