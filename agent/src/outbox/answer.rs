//! What a collector's answer means for what was sent
//! (<https://opentelemetry.io/docs/specs/otlp/#failures>), with one difference: what says that the *connection* is wrong
//! (no such service, not allowed) is tried again, since no other record would fare better, and people can mend it.

use std::error::Error as _;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// What an answer means.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It is stored, but for so many points; with what the collector says of them.
    Accepted {
        /// Points that the collector refused.
        rejected_points: u64,
        /// Its reason.
        message: String,
    },
    /// Try again.
    Later {
        /// No sooner than this, if the collector said so.
        after: Option<Duration>,
        /// Whose fault it seems to be.
        cause: Cause,
        /// For people.
        reason: String,
    },
    /// It never will be taken.
    Refused(String),
}

/// Why to try again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// The collector was not reached, or broke off.
    Connection,
    /// The collector says that it can't now.
    Overload,
    /// The collector failed in a way that may be this record's fault.
    Suspect,
    /// The collector does not take this compression.
    Compression,
}

/// The meaning of an answer.
pub fn of(result: Result<ExportMetricsServiceResponse, Status>) -> Answer {
    let status = match result {
        Ok(response) => {
            let partial = response.partial_success.unwrap_or_default();
            let rejected_points = u64::try_from(partial.rejected_data_points).unwrap_or(0);
            return Answer::Accepted { rejected_points, message: partial.error_message };
        }
        Err(status) => status,
    };
    let after = status.get_details_retry_info().and_then(|info| info.retry_delay);
    let reason = describe(&status);
    // A status with a source was made on this side: no answer came.
    if status.source().is_some() {
        return Answer::Later { after, cause: Cause::Connection, reason };
    }
    let cause = match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::AlreadyExists => return Answer::Refused(reason),
        Code::ResourceExhausted if after.is_none() => return Answer::Refused(reason),
        Code::Unimplemented if status.message().contains("ompress") => Cause::Compression,
        Code::Internal | Code::Unknown => Cause::Suspect,
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted => Cause::Overload,
        _ => Cause::Connection,
    };
    Answer::Later { after, cause, reason }
}

/// A status with its whole chain of sources.
fn describe(status: &Status) -> String {
    let mut text = format!("{:?}: {}", status.code(), status.message());
    let mut source = status.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsPartialSuccess;
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn exhaustion_is_final_unless_a_delay_is_given() {
        let message = "too large";
        assert!(matches!(of(Err(Status::resource_exhausted(message))), Answer::Refused(_)));
        let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(7)));
        let overload = Status::with_error_details(Code::ResourceExhausted, "busy", details);
        let Answer::Later { after, cause, .. } = of(Err(overload)) else { panic!("overload is not final") };
        assert_eq!((after, cause), (Some(Duration::from_secs(7)), Cause::Overload));
    }

    #[test]
    fn refused_points_are_counted() {
        let partial = ExportMetricsPartialSuccess { rejected_data_points: 3, error_message: "odd".into() };
        let response = ExportMetricsServiceResponse { partial_success: Some(partial) };
        assert_eq!(of(Ok(response)), Answer::Accepted { rejected_points: 3, message: "odd".into() });
    }

    #[test]
    fn a_wrong_connection_is_no_fault_of_the_record() {
        for code in [Code::Unauthenticated, Code::PermissionDenied, Code::Unimplemented, Code::NotFound] {
            assert!(matches!(of(Err(Status::new(code, "no"))), Answer::Later { cause: Cause::Connection, .. }));
        }
        assert!(matches!(of(Err(Status::invalid_argument("no"))), Answer::Refused(_)));
        assert!(matches!(of(Err(Status::internal("oh"))), Answer::Later { cause: Cause::Suspect, .. }));
    }
}
