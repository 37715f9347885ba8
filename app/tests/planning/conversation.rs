//! `plan` with a person at a terminal.

use crate::plan::DOCUMENT;
use crate::support::Repo;
use crate::terminal::Terminal;

/// What the terminal showed, with what differs from test to test taken out.
fn screen(repo: &Repo, shown: &str) -> String {
    let shown = shown.replace("\x1b[?2004h", "").replace("\x1b[?2004l", "");
    shown.replace('\r', "").replace(&repo.path().display().to_string(), "<repository>")
}

fn at_a_terminal(repo: &Repo, command: &str) -> Terminal {
    Terminal::open(repo, command, &[("NO_COLOR", "1")])
}

#[test]
fn the_interview_asks_one_thing_after_the_other() {
    let repo = Repo::new();
    let mut person = at_a_terminal(&repo, "plan shop");
    for (question, answer) in [
        ("What problem does it solve", ""),
        ("What problem does it solve", "Nobody can buy anything."),
        ("Story 1: who can do what?", "A visitor can buy a book"),
        ("As a", "visitor"),
        ("I want", "to buy a book"),
        ("So that", "I can read it"),
        ("  - ", "it is fast"),
        ("  - ", "`shop buy 1` prints `sold`"),
        ("  - ", ""),
        ("Command that verifies it", "sh tests/shop.sh"),
        ("Story 2: who can do what?", ""),
        ("  - ", ""),
        ("  - ", "Payment"),
        ("  - ", ""),
        ("  - ", ""),
        // What is vague is told, and what was said before is offered again.
        ("Approve these requirements?", "what?"),
        ("Approve these requirements?", "c"),
        ("What problem does it solve", ""),
        ("Story 1: who can do what? [A visitor can buy a book]", ""),
        ("As a", ""),
        ("I want", ""),
        ("So that", ""),
        ("  - ", "`shop buy 1` prints `sold`"),
        ("  - ", ""),
        ("Command that verifies it", ""),
        ("Story 2: who can do what?", ""),
        ("  - ", ""),
        ("  - ", ""),
        ("  - ", ""),
        ("Approve these requirements?", "a"),
    ] {
        person.answer(&repo, question, answer);
    }
    let (code, shown) = person.end();
    assert_eq!(code, 0, "{shown}");
    insta::assert_snapshot!(screen(&repo, &shown));
    let document = repo.read(DOCUMENT);
    assert!(document.contains("- [ ] `shop buy 1` prints `sold`\n\n**Verification:**\n"), "{document}");
    assert!(document.contains("## Out of Scope\n- Payment\n"), "{document}");
    assert!(repo.exists(".gsd/specs/shop/approval.json") && !repo.exists(".gsd/specs/shop/requirements.1.md"));
}

#[test]
fn a_draft_is_left_and_approved_later() {
    let repo = Repo::new();
    repo.write(DOCUMENT, crate::plan::WHOLE);
    let mut person = at_a_terminal(&repo, "plan shop");
    person.answer(&repo, "Approve these requirements?", "dx\x1b[D\x1b[3~");
    let (code, shown) = person.end();
    assert!(code == 0 && shown.contains("is a draft"), "{shown}");
    assert!(!shown.contains("^[["), "cursor keys edit the answer: {shown:?}");
    // A form cannot be approved, and the question comes again.
    let mut person = at_a_terminal(&repo, "plan form --agent none");
    person.answer(&repo, "Approve these requirements?", "a");
    person.answer(&repo, "Approve these requirements?", "d");
    let (code, shown) = person.end();
    assert!(code == 0 && shown.contains("cannot be approved yet"), "{shown}");
    let (code, shown) = at_a_terminal(&repo, "plan shop --yes").end();
    assert!(code == 0 && shown.contains("is approved"), "{shown}");
}

#[test]
fn a_feature_that_is_being_planned_is_told_from_a_run() {
    let repo = Repo::new();
    repo.write(DOCUMENT, crate::plan::WHOLE);
    let mut person = at_a_terminal(&repo, "plan shop");
    person.wait_for(&repo, "Approve these requirements?");
    for command in ["plan shop", "design shop", "stop shop", "stop shop --force"] {
        let words: Vec<&str> = command.split(' ').collect();
        let told = repo.run(&words).code(8).says("shop is being planned in another terminal (process ").says("Ctrl-C");
        told.does_not_say("mahabharatha stop");
    }
    person.answer(&repo, "Approve these requirements?", "d");
    assert_eq!(person.end().0, 0);
    repo.run(&["stop", "shop"]).code(6).says("there has been no run of shop");
}

