//! Takes secrets out of what an attempt's programs printed, before anything is kept of it: results go into the journal, from
//! there into reports, notices and prompts.

use mahabharatha_core::run::event::{JobEnd, JobReport};
use mahabharatha_core::secrets::Redactor;
use mahabharatha_sys::proc::Ended;

/// Returns what an agent printed, without secrets.
pub fn ended(redactor: &Redactor, ended: Ended) -> Ended {
    let redacted = |bytes: &[u8]| redactor.redacted(&String::from_utf8_lossy(bytes)).into_bytes();
    Ended { stdout: redacted(&ended.stdout), stderr: redacted(&ended.stderr), ..ended }
}

/// Returns the report without secrets. Names of files may contain them, too.
pub fn report(redactor: &Redactor, mut report: JobReport) -> JobReport {
    let redact = |text: &mut String| *text = redactor.redacted(text);
    match &mut report.end {
        JobEnd::Failed { feedback, strays, .. } => {
            redact(feedback);
            strays.iter_mut().for_each(redact);
        }
        JobEnd::Checkpoint { note: text }
        | JobEnd::Blocked { reason: text }
        | JobEnd::Escalated { reason: text }
        | JobEnd::Unserved { why: text, .. } => redact(text),
        JobEnd::SetupFailed { failure } => failure.texts_mut().into_iter().for_each(redact),
        JobEnd::Done { .. } | JobEnd::Died { .. } | JobEnd::Cancelled => {}
    }
    let texts = report.warnings.iter_mut().chain(&mut report.hint).chain(&mut report.decisions);
    texts.for_each(redact);
    report.secrets.iter_mut().for_each(|finding| redact(&mut finding.path));
    report
}
