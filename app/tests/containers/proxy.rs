//! A socket in front of the engine's, which can go away while the engine goes on.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

pub struct Proxy {
    dir: tempfile::TempDir,
    engine: PathBuf,
    open: Arc<Mutex<Vec<UnixStream>>>,
}

impl Proxy {
    pub fn start(engine: &str) -> Proxy {
        let engine = PathBuf::from(engine.strip_prefix("unix://").unwrap());
        let proxy = Proxy { dir: tempfile::tempdir().unwrap(), engine, open: Arc::default() };
        proxy.listen();
        proxy
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Closes every connection and takes no more.
    pub fn stop(&mut self) {
        std::fs::remove_file(self.socket()).unwrap();
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn start_again(&mut self) {
        self.listen();
    }

    fn listen(&self) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let (engine, open) = (self.engine.clone(), Arc::clone(&self.open));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = UnixStream::connect(&engine).unwrap();
                open.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
    }
}
