"""Errors a user may see: each says what happened and what to do, and carries the exit code of the command."""

from __future__ import annotations


class GalafedError(Exception):
    """An expected failure: shown as one message, without a traceback."""

    exit_code = 1


class ConfigError(GalafedError):
    """Bad usage or configuration; the message names the key and what is accepted."""

    exit_code = 2


class DataError(GalafedError):
    """Bad data; the message names the file and the remedy."""

    exit_code = 3


class CheckpointError(GalafedError):
    """No valid checkpoint to go on from."""

    exit_code = 4


class QuorumError(GalafedError):
    """Too few clients answered; the round was undone and the run can be resumed."""

    exit_code = 5


class SaveError(GalafedError):
    """Something could not be written (disk full, no permission); what was saved before is intact."""

    exit_code = 1
