//! The command line.

use clap::{Args, Parser, Subcommand};

use crate::greeting::{InvalidName, greet};

#[derive(Debug, Parser)]
#[command(version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Greet somebody by name
    Greet(GreetArgs),
}

#[derive(Debug, Args)]
struct GreetArgs {
    /// Who is greeted
    name: String,
    /// In capital letters
    #[arg(long)]
    shout: bool,
}

impl Cli {
    /// What the command prints.
    ///
    /// # Errors
    ///
    /// If somebody cannot be greeted by the given name.
    pub fn run(&self) -> Result<String, InvalidName> {
        match &self.command {
            Command::Greet(GreetArgs { name, shout }) => {
                let greeting = greet(name)?;
                Ok(if *shout {
                    greeting.to_uppercase()
                } else {
                    greeting
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
