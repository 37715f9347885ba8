fn main() -> std::process::ExitCode {
    mahabharatha::cli::main()
}
