use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["worker", "--job-dir", dir] => ExitCode::from(mahabharatha::worker::run_job(Path::new(dir)) as u8),
        _ => ExitCode::from(2),
    }
}
