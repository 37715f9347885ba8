//! `mcp`: serves a client of the Model Context Protocol on standard input and output, until it disconnects.

use clap::Args;
use mahabharatha_sys::error::Result;

use super::Global;
use super::exit::{ExitCode, error_json, kind_of};
use crate::mcp::{Errors, Options, serve};

#[derive(Debug, Args)]
#[command(after_help = super::examples::MCP)]
pub struct McpArgs {}

pub fn run(global: &Global, McpArgs {}: &McpArgs) -> Result<ExitCode> {
    let (directory, feature) = (global.directory.clone(), global.feature.clone());
    let errors = Errors { json: error_json, kind_of };
    let options = Options { directory, feature, version: env!("CARGO_PKG_VERSION"), errors };
    Ok(if serve(options)? { ExitCode::Stopped } else { ExitCode::Done })
}
