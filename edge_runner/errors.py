"""Every error the project raises on purpose, and the exit code each one means.

    EdgeRunnerError
    ├── UsageError             2    a command typed wrongly
    │   └── ConfigError        2    a configuration that cannot be run
    ├── UnavailableError       3    a device, runtime or optional package is not there
    ├── AssetError             4    a model or data set is missing, corrupt or refused
    │   ├── ModelFileError     4
    │   ├── DataError          4
    │   └── DownloadError      4
    ├── EngineError            5    an engine could not carry out a request; the turn fails
    │   ├── ContextOverflowError    prompt and answer do not fit the context
    │   ├── TurnTimeoutError        the turn's deadline passed
    │   ├── EngineClosedError       used after close
    │   └── EngineUnresponsiveError the engine never came back: the run cannot go on
    ├── RunFailedError         5    turns failed or were never issued, the worker died, or INVALID
    ├── GateError              6    a check or gate was not met
    └── CancelledError       130    somebody asked to stop

A message is one line: what is wrong, where, and what to do about it.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_INTERRUPTED = 130


class EdgeRunnerError(Exception):
    """Base of all errors raised on purpose. `exit_code` is what the command ends with."""

    exit_code = 1


class UsageError(EdgeRunnerError):
    exit_code = 2


class ConfigError(UsageError):
    """The configuration is wrong: unknown key, wrong type, contradictory values."""


class UnavailableError(EdgeRunnerError):
    """A device, runtime or optional package is not available on this machine."""

    exit_code = 3


class AssetError(EdgeRunnerError):
    """A model or data set is missing, corrupt, or refused."""

    exit_code = 4


class ModelFileError(AssetError):
    """A model file cannot be used: truncated, not a model, unknown architecture, wrong hash."""


class DataError(AssetError):
    """A data file has a bad row; the message names file and line."""


class DownloadError(AssetError):
    """No source could deliver the file; the message says what each source answered."""


class EngineError(EdgeRunnerError):
    """An engine could not carry out one request. The turn counts as failed."""

    exit_code = 5


class ContextOverflowError(EngineError):
    """Prompt plus requested output do not fit the effective context."""


class TurnTimeoutError(EngineError):
    """The request's deadline passed before it completed."""


class EngineClosedError(EngineError):
    """The engine or sequence was used after close()."""


class EngineUnresponsiveError(EngineError):
    """The engine did not return after a cancelled request; it cannot be used any more."""


class RunFailedError(EdgeRunnerError):
    """The run ended without a result that can be trusted."""

    exit_code = 5


class GateError(EdgeRunnerError):
    """A check or gate was not met."""

    exit_code = 6


class CancelledError(EdgeRunnerError):
    """A request or run was stopped on purpose."""

    exit_code = EXIT_INTERRUPTED
