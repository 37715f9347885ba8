//! Starts a new project: asks the user about it, chooses a framework and makes the first commit.

use std::fs;
use std::io::Read;
use std::path::Path;

use mahabharatha_core::charter::{
    Answers, Framework, Language, MAX_ANSWER, Names, ProjectCharter, QUESTIONS, Recommendation, recommend,
};
use mahabharatha_sys::bounded;
use mahabharatha_sys::crash;
use mahabharatha_sys::error::{Error, Kind, Result, io};
use mahabharatha_sys::git::{self, FirstCommit, Identity};
use mahabharatha_sys::store::file_set::JOURNAL_DIR_PREFIX;
use mahabharatha_sys::ui::{NoAnswer, Style, Ui, one_line};

use super::Request;
use super::place::NewFile;
use super::scaffold;

pub const PATH: &str = ".gsd/PROJECT.md";
/// Maximum length of the answers file in bytes: far more than all answers together.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// The author of the first commit. Looked up before anything else, because without it there is no first commit.
pub struct Founder {
    by: Identity,
    branch: String,
}

impl Founder {
    pub fn find(root: &Path) -> Result<Founder> {
        let settings = git::user_settings(root)?;
        let by = settings.known_identity().ok_or_else(|| {
            Error::new(Kind::Preflight, "git has no user name and email, so the first commit cannot be made")
                .hint("git config --global user.name \"Your Name\" && git config --global user.email you@example.com")
        })?;
        Ok(Founder { by, branch: settings.default_branch().unwrap_or("main").to_owned() })
    }

    /// Creates the repository with its first commit in one step: it appears complete or not at all.
    pub fn commit(&self, root: &Path, charter: &ProjectCharter, paths: &[String]) -> Result<()> {
        let message = format!("Begin {} with {}", charter.names.title(), charter.framework.title());
        let staging = tempfile::Builder::new().prefix(JOURNAL_DIR_PREFIX).tempdir_in(root);
        let staging = staging.map_err(io("create a directory in", root))?;
        let (made, git_dir) = (staging.path().join("git"), root.join(".git"));
        let first = FirstCommit { branch: &self.branch, message: &message, by: &self.by, paths: Some(paths) };
        git::init(root, &made, &first)?;
        crash::point(|| "init commit");
        fs::rename(&made, &git_dir).map_err(io("write", &git_dir))?;
        crash::point(|| "init done");
        Ok(())
    }
}

/// Returns the charter and the files of the scaffold.
pub fn files(root: &Path, charter: &ProjectCharter) -> Vec<NewFile> {
    let scaffold = scaffold::files(charter.framework, &charter.names);
    let charter = NewFile::ours(PATH, charter.markdown());
    let existing = read_ignored(root);
    let place = |file: scaffold::File| match &existing {
        Some(existing) if file.path == IGNORED => NewFile::merged(IGNORED, with_missing_lines(existing, &file.text)),
        _ => NewFile::ours(file.path, file.text),
    };
    scaffold.into_iter().map(place).chain([charter]).collect()
}

const IGNORED: &str = ".gitignore";

/// Reads the user's own file, if it is a regular file.
fn read_ignored(root: &Path) -> Option<String> {
    let path = root.join(IGNORED);
    let is_plain = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    is_plain.then(|| bounded::read_to_string(&path, MAX_FILE_BYTES).ok())?
}

/// Appends the scaffold's lines that are missing. Without them, `git add -A` would add the output of the project's
/// tools.
fn with_missing_lines(existing: &str, ours: &str) -> String {
    let has = |wanted: &str| existing.lines().any(|line| line.trim_end() == wanted);
    let missing: Vec<&str> =
        ours.lines().filter(|line| !line.is_empty() && !line.starts_with('#') && !has(line)).collect();
    match (missing.is_empty(), existing.trim_end().is_empty()) {
        (true, _) => existing.to_owned(),
        (false, true) => ours.to_owned(),
        (false, false) => format!("{}\n\n{}\n", existing.trim_end(), missing.join("\n")),
    }
}

/// Decides every question by the flags, then by the answers file, then by asking the user, else by the default.
pub fn decide(root: &Path, ui: &Ui, request: &Request) -> Result<ProjectCharter> {
    let answers = match &request.answers {
        Some(file) => read_answers(file)?,
        None => Answers::default(),
    };
    let language = request.language.clone().or(answers.language);
    let language = language.map(|word| parse("--language", &word, Language::parse)).transpose()?;
    let framework = request.framework.clone().or(answers.framework);
    let framework = framework.map(|word| chosen_framework(language, &word)).transpose()?;
    let talk = Talk { ui, asks: ui.can_ask() && !ui.yes() };

    let names =
        names(root, &talk, request.name.clone().or(answers.name), request.description.clone().or(answers.description))?;
    let mut said: [String; QUESTIONS.len()] = Default::default();
    for ((question, given), answer) in QUESTIONS.iter().zip(answers.questions).zip(&mut said) {
        *answer = match given {
            Some(given) => given,
            None => talk.ask(question.text, question.default, "--answers FILE", short_enough)?,
        };
    }
    let (framework, reasons) = technology(&talk, &names, &said, language, framework)?;
    names.check_for(framework).map_err(|problem| invalid("--name", names.title(), &problem))?;
    Ok(ProjectCharter { names, answers: said, framework, reasons })
}

