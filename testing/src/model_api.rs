//! A model API on loopback that answers by a script, in the dialect of whichever coding agent asks.
//!
//! A script says what the model does in each turn, whoever asks: the API calls the tools that the agent offers.

mod answer;
mod ask;
mod tools;

use std::sync::{Arc, Mutex};

pub use ask::{Ask, Dialect};

use crate::loopback::{self, Response};
pub use crate::messages_api::Usage;

/// What the model does in one turn.
#[derive(Debug, Clone)]
pub enum Turn {
    Acts {
        acts: Vec<Act>,
        usage: Usage,
    },
    /// The request is refused.
    Fails {
        status: u16,
        /// Seconds after which the client may ask again.
        retry_after: Option<u64>,
    },
    /// The connection breaks in the middle of an answer.
    Cut,
    /// No answer comes, until the client closes the connection.
    Hangs,
}

#[derive(Debug, Clone)]
pub enum Act {
    Says(String),
    Writes { path: String, content: String },
    Runs(String),
}

impl Turn {
    pub fn says(text: &str) -> Turn {
        Turn::of(Act::Says(text.to_owned()))
    }

    /// Writes a file by the tool that the agent has for it, else in a shell.
    pub fn writes(path: &str, content: &str) -> Turn {
        Turn::of(Act::Writes { path: path.to_owned(), content: content.to_owned() })
    }

    /// Runs a command by the agent's shell tool.
    pub fn runs(command: &str) -> Turn {
        Turn::of(Act::Runs(command.to_owned()))
    }

    pub fn fails(status: u16) -> Turn {
        Turn::Fails { status, retry_after: None }
    }

    /// Does this as well, in the same turn.
    pub fn and(self, other: Turn) -> Turn {
        match (self, other) {
            (Turn::Acts { acts, usage }, Turn::Acts { acts: more, .. }) => {
                Turn::Acts { acts: [acts, more].concat(), usage }
            }
            (turn, _) => turn,
        }
    }

    /// With this usage.
    pub fn using(self, usage: Usage) -> Turn {
        match self {
            Turn::Acts { acts, .. } => Turn::Acts { acts, usage },
            other => other,
        }
    }

    fn of(act: Act) -> Turn {
        Turn::Acts { acts: vec![act], usage: Usage::default() }
    }
}

pub struct Api {
    port: u16,
    asked: Arc<Mutex<Vec<Ask>>>,
    served: Arc<Mutex<Vec<(Ask, Usage)>>>,
}

impl Api {
    /// Listens until the test process ends. The script may block; every connection has its own thread.
    pub fn start(script: impl Fn(&Ask) -> Turn + Send + Sync + 'static) -> Api {
        let (asked, served) = (Arc::<Mutex<Vec<Ask>>>::default(), Arc::<Mutex<Vec<(Ask, Usage)>>>::default());
        let (asks, serves) = (Arc::clone(&asked), Arc::clone(&served));
        let port = loopback::listen(move |request| {
            let Some(mut ask) = Ask::read(request) else { return ask::not_asked(request) };
            {
                let mut asks = asks.lock().unwrap();
                ask.tries = asks.iter().filter(|earlier| earlier.is_repeated_by(&ask)).count();
                asks.push(ask.clone());
            }
            let turn = script(&ask);
            if let Turn::Acts { usage, .. } = &turn {
                serves.lock().unwrap().push((ask.clone(), *usage));
            }
            respond(&ask, turn)
        });
        Api { port, asked, served }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn asked(&self) -> Vec<Ask> {
        self.asked.lock().unwrap().clone()
    }

    /// The requests about a task.
    pub fn asked_about(&self, task: &str) -> Vec<Ask> {
        self.asked().into_iter().filter(|ask| ask.task() == task).collect()
    }

    /// The requests that were answered whole, with what each answer used up.
    pub fn served(&self) -> Vec<(Ask, Usage)> {
        self.served.lock().unwrap().clone()
    }
}

fn respond(ask: &Ask, turn: Turn) -> Response {
    match turn {
        Turn::Acts { acts, usage } => {
            let (text, calls) = tools::calls(&acts, ask);
            answer::Answer { text, calls, usage }.response(ask)
        }
        Turn::Fails { status, retry_after } => {
            let headers = retry_after.map(|seconds| ("retry-after", seconds.to_string())).into_iter().collect();
            let body = answer::error(ask.dialect, status).to_string();
            Response::Whole { status, kind: "application/json", headers, body }
        }
        Turn::Cut => {
            let text = "only half of this answer is sent ".repeat(8);
            let whole = answer::Answer { text, calls: Vec::new(), usage: Usage::default() };
            Response::Half(whole.stream(ask))
        }
        Turn::Hangs => Response::Never,
    }
}