#[test]
fn an_interview_that_is_left_in_the_middle_is_continued() {
    let repo = Repo::new();
    for (keys, code) in [("\x04", 2), ("\x03", 130)] {
        let mut person = at_a_terminal(&repo, "plan shop");
        person.answer(&repo, "What problem does it solve", "None.");
        person.wait_for(&repo, "Story 1");
        person.press(keys);
        let (ended, shown) = person.end();
        assert_eq!(ended, code, "{shown}");
        assert!(code != 2 || shown.contains("got no answer"), "{shown}");
        assert!(shown.contains("nothing was written but a draft of your answers"), "{shown}");
        let terminal = shown.rsplit("\x1b[?2004").next().unwrap();
        assert!(terminal.starts_with('l'), "the terminal is left as it was: {shown:?}");
    }
    let mut person = at_a_terminal(&repo, "plan other");
    for _ in 0..3 {
        person.answer(&repo, "What problem does it solve", " ");
    }
    let (code, shown) = person.end();
    assert!(code == 2 && shown.contains("was not answered; nothing was written"), "{shown}");
    assert!(!repo.exists(".gsd"));

    let draft = ".git/mahabharatha/shop/interview.md";
    assert!(repo.read(draft).contains("None."));
    let mut person = at_a_terminal(&repo, "plan shop");
    for (question, answer) in [
        ("What problem does it solve, and for whom? [None.]", ""),
        ("Story 1", "A visitor can buy a book"),
        ("As a", "visitor"),
    ] {
        person.answer(&repo, question, answer);
    }
    person.wait_for(&repo, "I want");
    person.press("\x03");
    assert_eq!(person.end().0, 130);
    let mut person = at_a_terminal(&repo, "plan shop");
    person.answer(&repo, "What problem does it solve, and for whom? [None.]", "");
    person.answer(&repo, "Story 1: who can do what? [A visitor can buy a book]", "");
    person.answer(&repo, "As a … [visitor]", "");
    for _ in 0..2 {
        person.answer(&repo, "…", "");
    }
    person.answer(&repo, "  - ", "`shop buy 1` prints `sold`");
    person.answer(&repo, "  - ", "");
    person.answer(&repo, "Command that verifies it", "true");
    person.answer(&repo, "Story 2", "");
    for _ in 0..3 {
        person.answer(&repo, "  - ", "");
    }
    person.answer(&repo, "Approve these requirements?", "d");
    assert_eq!(person.end().0, 0);
    assert!(repo.read(DOCUMENT).contains("visitor"));
    assert!(!repo.exists(draft), "it is offered only as long as it is not finished");
}

/// What the terminal makes of a text from the clipboard.
fn pasted(text: &str) -> String {
    format!("\x1b[200~{text}\x1b[201~")
}

#[test]
fn what_is_pasted_answers_one_question_and_no_other() {
    let repo = Repo::new();
    let mut person = at_a_terminal(&repo, "plan shop");
    let problem = pasted("Nobody can buy anything.\n\nНикто: 没有人能买书。\na\n");
    let criteria = pasted("- [ ] `shop buy 1` prints `sold`\n\n* --all lists 3 books");
    for (question, answer) in [
        ("What problem does it solve", problem.as_str()),
        ("Story 1: who can do what?", &pasted("A visitor\ncan buy")),
        ("As a", "visitor"),
        ("I want", "to buy"),
        ("So that", "I can read"),
        ("  - ", &criteria),
        ("  - ", ""),
        ("Command that verifies it", "sh tests/shop.sh"),
    ] {
        person.answer(&repo, question, answer);
    }
    // A user who ends every list early still gets a draft.
    for question in ["Story 2: who can do what?", "business constraints", "Out of scope", "Dependencies", "Approve"] {
        person.wait_for(&repo, question);
        person.press("\x04");
    }
    let (code, shown) = person.end();
    assert!(code == 0 && shown.contains("is a draft"), "{shown}");
    let document = repo.read(DOCUMENT);
    for part in [
        "## Problem Statement\nNobody can buy anything.\n\nНикто: 没有人能买书。\na\n\n",
        "### Story 1: A visitor can buy\n",
        "- [ ] `shop buy 1` prints `sold`\n- [ ] --all lists 3 books\n\n",
    ] {
        assert!(document.contains(part), "{part} is not in {document}");
    }
    assert!(!repo.exists(".gsd/specs/shop/approval.json"));
}

