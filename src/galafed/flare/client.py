"""x"""

from nvflare.collab import collab


@collab.publish
def handle(request: bytes) -> bytes:
    return request
