pub mod api;
pub mod greeting;
pub mod settings;