#[test]
fn an_empty_wish_is_asked_again_and_an_empty_change_is_none() {
    let repo = Repo::new();
    repo.config("agent: command\nagents: { mine: { kind: command, command: [./agent.sh] } }\n");
    let story = "{\"title\":\"t\",\"criteria\":[\"prints 1\"]}";
    let answer = format!("{{\"requirements\":{{\"problem\":\"p\",\"stories\":[{story}]}}}}");
    repo.program("agent.sh", &format!("cat > /dev/null; echo asked >> .git/asked; printf %s '{answer}'\n"));
    repo.commit("agent");
    let mut person = at_a_terminal(&repo, "plan shop --agent mine");
    person.answer(&repo, "What do you want, and what for?", "");
    person.answer(&repo, "What do you want, and what for?", "A shop.");
    person.answer(&repo, "Approve these requirements?", "c");
    person.answer(&repo, "What should change?", "");
    person.answer(&repo, "Approve these requirements?", "a");
    let (code, shown) = person.end();
    assert!(code == 0 && shown.contains("an answer is required") && shown.contains("is approved"), "{shown}");
    assert_eq!(repo.read(".git/asked"), "asked\n");
}

#[test]
fn the_users_text_is_kept_beside_the_agents_version() {
    let repo = Repo::new();
    repo.config("agent: command\nagents: { mine: { kind: command, command: [./agent.sh] } }\n");
    let story = "{\"title\":\"A visitor can buy a book\",\"criteria\":[\"prints 1\"]}";
    let answer = format!("{{\"requirements\":{{\"problem\":\"p\",\"stories\":[{story}]}}}}");
    repo.program("agent.sh", &format!("cat > /dev/null; printf %s '{answer}'\n"));
    repo.commit("agent");
    let mine = crate::plan::WHOLE.replace("**As a**", "**Priority:** high\n\n**As a**") + "\n## My Notes\nKeep me.\n";
    repo.write(DOCUMENT, &mine);
    let mut person = at_a_terminal(&repo, "plan shop --agent mine");
    person.answer(&repo, "Approve these requirements?", "c");
    person.answer(&repo, "What should change?", "everything");
    // Requirements are shown before the user approves them.
    person.wait_for(&repo, "prints 1");
    person.wait_for(&repo, "The previous version is in");
    let edited = repo.read(DOCUMENT).replace("prints 1", "prints 2");
    repo.write(DOCUMENT, &edited);
    person.answer(&repo, "Approve these requirements?", "a");
    person.answer(&repo, "it was changed after it was shown", "c");
    person.answer(&repo, "What should change?", "more");
    person.answer(&repo, "Approve these requirements?", "c");
    person.answer(&repo, "What should change?", "more");
    person.answer(&repo, "Approve these requirements?", "d");
    let (code, shown) = person.end();
    assert_eq!(code, 0, "{shown}");
    let beside = |number: u32| format!(".gsd/specs/shop/requirements.{number}.md");
    assert_eq!((repo.read(&beside(1)), repo.read(&beside(2))), (mine, edited));
    assert!(!repo.exists(&beside(3)), "what the agent wrote itself is not kept");
    let document = repo.read(DOCUMENT);
    for part in ["- [ ] prints 1\n", "**Priority:** high\n", "## My Notes\nKeep me.\n"] {
        assert!(document.contains(part), "{part} is not in {document}");
    }
}

#[test]
fn an_answer_can_be_edited_with_the_cursor_keys() {
    let repo = Repo::new();
    let mut person = at_a_terminal(&repo, "plan shop");
    person.answer(&repo, "What problem does it solve", "Nobdy can buy books\x1b[H\x1b[C\x1b[C\x1b[Co\x1b[F.");
    person.answer(&repo, "Story 1", "A visitr\x1b[Do\x1b[D\x1b[3~o\x1b[F can leave\x17buy\x01\x1b[1;5C new");
    person.wait_for(&repo, "As a");
    person.press("\x03");
    assert_eq!(person.end().0, 130);
    let draft = repo.read(".git/mahabharatha/shop/interview.md");
    assert!(draft.contains("Nobody can buy books.") && draft.contains("A new visitor can buy"), "{draft}");
}
