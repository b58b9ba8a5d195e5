"""The model card of an export: what the model is for, what it was made from, how good it is, and what it cannot do."""

from __future__ import annotations

from galafed.report.words import percent, with_note
from galafed.trained.loading import Trained


def model_card(trained: Trained, use: str) -> str:
    """A page of Markdown."""
    run = trained.summary
    notes = run.get("notes", {})
    accuracy = run["accuracy"]
    sources = ", ".join(with_note(name, notes.get(name, "")) for name in run["sources"])
    relevance = sorted(run.get("relevance", {}).items(), key=lambda item: -item[1])
    weights = [f"| {with_note(name, notes.get(name, ''))} | {weight:.3f} |" for name, weight in relevance]
    size = trained.image_size
    return "\n".join(
        [
            "---",
            "library_name: galafed",
            "pipeline_tag: image-classification",
            f"tags: [domain-adaptation, federated-learning, {run['algorithm']}]",
            "---",
            "",
            f"# {run['algorithm']} for {with_note(run['target'], notes.get(run['target'], ''))}",
            "",
            f"An image classifier ({run['network']}) for the domain **{run['target']}** of the benchmark "
            f"`{run['benchmark']}`, for which no labels were used. The labels came from: {sources}.",
            "",
            f"Classes: {', '.join(trained.classes)}.",
            "",
            "## How good it is",
            "",
            f"- Test accuracy on the target after the last of {run['rounds']} rounds, which is this model: "
            f"**{percent(accuracy['last'])}**.",
            f"- The best round had {percent(accuracy['best_oracle'])}; to choose it, test labels are needed (oracle).",
            "",
            *(
                ["Relevance of each source in the last round:", "", "| source | relevance |", "|---|---|", *weights, ""]
                if weights
                else []
            ),
            "## How to use it",
            "",
            f"Pictures are RGB, whole numbers 0 to 255 of shape [n, {size}, {size}, 3]; the normalisation is inside.",
            "Out come the probabilities of the classes [n, classes]"
            + (
                " and a distance [n] from the target's images: above 1 a picture is farther from every class centroid "
                "than about 99 % of them, so unlike anything seen, and its prediction should not be relied on."
                if trained.classifier.knows_target
                else "."
            ),
            "",
            "```python",
            use.replace("SIZE", str(size)),
            "```",
            "",
            "## What it cannot do",
            "",
            f"It knows {len(trained.classes)} classes and names one of them whatever it is shown. It was adapted to "
            "one domain: on images from elsewhere the accuracy above is not to be expected.",
            "",
            "## Where it comes from",
            "",
            f"Algorithm `{run['algorithm']}`, seed {run['seed']}; configuration {run['config_hash'][:16]}; "
            f"parameters (sha256) {run['digest']}.",
            "",
        ]
    )
