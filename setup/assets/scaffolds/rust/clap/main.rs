mod cli;
mod greeting;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use cli::Cli;

fn main() {
    match Cli::parse().run() {
        Ok(text) => println!("{text}"),
        Err(error) => Cli::command()
            .error(ErrorKind::ValueValidation, error)
            .exit(),
    }
}
