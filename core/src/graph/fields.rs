//! Fields that nothing reads: kept in the file, but a typing error in one would go unnoticed.

use serde_json::{Map, Value};

use super::Severity::Warning;
use super::report::{Report, shown};
use crate::names::nearest;
use crate::spec::{FileLists, GraphFile, TaskSpec, Verification};

const CODE: &str = "unknown_field";
/// Read by editors, which complete the file by it.
const SCHEMA: &str = "$schema";

pub(super) fn check(report: &mut Report, file: &GraphFile) {
    let mut extra = file.extra.clone();
    extra.shift_remove(SCHEMA);
    for message in unknown("", &extra, &GraphFile::FIELDS) {
        report.whole(Warning, CODE, message);
    }
    for (index, task) in file.tasks.iter().enumerate() {
        let TaskSpec { extra, files, verification, .. } = &**task;
        let found = unknown("", extra, &TaskSpec::FIELDS);
        let found = found.into_iter().chain(unknown("files.", &files.extra, &FileLists::FIELDS));
        for message in found.chain(unknown("verification.", &verification.extra, &Verification::FIELDS)) {
            report.task(Warning, CODE, index, message);
        }
    }
}

fn unknown(place: &str, extra: &Map<String, Value>, known: &[&str]) -> Vec<String> {
    let message = |name: &String| {
        let meant = match nearest(name, known) {
            Some(known) => format!("did you mean `{place}{known}`?"),
            None => format!("known here are {}", known.join(", ")),
        };
        format!("unknown field {}, which nothing reads; {meant}", shown(&format!("{place}{name}")))
    };
    extra.keys().map(message).collect()
}
