"""Sites on NVIDIA FLARE: separate processes with certificates, on this machine or on others. A preview."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from galafed.engines.base import engines
from galafed.engines.remote import Remote
from galafed.sites.extras import require

if TYPE_CHECKING:
    from galafed.engines.remote import Transport
    from galafed.flare.runtime import Coordinator


@engines.register("nvflare")
class NVFlare(Remote):
    """Without a federation, a temporary one is made on this machine; the run stays in this process."""

    name: ClassVar[str]
    summary: ClassVar[str] = "preview: real sites on NVIDIA FLARE, with certificates (--federation); galafed[nvflare]"

    def connect(self) -> Transport:
        """FLARE is started when the first question is sent."""
        require("nvflare")
        from galafed.flare.transport import FlareRelay

        relay = FlareRelay(self._coordinator)
        relay.open()
        return relay

    def _coordinator(self) -> Coordinator:
        from galafed.flare.kits import FlareFolder
        from galafed.flare.runtime import Coordinator, Temporary

        config = self.config
        if not config.federation:
            return Temporary(config.sources, config.target, self.notice)
        federation = FlareFolder.read(Path(config.federation))
        needed = (*config.sources, config.target)
        federation.require(needed)
        return Coordinator(federation, needed, self.notice)
