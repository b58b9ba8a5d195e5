"""What FLARE's server runs for a run: it passes bytes between the process the user started and the sites."""

from nvflare.collab import collab


@collab.main
def relay():
    pass