fn names(root: &Path, talk: &Talk<'_>, name: Option<String>, description: Option<String>) -> Result<Names> {
    let sample = "A new project";
    let suggested = root.file_name().and_then(|name| Names::suggest(&name.to_string_lossy()));
    let name = match (name, suggested) {
        (Some(name), _) => name,
        (None, Some(suggested)) => {
            talk.ask("What is the project called?", &suggested, "--name", |name| Names::new(name, sample).map(drop))?
        }
        (None, None) => {
            return Err(invalid(
                "--name",
                &root.display().to_string(),
                "the directory's name cannot be used as a project name",
            ));
        }
    };
    Names::new(&name, sample).map_err(|problem| invalid("--name", &name, &problem))?;
    let description = match description {
        Some(description) => description,
        None => {
            talk.ask("What is it, in one sentence?", sample, "--description", |text| Names::new(&name, text).map(drop))?
        }
    };
    Names::new(&name, &description).map_err(|problem| invalid("--description", &description, &problem))
}

fn technology(
    talk: &Talk<'_>,
    names: &Names,
    said: &[String],
    language: Option<Language>,
    framework: Option<Framework>,
) -> Result<(Framework, Vec<String>)> {
    if let Some(framework) = framework {
        return Ok((framework, vec!["The user asked for it.".to_owned()]));
    }
    let texts = || [names.title(), names.description()].into_iter().chain(own_words(said));
    let Recommendation { framework, reasons } = recommend(texts(), language);
    if language.is_none() && !talk.asks && !talk.ui.yes() {
        let question = format!("Which language? {} is recommended", framework.language().title());
        return Err(unanswered(NoAnswer {
            question,
            flag: "--language, or accept it with --yes".to_owned(),
            ended: false,
        }));
    }
    for reason in reasons.iter().filter(|_| talk.asks) {
        talk.ui.tell(Style::Dim, &format!("  {reason}"));
    }
    let chosen = match language {
        Some(language) => language,
        None => {
            let check = |word: &str| Language::parse(word).map(drop);
            let question =
                format!("Which language ({})?", listed(Language::ALL.iter().map(|language| language.word())));
            let word = talk.ask(&question, framework.language().word(), "--language", check)?;
            parse("--language", &word, Language::parse)?
        }
    };
    let recommended = if chosen == framework.language() {
        Recommendation { framework, reasons }
    } else {
        recommend(texts(), Some(chosen))
    };
    let check = |word: &str| Framework::parse_in(chosen, word).map(drop);
    let question = format!("Which framework ({})?", listed(chosen.frameworks().map(Framework::word)));
    let word = talk.ask(&question, recommended.framework.word(), "--framework", check)?;
    let framework = parse("--framework", &word, |word| Framework::parse_in(chosen, word))?;
    let mut reasons = recommended.reasons;
    if framework != recommended.framework {
        reasons = vec!["The user asked for it.".to_owned()];
    } else if language.is_some() || chosen != recommended.framework.language() {
        reasons.insert(0, format!("the user asked for {}", chosen.title()));
    }
    Ok((framework, reasons))
}

fn listed(words: impl Iterator<Item = &'static str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the answers that are not the default, since defaults say nothing about this project.
fn own_words(said: &[String]) -> impl Iterator<Item = &str> {
    let own = said.iter().zip(&QUESTIONS).filter(|(answer, question)| answer.as_str() != question.default);
    own.map(|(answer, _)| answer.as_str())
}

fn chosen_framework(language: Option<Language>, word: &str) -> Result<Framework> {
    parse("--framework", word, |word| match language {
        Some(language) => Framework::parse_in(language, word),
        None => Framework::parse(word),
    })
}

fn parse<T>(flag: &str, word: &str, parse: impl Fn(&str) -> std::result::Result<T, String>) -> Result<T> {
    parse(word).map_err(|problem| invalid(flag, word, &problem))
}

fn short_enough(answer: &str) -> std::result::Result<(), String> {
    let length = answer.chars().count();
    if length > MAX_ANSWER { Err(format!("it has {length} characters; the maximum is {MAX_ANSWER}")) } else { Ok(()) }
}

fn invalid(flag: &str, value: &str, problem: &str) -> Error {
    let value: String = value.chars().take(60).collect();
    Error::new(Kind::Usage, format!("{flag} {value:?}: {problem}"))
        .hint("Nothing was written; correct the flag, or the file passed with --answers.")
}

fn unanswered(no_answer: NoAnswer) -> Error {
    Error::new(Kind::Usage, no_answer.to_string()).hint("Nothing was written.")
}

struct Talk<'a> {
    ui: &'a Ui,
    /// The user is at a terminal and has not passed --yes.
    asks: bool,
}

impl Talk<'_> {
    /// Returns the default if the user is not asked or presses Enter. Asks again while the answer fails the check.
    fn ask(
        &self,
        question: &str,
        default: &str,
        flag: &str,
        check: impl Fn(&str) -> std::result::Result<(), String>,
    ) -> Result<String> {
        if !self.asks {
            return Ok(default.to_owned());
        }
        loop {
            let answer = self.ui.ask_text(&format!("{question} [{default}]"), flag).map_err(unanswered)?;
            let answer = one_line(&answer);
            if answer.is_empty() {
                return Ok(default.to_owned());
            }
            match check(&answer) {
                Ok(()) => return Ok(answer),
                Err(problem) => self.ui.warn(&problem),
            }
        }
    }
}

fn read_answers(file: &Path) -> Result<Answers> {
    let mut bytes = Vec::new();
    let opened = bounded::open(file).map_err(io("read", file))?;
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io("read", file))?;
    let wrong = |what: &str| Error::new(Kind::Invalid, format!("{}: {what}", file.display()));
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(wrong(&format!("longer than {} KiB", MAX_FILE_BYTES >> 10)));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("not UTF-8 text"))?;
    if text.trim().is_empty() {
        return Err(wrong("empty file").hint("Write lines like `key: value`, or leave out --answers."));
    }
    Answers::parse(&text).map_err(|problems| {
        let error = wrong(&format!("{} of the answers are invalid", problems.len()));
        problems.iter().fold(error, |error, problem| error.detail(problem.to_string()))
    })
}
