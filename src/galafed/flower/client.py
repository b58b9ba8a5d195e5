"""The client app: hands each message to the resident worker of its node. Started each time, it imports no torch."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from galafed.flower.place import place_of
from galafed.flower.records import pack, unpack
from galafed.flower.resident import ask

app = ClientApp()


@app.train("ask")
def answer(message: Message, context: Context) -> Message:
    """Answer one question."""
    node, site = place_of(message.metadata.group_id, context)
    return Message(pack(ask(node, site, unpack(message.content))), reply_to=message)
