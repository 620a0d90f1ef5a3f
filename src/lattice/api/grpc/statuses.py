"""Errors on gRPC: the status, and the error object of the API beside it.

The error travels in the trailing metadata twice: as `lattice-error-bin`, a message `ErrorView`, and as `grpc-status-details-bin`, where
clients of the rich error model look for it.
"""

from google.protobuf.any_pb2 import Any as AnyMessage
from grpc import StatusCode

from lattice.api.errors import ApiError, ErrorView
from lattice.api.grpc.convert import record_writer
from lattice.wire.pb import errors_pb2 as pb

ERROR = "lattice-error-bin"
DETAILS = "grpc-status-details-bin"
REQUEST_ID = "x-request-id"
RETRY_MS = "grpc-retry-pushback-ms"

STATUS = {
    "invalid": StatusCode.INVALID_ARGUMENT,
    "unauthenticated": StatusCode.UNAUTHENTICATED,
    "forbidden": StatusCode.PERMISSION_DENIED,
    "not_found": StatusCode.NOT_FOUND,
    "method_not_allowed": StatusCode.UNIMPLEMENTED,
    "conflict": StatusCode.FAILED_PRECONDITION,
    "already_exists": StatusCode.ALREADY_EXISTS,
    "stale": StatusCode.ABORTED,
    "too_large": StatusCode.INVALID_ARGUMENT,
    "unsupported_version": StatusCode.FAILED_PRECONDITION,
    "too_many": StatusCode.RESOURCE_EXHAUSTED,
    "quota": StatusCode.RESOURCE_EXHAUSTED,
    "policy": StatusCode.FAILED_PRECONDITION,
    "infeasible": StatusCode.FAILED_PRECONDITION,
    "internal": StatusCode.INTERNAL,
    "unavailable": StatusCode.UNAVAILABLE,
    "storage_full": StatusCode.UNAVAILABLE,
}


def status_of(error: ApiError) -> StatusCode:
    return STATUS.get(error.code, StatusCode.UNKNOWN)


def trailers(error: ApiError, request_id: str) -> tuple[tuple[str, str | bytes], ...]:
    """The trailing metadata of a refusal."""
    view = record_writer(ErrorView)(error.view)
    detail = AnyMessage()
    detail.Pack(view)
    rich = pb.RichStatus(code=status_of(error).value[0], message=error.view.message, details=[detail])
    told: tuple[tuple[str, str | bytes], ...] = (
        (ERROR, view.SerializeToString()),
        (DETAILS, rich.SerializeToString()),
        (REQUEST_ID, request_id),
    )
    return (*told, (RETRY_MS, f"{error.retry_after_s * 1000}")) if error.retry_after_s else told
