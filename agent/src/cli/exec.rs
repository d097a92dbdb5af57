//! `contador-agent exec`: labels a process tree by its environment, and becomes its first process.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use clap::Args;
use contador_schemas::names::LABEL_VARIABLE_PREFIX;

use crate::owners::label;
use crate::owners::labels::variable;

#[derive(Args, Debug)]
pub(super) struct ExecArgs {
    /// Experiment that the command is part of.
    #[arg(long, value_parser = label::given)]
    experiment: String,
    /// Project that it belongs to.
    #[arg(long, value_parser = label::given)]
    project: String,
    /// Department that pays.
    #[arg(long, value_parser = label::given)]
    department: String,
    /// User that runs it; without this, whoever does.
    #[arg(long, value_parser = label::given)]
    user: Option<String>,
    /// Deployment environment, such as production.
    #[arg(long, value_parser = label::given)]
    environment: Option<String>,
    /// Service that it serves.
    #[arg(long, value_parser = label::given)]
    service: Option<String>,
    /// Batch job.
    #[arg(long, value_parser = label::given)]
    job: Option<String>,
    /// Machine-learning model.
    #[arg(long, value_parser = label::given)]
    model: Option<String>,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Becomes the command. Returns only when that fails: 127 when there is no such command, 126 when it can't be run.
pub(super) fn main(args: ExecArgs) -> ExitCode {
    let Some((program, arguments)) = args.command.split_first() else { return ExitCode::from(2) };
    let mut command = Command::new(program);
    command.args(arguments);
    // Labels of an outer exec would mix with these.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with(LABEL_VARIABLE_PREFIX)) {
            command.env_remove(name);
        }
    }
    for (field, value) in [
        ("experiment", Some(&args.experiment)),
        ("project", Some(&args.project)),
        ("department", Some(&args.department)),
        ("user", args.user.as_ref()),
        ("environment", args.environment.as_ref()),
        ("service", args.service.as_ref()),
        ("job", args.job.as_ref()),
        ("model", args.model.as_ref()),
    ] {
        if let Some(value) = value {
            command.env(variable(field), value);
        }
    }
    let error = command.exec();
    eprintln!("contador-agent: cannot run {}: {error}", program.display());
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}
