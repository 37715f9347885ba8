use super::*;

fn names(title: &str) -> Names {
    Names::new(title, "Keeps books").unwrap()
}

fn recommended(text: &str) -> Recommendation {
    recommend([text].into_iter(), None)
}

#[test]
fn a_name_becomes_the_name_of_a_package() {
    for (title, slug) in [("shop", "shop"), ("My Shop 2", "my-shop-2"), ("a_b.C", "a-b-c"), (" Trimmed ", "trimmed")] {
        assert_eq!(names(title).slug(), slug);
    }
    assert_eq!(names("My Shop").module(), "my_shop");
}

#[test]
fn a_hostile_name_is_refused() {
    for name in
        ["", "  ", "../x", "a/b", "2fast", "-x", "a\nb", "a\"b", "a'b", "a$(id)", "ü", "a\0", "x".repeat(51).as_str()]
    {
        assert!(Names::new(name, "d").is_err(), "{name:?}");
    }
    for description in ["", " ", "a\nb", "a\u{202e}b", "a\x1b[2J", "x".repeat(301).as_str()] {
        assert!(Names::new("a", description).is_err(), "{description:?}");
    }
}

#[test]
fn a_name_is_suggested_from_any_directory() {
    assert_eq!(Names::suggest("My Project!").as_deref(), Some("my-project"));
    assert_eq!(Names::suggest("2026-shop").as_deref(), Some("shop"));
    assert_eq!(Names::suggest("日本"), None);
    let long = Names::suggest(&"ab ".repeat(40)).unwrap();
    assert!(Names::new(&long, "d").is_ok(), "{long}");
}

#[test]
fn a_description_is_one_literal() {
    let names = Names::new("a", r#"Says "hi\n" {{slug}}"#).unwrap();
    assert_eq!(names.quoted_description(), r#""Says \"hi\\n\" {{slug}}""#);
    assert_eq!(names.markdown_description(), r#"Says "hi\\n" {{slug}}"#);
    assert_eq!(Names::new("a", "# <b>").unwrap().markdown_description(), r"\# \<b>");
}

#[test]
fn a_name_reserved_by_the_language_is_refused() {
    for (name, framework) in [
        ("queue", Framework::Flask),
        ("express", Framework::Hono),
        ("vendor", Framework::Gin),
        ("match", Framework::Clap),
        ("actix web", Framework::ActixWeb),
    ] {
        assert!(names(name).check_for(framework).is_err(), "{name}");
    }
    assert!(names("queue").check_for(Framework::Axum).is_ok());
}

#[test]
fn every_framework_is_found_by_its_word_in_its_language() {
    for framework in Framework::ALL {
        assert_eq!(Framework::parse(framework.word()), Ok(framework));
        assert_eq!(Framework::parse_in(framework.language(), framework.word()), Ok(framework));
    }
    let error = Framework::parse_in(Language::Go, "axum").unwrap_err();
    assert_eq!(error, "must be one of gin, echo, cobra for Go");
    assert_eq!(Language::parse("cobol").unwrap_err(), "must be one of python, typescript, go, rust");
}

#[test]
fn answers_are_read_from_yaml_and_from_json() {
    let yaml = Answers::parse("name: shop\nproblem: |\n  Two\n  lines\nusers: 42\n").unwrap();
    assert_eq!(yaml.name.as_deref(), Some("shop"));
    assert_eq!(yaml.questions[0].as_deref(), Some("Two\nlines\n"));
    assert_eq!(yaml.questions[1].as_deref(), Some("42"));
    let json =
        Answers::parse("{\n\t\"name\": \"shop\",\n\t\"problem\": \"Two\\nlines\\n\",\n\t\"users\": \"42\"\n}").unwrap();
    assert_eq!(json, yaml);
    assert_eq!(Answers::parse(""), Ok(Answers::default()));
}

#[test]
fn every_problem_of_the_answers_is_reported() {
    let text = format!("nam: shop\nusers: ''\nproblem: [a]\ndeployment: {}\n", "x".repeat(MAX_ANSWER + 1));
    let problems = Answers::parse(&text).unwrap_err();
    let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn the_answers_decide_the_recommended_stack() {
    for (text, framework) in [
        ("", Framework::FastApi),
        ("Forecasts from sales data", Framework::FastApi),
        ("A command line tool for CSV data", Framework::Typer),
        ("A website with React", Framework::Fastify),
        ("Runs at the edge, serverless, with React", Framework::Hono),
        ("A gateway in front of Kubernetes microservices", Framework::Gin),
        ("A CLI for our cloud infrastructure", Framework::Cobra),
        ("A service with latency below a millisecond and low memory", Framework::Axum),
        ("A parser for the terminal", Framework::Clap),
        ("We like Rust, for our data and models", Framework::Axum),
        ("It is to be a Flask application", Framework::Flask),
        ("Actix please", Framework::ActixWeb),
    ] {
        assert_eq!(recommended(text).framework, framework, "{text}");
        assert!(!recommended(text).reasons.is_empty());
    }
}

#[test]
fn a_chosen_language_is_kept() {
    let recommendation = recommend(["A Flask site with React"].into_iter(), Some(Language::Go));
    assert_eq!(recommendation.framework, Framework::Gin);
}

#[test]
fn the_charter_is_a_document_with_a_section_for_each_question() {
    let mut answers = QUESTIONS.map(|question| question.default.to_owned());
    answers[0] = "# Not a heading\nbut text\n---\n\x1b[2Jnor this\n```\nleft open".to_owned();
    let Recommendation { framework, reasons } = recommended("Forecasts from sales data");
    let charter = ProjectCharter { names: names("My Shop"), answers, framework, reasons };
    insta::assert_snapshot!(charter.markdown());
}
